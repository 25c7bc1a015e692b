"""The metadata log under crashes: what was answered is never lost, and what comes back is a state that once was."""

import os
from random import Random

import pytest

from barnabas.protocol.errors import KafkaError
from barnabas.protocol.metadata_records import ConfigRecord, RemoveTopicRecord, TopicRecord
from barnabas.replication.cluster_control import bootstrap_records
from barnabas.replication.image import empty_image
from barnabas.replication.image_delta import replayed
from tests.replication.clusters import CLUSTER_ID, uuid
from tests.replication.seams import Quorum
from tests.simulation.files import Crash, SimulatedFiles

SEEDS = int(os.environ.get("METADATA_CRASH_SEEDS", "60"))
LIVES = 12


def content(image):
    """What the image says, whatever it took to get there."""
    return image._replace(end_offset=0, epoch=0, timestamp_ms=0, controller_id=0)


class Run:
    """One disk, and one broker after the other on it."""

    def __init__(self, seed):
        self.seed = seed
        self.random = Random(seed)
        self.files = SimulatedFiles(Random(seed + 1))
        self.files.makedirs("/data")
        self.files.sync_dir("/")
        self.states = [content(empty_image(CLUSTER_ID))]
        """What may be found after a crash: the last answered state and every one appended since."""
        self.epoch = 0
        self.end_offset = 0
        self.numbers = iter(range(1, 10**9))

    def live(self):
        """Until the process dies."""
        settings = {
            "batch_bytes_max": self.random.choice([300, 1 << 20]),
            "max_record_bytes_between_snapshots": self.random.choice([500, 2000, 1 << 30]),
        }
        if self.random.random() < 0.9:
            self.files.crash_after(self.random.randrange(60))
        try:
            quorum = Quorum(self.files, "/data", **settings)
            self.check_found(quorum.metadata.image)
            self.work(quorum)
            if self.random.random() < 0.5:
                quorum.stop()
        except Crash:
            pass
        self.files.cut_power() if self.random.random() < 0.7 else self.files.kill()

    def check_found(self, image):
        """What it found is no more durable than before: only the new leader's fsync makes it so."""
        about = f"seed={self.seed}"
        assert content(image) in self.states, about
        assert image.end_offset >= self.end_offset, about
        last = max(index for index, state in enumerate(self.states) if state == content(image))
        self.states = self.states[: last + 1]

    def work(self, quorum):
        found = content(quorum.metadata.image)
        self.states.append(content(replayed(quorum.metadata.appended_image, bootstrap_records())))
        quorum.metadata.become_leader(lambda error: self.led(quorum, found, error))
        for _ in range(self.random.randrange(30)):
            self.append(quorum)
            if self.random.random() < 0.5:
                quorum.run()
            if self.random.random() < 0.1:
                quorum.metadata.take_snapshot()
            if self.random.random() < 0.1:
                quorum.clock.advance(60_000)
        quorum.run()

    def led(self, quorum, found, error):
        self.answered(found, quorum.metadata.image.end_offset, error)
        assert quorum.metadata.epoch > self.epoch, f"seed={self.seed}: an epoch was used twice"
        self.epoch = quorum.metadata.epoch

    def append(self, quorum):
        records = self.records(quorum.metadata.appended_image)
        state = content(replayed(quorum.metadata.appended_image, records))
        self.states.append(state)  # from here on it may be found: the crash can come after the last byte was written
        quorum.metadata.append(records, lambda error: None)
        end_offset = quorum.metadata.appended_image.end_offset
        quorum.metadata.append([], lambda error: self.answered(state, end_offset, error))

    def answered(self, state, end_offset, error):
        assert error is None
        self.states = self.states[self.states.index(state) :]
        self.end_offset = end_offset

    def records(self, image):
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
def test_no_answered_decision_is_lost_and_none_comes_back_in_part(first):
    for seed in range(first, first + 20):
        run = Run(seed)
        for _ in range(LIVES):
            run.live()


def test_a_full_disk_refuses_and_once_there_is_room_it_goes_on():
    files = SimulatedFiles(Random(1))
    quorum = Quorum(files, "/data", batch_bytes_max=300).lead()
    files.capacity_bytes = files.used_bytes() + 400
    errors = []
    many = [TopicRecord(name=f"topic-{number}", topic_id=uuid(number)) for number in range(20)]
    quorum.metadata.append(many, errors.append)  # the first batches of the transaction fit
    quorum.run()
    assert isinstance(errors[0], KafkaError)
    assert quorum.metadata.appended_image.topics == {}
    files.capacity_bytes = 1 << 40
    quorum.append(TopicRecord(name="after", topic_id=uuid(99)))
    files.kill()
    assert set(Quorum(files, "/data").metadata.image.topics) == {"after"}


def test_after_a_failed_fsync_nothing_is_decided_any_more():
    files = SimulatedFiles(Random(1))
    quorum = Quorum(files, "/data").lead()
    files.failing_syncs.add("__cluster_metadata-0")
    errors = []
    before = quorum.metadata.image
    quorum.metadata.append([TopicRecord(name="lost", topic_id=uuid(1))], errors.append)
    quorum.metadata.append([], errors.append)
    quorum.run()
    files.failing_syncs.clear()
    quorum.metadata.append([TopicRecord(name="later", topic_id=uuid(2))], errors.append)
    quorum.metadata.append([], errors.append)
    assert len(errors) == 4
    assert all(isinstance(error, KafkaError) for error in errors)
    assert quorum.metadata.image is before


def test_a_rotten_batch_stops_the_start_instead_of_losing_what_follows():
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
