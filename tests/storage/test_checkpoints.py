"""Small text files that Kafka reads too, and what is made of damaged ones."""

import pytest

from barnabas.protocol.types import ZERO_UUID, TopicPartition
from barnabas.storage.checkpoints import CorruptCheckpoint, decode_offsets, encode_offsets
from barnabas.storage.leader_epochs import LeaderEpochs
from barnabas.storage.metadata_files import (
    CorruptMetadata,
    MetaProperties,
    decode_partition_metadata,
    encode_partition_metadata,
)

UUID = bytes(range(16))


def test_offsets_are_written_as_kafka_writes_them() -> None:
    data = encode_offsets({TopicPartition("orders", 0): 881, TopicPartition("a-b", 12): 0})
    assert data == b"0\n2\norders 0 881\na-b 12 0\n"
    assert decode_offsets(data) == {("orders", 0): 881, ("a-b", 12): 0}


def test_an_empty_file_is_an_empty_checkpoint() -> None:
    assert decode_offsets(b"") == {}


@pytest.mark.parametrize(
    "data",
    [
        b"1\n0\n",  # another version
        b"0\n2\norders 0 881\n",  # an entry is missing
        b"0\n1\norders 0\n",  # a field is missing
        b"0\n1\norders zero 881\n",
        b"0\nmany\n",
        b"\0" * 40 + b"\n\0",  # zeros, as after a power cut
        b"\xff\xfe\n\n\n",
    ],
)
def test_a_damaged_checkpoint_is_told_from_a_good_one(data: bytes) -> None:
    with pytest.raises(CorruptCheckpoint):
        decode_offsets(data)


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    made = LeaderEpochs()
    for epoch, start_offset in entries:
        made.assign(epoch, start_offset)
    return made


def test_leader_epochs_survive_their_file() -> None:
    made = epochs((0, 0), (3, 17))
    assert made.to_bytes() == b"0\n2\n0 0\n3 17\n"
    loaded = LeaderEpochs.from_bytes(made.to_bytes())
    assert (loaded.entries(), loaded.latest, loaded.is_dirty) == ([(0, 0), (3, 17)], 3, False)


@pytest.mark.parametrize("data", [b"0\n1\n0\n", b"0\n1\nx 0\n", b"0\n1\n99999999999 0\n"])
def test_a_damaged_file_of_leader_epochs_is_told_from_a_good_one(data: bytes) -> None:
    with pytest.raises(CorruptCheckpoint):
        LeaderEpochs.from_bytes(data)


@pytest.mark.parametrize(
    ("assigned", "expected"),
    [
        ([(0, 0), (0, 9)], [(0, 0)]),  # an epoch keeps its start
        ([(0, 0), (2, 10), (1, 20)], [(0, 0), (1, 20)]),  # a lower epoch later: the higher one was never committed
        ([(0, 0), (1, 10), (2, 10)], [(0, 0), (2, 10)]),  # an epoch that wrote nothing
        ([(0, 5), (1, 3)], [(1, 3)]),
        ([(-1, 5)], []),  # none
    ],
)
def test_epochs_and_their_starts_both_ascend(assigned: list[tuple[int, int]], expected: list[tuple[int, int]]) -> None:
    assert epochs(*assigned).entries() == expected


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (1, (1, 20)),  # ended where the next began
        (2, (1, 20)),  # unknown: the largest below it
        (5, (5, 99)),  # the latest goes on to the log's end
        (6, (-1, -1)),  # of the future
        (0, (0, 10)),  # before all: where the log's first epoch begins
        (-1, (-1, -1)),
    ],
)
def test_where_an_epoch_ended(asked: int, answer: tuple[int, int]) -> None:
    assert epochs((1, 10), (4, 20), (5, 30)).end_offset_for(asked, 99) == answer


def test_epochs_are_cut_at_both_ends_of_the_log() -> None:
    made = epochs((0, 0), (1, 10), (2, 20))
    made.truncate_from_start(15)
    assert made.entries() == [(1, 15), (2, 20)]
    made.truncate_from_end(20)
    assert (made.entries(), made.latest) == ([(1, 15)], 1)
    assert [made.epoch_of_offset(offset) for offset in (14, 15, 99)] == [-1, 1, 1]


def test_meta_properties_are_kafkas() -> None:
    written = MetaProperties("5L6g3nShT-eMCtK--X86sw", 1, UUID).to_bytes()
    lines = written.decode().splitlines()
    assert lines[:3] == ["version=1", "cluster.id=5L6g3nShT-eMCtK--X86sw", "node.id=1"]
    assert MetaProperties.from_bytes(b"#\n#Mon Jan 01 2024\n" + written) == ("5L6g3nShT-eMCtK--X86sw", 1, UUID)
    assert MetaProperties.from_bytes(b"version=1\ncluster.id=a\nnode.id=2\n") == ("a", 2, ZERO_UUID)


@pytest.mark.parametrize("data", [b"", b"cluster.id=a\n", b"cluster.id=a\nnode.id=one\n", b"\xff"])
def test_damaged_meta_properties_are_told_from_good_ones(data: bytes) -> None:
    with pytest.raises(CorruptMetadata):
        MetaProperties.from_bytes(data)


def test_partition_metadata_are_kafkas() -> None:
    assert encode_partition_metadata(UUID) == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert decode_partition_metadata(encode_partition_metadata(UUID)) == UUID


@pytest.mark.parametrize("data", [b"", bytes(43), b"version: 0\n", b"version: 0\ntopic_id: a", b"topic_id: x\na: 1"])
def test_damaged_partition_metadata_are_told_from_good_ones(data: bytes) -> None:
    with pytest.raises(CorruptMetadata):
        decode_partition_metadata(data)
