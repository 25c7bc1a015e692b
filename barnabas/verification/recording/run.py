"""A run from its beginning to its end: the topic, the load in phases, the draining, the reading back.

When the load is over nobody is hurried: producers wait for their answers and consumers for the last records, as long as
something moves. Who still waits when nothing has moved for the timeout is stuck, and the history says so.
"""

import subprocess
import threading
import time
from functools import partial
from secrets import token_hex
from typing import TextIO

from confluent_kafka import KafkaException

from barnabas.output import human_duration, plural
from barnabas.verification import events
from barnabas.verification.content import Content
from barnabas.verification.judge import Verdict
from barnabas.verification.recording.producing import ProducerWorker, Sends
from barnabas.verification.recording.progress import ProgressLine
from barnabas.verification.recording.reading import Member, Reader, Reading, consumer_client
from barnabas.verification.recording.settings import CannotVerify, Settings
from barnabas.verification.recording.tape import Tape, now_ms
from barnabas.verification.recording.topic import Topic, prepare, remove
from barnabas.verification.recording.transactions import TransactionalWorker
from barnabas.verification.recording.workers import Workers

READ_BACKS = 2
LOOK_AGAIN_S = 0.05
PROGRESS_S = 1.0
# A partition ends where its last record ends, of whatever transaction: who cannot read up to there is stuck.
READ_UNCOMMITTED = {"isolation.level": "read_uncommitted"}


def record(settings: Settings, history: TextIO | None) -> Verdict:
    """Puts the load on the cluster and returns the verdict. Ctrl-C ends the load early."""
    run_id = token_hex(8)
    topic = prepare(settings, run_id)
    progress = ProgressLine()
    progress.step(f"writing to and reading from topic {topic.name}, {plural(topic.partitions, 'partition')}")
    run = Run(settings, topic, Tape(history), progress)
    try:
        run.execute(run_id)
    except KafkaException as error:
        raise CannotVerify(f"{error.args[0].str()} ({error.args[0].name()})") from None
    finally:
        progress.end()
        try:
            run.stop()
        finally:
            remove(settings, topic, run.groups)
    return run.tape.verdict()


class Run:
    def __init__(self, settings: Settings, topic: Topic, tape: Tape, progress: ProgressLine) -> None:
        self._settings = settings
        self._topic = topic
        self._progress = progress
        self.tape = tape
        self._workers = Workers()
        self._load_is_over = threading.Event()
        self._reading: Reading | None = None
        self.groups = [f"{topic.name}-group-{number}" for number in range(1, settings.load.groups + 1)]

    def execute(self, run_id: str) -> None:
        content = Content(run_id, self._settings.load.record_bytes)
        first_offsets = self._begin(run_id)
        reading = self._reading = Reading(self._topic.name, first_offsets, content, self._settings, self.tape)
        readers = [
            Reader(f"reader-{number}", events.READER, reading) for number in range(1, self._settings.load.readers + 1)
        ]
        for reader in readers:
            self._workers.start(reader.name, reader.run)
        groups = {group: self._start_members(group, reading) for group in self.groups}
        producers = self._start_producers(content)
        self._pass_phases()
        self._load_is_over.set()
        self._progress.step("the load is over; waiting for answers and for the last records")
        for producer in producers:
            producer.join()
        self._workers.check()
        ends = {index: end for index, (_, end) in self._bounds().items()}
        names = {reader.name: reader.positions for reader in readers} | groups
        self._wait_for(names, ends)
        reading_back = self._read_back(reading, ends)
        self._note_bounds(ends)
        self._note_endings(names | reading_back, ends)

    def stop(self) -> None:
        """Ends all threads, whatever they do."""
        self._load_is_over.set()
        if self._reading is not None:
            self._reading.is_over.set()
        self._workers.join()

    def _begin(self, run_id: str) -> list[int]:
        found = self._bounds()
        if len(found) < self._topic.partitions:
            raise CannotVerify(f"no broker says where the partitions of topic {self._topic.name} end", "are all up?")
        first_offsets = [found[index][1] for index in range(self._topic.partitions)]
        sending = self._settings.sending
        is_shared = self._settings.topic.name is not None
        self.tape.record(
            events.Begin(
                now_ms(), run_id, self._topic.name, first_offsets, sending.acks, sending.is_idempotent, is_shared
            )
        )
        return first_offsets

    def _start_members(self, group: str, reading: Reading) -> dict[int, int]:
        """Starts the members of a group. Returns where the group is, as they write it down."""
        positions: dict[int, int] = {}
        for number in range(1, self._settings.load.consumers + 1):
            member = Member(f"{group.removeprefix(self._topic.name)[1:]}-member-{number}", group, positions, reading)
            self._workers.start(member.name, member.run)
        return positions

    def _start_producers(self, content: Content) -> list[threading.Thread]:
        settings, topic = self._settings, self._topic
        all_sends = [
            Sends(number, topic.name, topic.partitions, settings, self.tape)
            for number in range(settings.load.producers)
        ]
        workers = [
            TransactionalWorker(sends, f"{topic.name}-{sends.number}", settings.timeout_s, self.tape)
            if settings.sending.is_transactional
            else ProducerWorker(sends, settings.timeout_s)
            for sends in all_sends
        ]
        return [
            self._workers.start(f"producer-{number}", partial(worker.run, content, self._load_is_over))
            for number, worker in enumerate(workers)
        ]

    # ---- the load

    def _pass_phases(self) -> None:
        load = self._settings.load
        try:
            for phase in range(1, load.phases + 1):
                seconds = load.seconds / load.phases
                self._progress.step(f"phase {phase} of {load.phases}: {human_duration(seconds)}")
                self._pass(seconds)
                if load.between is not None and phase < load.phases:
                    self._run_command(phase, load.between)
        except KeyboardInterrupt:
            self._progress.step("the load ends early")

    def _pass(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._workers.wait(min(left, PROGRESS_S))
            self._progress.show(self._counts())

    def _counts(self) -> str:
        judge = self.tape.judge
        committed = f", {judge.committed:,} transactions committed" if judge.committed else ""
        return f"{judge.sent:,} records sent, {judge.acknowledged:,} acknowledged, {judge.read:,} read{committed}"

    def _run_command(self, phase: int, command: str) -> None:
        """Runs the user's command while the load goes on. What it prints goes to stderr; stdout is for the verdict."""
        self._progress.step(f"running: {command}")
        status = subprocess.run(command, shell=True, stdin=subprocess.DEVNULL, stdout=2, check=False).returncode
        if status != 0:
            self._progress.step(f"the command failed with exit code {status}; the load goes on")
        self.tape.record(events.Command(now_ms(), phase, command, status))

    # ---- the end

    def _bounds(self) -> dict[int, tuple[int, int]]:
        """Returns where partitions begin and end, those of which a broker says so. Errors on the way are no event: the
        history may not have begun."""
        settings = self._settings._replace(properties=self._settings.properties | READ_UNCOMMITTED)
        client = consumer_client(settings, "bounds", f"{self._topic.name}-bounds", lambda name, error: None)
        try:
            return self._topic.bounds(client)
        finally:
            client.close()

    def _wait_for(self, names: dict[str, dict[int, int]], ends: dict[int, int]) -> None:
        """Waits until all have read everything, or until nobody has come farther for the timeout."""
        deadline, before = time.monotonic() + self._settings.timeout_s, -1
        while time.monotonic() < deadline:
            if all(positions.get(index, 0) >= end for positions in names.values() for index, end in ends.items()):
                return
            if (read := self.tape.judge.read) > before:
                deadline, before = time.monotonic() + self._settings.timeout_s, read
            self._workers.wait(LOOK_AGAIN_S)

    def _read_back(self, reading: Reading, ends: dict[int, int]) -> dict[str, dict[int, int]]:
        """Reads everything again from the beginning. The others have stopped, so that nothing hides behind them."""
        self._stop_reading(reading)
        reading.is_over.clear()
        self._progress.step("reading everything back")
        readers = [Reader(f"read-back-{number}", events.READ_BACK, reading) for number in range(1, READ_BACKS + 1)]
        for reader in readers:
            self._workers.start(reader.name, reader.run)
        names = {reader.name: reader.positions for reader in readers}
        self._wait_for(names, ends)
        self._stop_reading(reading)
        return names

    def _stop_reading(self, reading: Reading) -> None:
        reading.is_over.set()
        self._workers.join()
        self._workers.check()

    def _note_bounds(self, ends: dict[int, int]) -> None:
        """Notes where partitions begin now, after all has been read: retention may have moved it meanwhile."""
        found = self._bounds() if ends else {}
        for index in range(self._topic.partitions):
            start, end = (found[index][0], ends[index]) if index in found and index in ends else (None, None)
            self.tape.record(events.Bounds(now_ms(), index, start, end))

    def _note_endings(self, names: dict[str, dict[int, int]], ends: dict[int, int]) -> None:
        for name, positions in names.items():
            for index in ends:
                self.tape.record(events.Ended(now_ms(), name, index, positions.get(index, 0)))
