"""The metadata log under crashes: what was answered is never lost, and what comes back is a state that once was."""

import os
from random import Random

import pytest

from barnabas.base.promise import Promise, resolved
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord
from barnabas.protocol.stored.metadata_records import ConfigRecord, RemoveTopicRecord, TopicRecord
from barnabas.replication.controller.cluster_control import first_records
from barnabas.replication.metadata.image import MetadataImage, empty_image
from barnabas.replication.metadata.image_delta import replayed
from tests.replication.clusters import CLUSTER_ID, uuid
from tests.replication.quorums import Quorum
from tests.simulation.files import Crash, SimulatedFiles
from tests.simulation.world import World

SEEDS = int(os.environ.get("METADATA_CRASH_SEEDS", "60"))
LIVES = 12


def content(image: MetadataImage) -> MetadataImage:
    """What the image says, whatever it took to get there."""
    return image._replace(end_offset=0, epoch=0, timestamp_ms=0, controller_id=0)


class Run:
    """One disk, and one broker after the other on it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        world = World(seed)
        self.scheduler = world.scheduler
        self.machine = world.machine("controller")
        self.files = self.machine.files
        self.files.makedirs("/data")
        self.files.sync_dir("/")
        self.states = [content(empty_image(CLUSTER_ID))]
        """What may be found after a crash: the last answered state and every one appended since."""
        self.epoch = 0
        self.end_offset = 0
        self.numbers = iter(range(1, 10**9))

    def live(self) -> None:
        """Until the process dies."""
        settings = {
            "batch_bytes_max": self.random.choice([300, 1 << 20]),
            "max_record_bytes_between_snapshots": self.random.choice([500, 2000, 1 << 30]),
        }
        if self.random.random() < 0.9:
            self.files.crash_after(self.random.randrange(60))
        try:
            environment = self.machine.start().environment
            quorum = Quorum(self.files, "/data", environment=environment, **settings)
            self.check_found(quorum.found())
            self.work(quorum)
            if self.random.random() < 0.5:
                quorum.stop()
        except Crash:
            pass
        self.machine.cut_power() if self.random.random() < 0.7 else self.machine.kill()

    def check_found(self, image: MetadataImage) -> None:
        """What it found is no more durable than before: only the new leader's fsync makes it so."""
        about = f"seed={self.seed}"
        assert content(image) in self.states, about
        assert image.end_offset >= self.end_offset, about
        last = max(index for index, state in enumerate(self.states) if state == content(image))
        self.states = self.states[: last + 1]

    def work(self, quorum: Quorum) -> None:
        found = content(quorum.appended_image)
        self.states.append(content(replayed(quorum.appended_image, first_records(1))))
        quorum.controller.start()
        self.scheduler.run_until_true(lambda: quorum.controller.is_active, within_ms=10_000, what="it leads")
        self.answered(found, quorum.image.end_offset, resolved(None))
        assert quorum.epoch > self.epoch, f"seed={self.seed}: an epoch was used twice"
        self.epoch = quorum.epoch
        for _ in range(self.random.randrange(30)):
            self.append(quorum)
            self.scheduler.run_for(self.random.choice([0, 1, 5, 50]))
            if self.random.random() < 0.1:
                quorum.controller.snapshotter.take()
            if self.random.random() < 0.1:
                self.scheduler.run_for(60_000)
        self.scheduler.run_for(50)

    def append(self, quorum: Quorum) -> None:
        records = self.records(quorum.appended_image)
        state = content(replayed(quorum.appended_image, records))
        self.states.append(state)  # from here on it may be found: the crash can come after the last byte was written
        quorum.controller.append(records)
        end_offset = quorum.appended_image.end_offset
        quorum.controller.append([]).when_done(lambda answer: self.answered(state, end_offset, answer))

    def answered(self, state: MetadataImage, end_offset: int, answer: Promise[None]) -> None:
        assert answer.error is None
        self.states = self.states[self.states.index(state) :]
        self.end_offset = end_offset

    def records(self, image: MetadataImage) -> list[MetadataRecord]:
        random = self.random
        existing = list(image.topics)
        if existing and random.random() < 0.4:
            return [RemoveTopicRecord(topic_id=image.topics[random.choice(existing)].topic_id)]
        if existing and random.random() < 0.3:
            name, value = random.choice(existing), random.choice([None, "1", "2"])
            return [ConfigRecord(resource_type=2, resource_name=name, name="flush.ms", value=value)]
        numbers = [next(self.numbers) for _ in range(random.choice([1, 1, 1, 15]))]
        return [TopicRecord(name=f"topic-{number}", topic_id=uuid(number)) for number in numbers]


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_no_answered_decision_is_lost_and_none_comes_back_in_part(first: int) -> None:
    for seed in range(first, first + 20):
        run = Run(seed)
        for _ in range(LIVES):
            run.live()


def test_a_full_disk_refuses_and_once_there_is_room_it_goes_on() -> None:
    files = SimulatedFiles(Random(1))
    quorum = Quorum(files, "/data", batch_bytes_max=300).lead()
    files.capacity_bytes = files.used_bytes() + 400
    many = [TopicRecord(name=f"topic-{number}", topic_id=uuid(number)) for number in range(20)]
    refused = quorum.controller.append(many)  # the first batches of the transaction fit
    quorum.run()
    assert isinstance(refused.error, KafkaError)
    assert quorum.appended_image.topics == {}
    files.capacity_bytes = 1 << 40
    quorum.append(TopicRecord(name="after", topic_id=uuid(99)))
    files.kill()
    assert set(Quorum(files, "/data").found().topics) == {"after"}


def test_after_a_failed_fsync_nothing_is_decided_any_more() -> None:
    files = SimulatedFiles(Random(1))
    quorum = Quorum(files, "/data").lead()
    files.failing_syncs.add("__cluster_metadata-0")
    before, append = quorum.image, quorum.controller.append
    answers = [append([TopicRecord(name="lost", topic_id=uuid(1))]), append([])]
    quorum.run()
    files.failing_syncs.clear()
    answers += [append([TopicRecord(name="later", topic_id=uuid(2))]), append([])]
    assert all(isinstance(answer.error, KafkaError) for answer in answers)
    assert (quorum.image, quorum.failures) == (before, [answers[0].error])


def test_a_rotten_batch_stops_the_start_instead_of_losing_what_follows() -> None:
    files = SimulatedFiles(Random(1))
    quorum = Quorum(files, "/data").lead()
    quorum.append(TopicRecord(name="first", topic_id=uuid(1)))
    quorum.append(TopicRecord(name="second", topic_id=uuid(2)))
    quorum.stop()
    files.kill()
    path = f"{quorum.log.path}/00000000000000000000.log"
    files.flip_bit(path, files.read_bytes(path).index(b"first"))
    with pytest.raises(KafkaError, match="CRC"):
        Quorum(files, "/data")
