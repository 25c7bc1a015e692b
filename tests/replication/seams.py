"""A clock that is moved, workers that are stepped, a log dir to start brokers in."""

from barnabas.protocol.errors import KafkaStorageError
from barnabas.replication.metadata_batches import QuorumVoter
from barnabas.replication.metadata_log import (
    METADATA_PARTITION,
    METADATA_TOPIC_ID,
    MetadataLog,
    MetadataLogSettings,
    metadata_log_config,
)
from barnabas.storage.log_manager import LogManager
from tests.replication.clusters import CLUSTER_ID, uuid

VOTERS = [QuorumVoter(1, uuid(201), [("CONTROLLER", "localhost", 9093)])]


class ManualTimer:
    def __init__(self, at_ms, callback):
        self.at_ms = at_ms
        self.callback = callback

    def cancel(self):
        self.callback = None


class ManualClock:
    def __init__(self):
        self.time_ms = 1_700_000_000_000
        self.timers = []
        self.soon = []

    def now_ms(self):
        return self.time_ms

    def call_later(self, delay_ms, callback, *args):
        self.timers.append(ManualTimer(self.time_ms + delay_ms, lambda: callback(*args)))
        return self.timers[-1]

    def call_soon(self, callback, *args):
        self.soon.append(lambda: callback(*args))

    def advance(self, delta_ms):
        self.time_ms += delta_ms
        due = [timer for timer in self.timers if timer.at_ms <= self.time_ms]
        self.timers = [timer for timer in self.timers if timer not in due]
        for timer in due:
            if timer.callback is not None:
                timer.callback()


class SteppedWorkers:
    def __init__(self):
        self.jobs = []

    def run(self, job, then):
        self.jobs.append((job, then))

    def step(self):
        job, then = self.jobs.pop(0)
        try:
            result, error = job(), None
        except (OSError, KafkaStorageError) as raised:
            result, error = None, raised
        then(result, error)


class ListReport:
    def __init__(self):
        self.lines = []

    def info(self, text, **fields):
        self.lines.append(("info", text))

    def warning(self, text, **fields):
        self.lines.append(("warning", text))

    def error(self, text, **fields):
        self.lines.append(("error", text))

    def texts(self, level):
        return [text for found, text in self.lines if found == level]


class Quorum:
    """A quorum of one on one log dir: what a broker's start makes of it."""

    def __init__(self, files, path, **settings):
        self.files = files
        self.clock = ManualClock()
        self.workers = SteppedWorkers()
        self.report = ListReport()
        self.commits = []
        self.logs = LogManager([path], files=files, clock=self.clock, workers=self.workers, report=self.report)
        self.logs.open()
        self.log = self.logs.create(METADATA_PARTITION, METADATA_TOPIC_ID, metadata_log_config())
        self.metadata = MetadataLog(
            self.log,
            MetadataLogSettings(1, CLUSTER_ID, VOTERS, **settings),
            files=files,
            clock=self.clock,
            workers=self.workers,
            report=self.report,
            on_commit=lambda image, changes: self.commits.append((image, changes)),
        )

    def lead(self):
        self.metadata.become_leader(raise_if_failed)
        self.run()
        return self

    def run(self):
        """Until nothing is left to do at this time."""
        while self.clock.soon or self.workers.jobs:
            while self.clock.soon:
                self.clock.soon.pop(0)()
            if self.workers.jobs:
                self.workers.step()

    def append(self, *records):
        errors = []
        self.metadata.append(records, errors.append)
        self.run()
        assert errors == [None], errors

    def stop(self):
        self.metadata.close()
        self.logs.close()


def raise_if_failed(error):
    if error is not None:
        raise error
