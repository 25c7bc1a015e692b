"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords: where a log begins and ends, what lies at a time or an epoch."""

from pathlib import Path

import pytest

from barnabas.protocol.compression import CompressionType
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.testing import Broker
from tests.broker.wire import RawClient, batch_of, good, values_of

NONE = ErrorCode.NONE
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
T0 = 1_700_000_000_000


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    name = f"offsets-{abs(hash(request.node.name))}"
    broker.create_topics({name: 1})
    return name


@pytest.fixture(scope="module")
def history(broker: Broker) -> str:
    """Offsets 0 to 8 in three batches, one of them compressed; their times rise and then fall back."""
    broker.create_topics({"history": 1})
    with RawClient(broker.port) as client:
        client.produce("history", good(timestamps=[T0, T0 + 10, T0 + 20]))
        client.produce("history", good(timestamps=[T0 + 100, T0 + 900, T0 + 100], compression=CompressionType.LZ4))
        client.produce("history", good(timestamps=[T0 + 50, T0 + 300, T0 + 310]))
    return "history"


# ---- ListOffsets


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_tells_where_a_log_begins_and_ends(client: RawClient, history: str, version: int) -> None:
    for timestamp, offset in ((EARLIEST, 0), (LATEST, 9)):
        answer = client.list_offset(history, timestamp, version=version)
        assert (answer.error_code, answer.offset, answer.timestamp) == (NONE, offset, -1)
        assert answer.leader_epoch == (0 if version >= 4 else -1)


@pytest.mark.parametrize(
    ("timestamp", "offset", "found"),
    [
        (0, 0, T0),  # long before
        (T0, 0, T0),
        (T0 + 1, 1, T0 + 10),  # between two records of a batch
        (T0 + 20, 2, T0 + 20),
        (T0 + 21, 3, T0 + 100),  # between two batches
        (T0 + 101, 4, T0 + 900),  # inside a compressed batch
        (T0 + 900, 4, T0 + 900),
        (T0 + 901, -1, -1),  # after everything
        (2**62, -1, -1),
    ],
)
def test_the_first_record_at_or_after_a_time(
    client: RawClient, history: str, timestamp: int, offset: int, found: int
) -> None:
    answer = client.list_offset(history, timestamp)
    assert (answer.error_code, answer.offset, answer.timestamp) == (NONE, offset, found)
    assert answer.leader_epoch == (-1 if offset < 0 else 0)


def test_the_record_with_the_largest_time(client: RawClient, history: str) -> None:
    answer = client.list_offset(history, MAX_TIMESTAMP)
    assert (answer.error_code, answer.offset, answer.timestamp) == (NONE, 4, T0 + 900)


def test_an_empty_log_has_no_times(client: RawClient, topic: str) -> None:
    for timestamp in (MAX_TIMESTAMP, 0, T0):
        answer = client.list_offset(topic, timestamp)
        assert (answer.error_code, answer.offset, answer.timestamp) == (NONE, -1, -1)
    for timestamp in (EARLIEST, LATEST, EARLIEST_LOCAL):
        assert client.list_offset(topic, timestamp).offset == 0


@pytest.mark.parametrize(
    ("timestamp", "since"),
    [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING_UPLOAD, 11)],
)
def test_special_times_are_understood_since_the_version_that_brought_them(
    client: RawClient, history: str, timestamp: int, since: int
) -> None:
    before = client.list_offset(history, timestamp, version=since - 1)
    assert (before.error_code, before.offset) == (ErrorCode.UNSUPPORTED_VERSION, -1)
    assert client.list_offset(history, timestamp, version=since).error_code == NONE


@pytest.mark.parametrize("timestamp", [LATEST_TIERED, EARLIEST_PENDING_UPLOAD])
def test_there_is_no_tiered_storage(client: RawClient, history: str, timestamp: int) -> None:
    answer = client.list_offset(history, timestamp)
    assert (answer.error_code, answer.offset, answer.timestamp) == (NONE, -1, -1)


def test_a_time_that_means_nothing_is_refused(client: RawClient, history: str) -> None:
    assert client.list_offset(history, -7).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_what_cannot_be_listed_is_told(client: RawClient, history: str) -> None:
    assert client.list_offset("no-such-topic", LATEST).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.list_offset(history, LATEST, partition=5).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.list_offset(history, LATEST, leader_epoch=1_000).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert client.list_offset(history, LATEST, leader_epoch=0).error_code == NONE


def test_the_same_partition_twice_is_refused(client: RawClient, history: str) -> None:
    asked = [ListOffsetsPartition(partition_index=0, timestamp=timestamp) for timestamp in (LATEST, EARLIEST)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=history, partitions=asked)])
    codes = {answer.error_code for answer in client.call(request).topics[0].partitions}
    assert codes == {ErrorCode.INVALID_REQUEST}


def test_those_who_read_committed_see_the_last_stable_offset(client: RawClient, history: str) -> None:
    asked = [ListOffsetsPartition(partition_index=0, timestamp=LATEST)]
    topics = [ListOffsetsTopic(name=history, partitions=asked)]
    answer = client.call(ListOffsetsRequest(replica_id=-1, isolation_level=1, topics=topics))
    assert answer.topics[0].partitions[0].offset == 9


# ---- OffsetForLeaderEpoch


def end_of_epoch(
    client: RawClient, topic: str, leader_epoch: int, *, current: int = -1, version: int = 4, partition: int = 0
) -> tuple[ErrorCode, int, int]:
    asked = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=leader_epoch)
    topics = [OffsetForLeaderTopic(topic=topic, partitions=[asked])]
    answer = client.call(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics), version).topics[0].partitions[0]
    return ErrorCode(answer.error_code), answer.leader_epoch, answer.end_offset


@pytest.mark.parametrize("version", range(2, 5))
def test_every_version_tells_where_an_epoch_ended(client: RawClient, history: str, version: int) -> None:
    assert end_of_epoch(client, history, 0, version=version) == (NONE, 0, 9)


@pytest.mark.parametrize(
    ("leader_epoch", "current", "expected"),
    [
        (0, 0, (NONE, 0, 9)),
        (1, -1, (NONE, -1, -1)),  # an epoch that never was
        (-1, -1, (NONE, -1, -1)),
        (0, 1_000, (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)),
    ],
)
def test_the_end_of_an_epoch(
    client: RawClient, history: str, leader_epoch: int, current: int, expected: tuple[ErrorCode, int, int]
) -> None:
    assert end_of_epoch(client, history, leader_epoch, current=current) == expected


def test_the_end_of_an_epoch_before_a_log_without_records(client: RawClient, topic: str) -> None:
    assert end_of_epoch(client, topic, -2) == (NONE, -2, 0)  # as of any epoch before the first
    assert end_of_epoch(client, topic, -1) == (NONE, -1, -1)


def test_the_end_of_an_epoch_of_what_does_not_exist(client: RawClient, history: str) -> None:
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert end_of_epoch(client, "no-such-topic", 0) == unknown
    assert end_of_epoch(client, history, 0, partition=4) == unknown


# ---- DeleteRecords


def delete(
    client: RawClient, topic: str, offset: int, *, partition: int = 0, version: int = 2
) -> tuple[ErrorCode, int]:
    asked = DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[asked])], timeout_ms=10_000)
    answer = client.call(request, version).topics[0].partitions[0]
    return ErrorCode(answer.error_code), answer.low_watermark


@pytest.mark.parametrize("version", range(0, 3))
def test_every_version_deletes_up_to_an_offset(client: RawClient, topic: str, version: int) -> None:
    client.produce(topic, good())
    client.produce(topic, good())
    assert delete(client, topic, 4, version=version) == (NONE, 4)
    assert client.list_offset(topic, EARLIEST).offset == 4
    assert client.fetch(topic, 3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    data = client.fetch(topic, 4)
    assert (data.log_start_offset, len(values_of(data))) == (4, 3), "the batch that holds the offset comes whole"
    assert client.produce(topic, good()).log_start_offset == 4


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0, (NONE, 2)),  # is gone already
        (2, (NONE, 2)),
        (6, (NONE, 6)),
        (-1, (NONE, 6)),  # everything
        (7, (ErrorCode.OFFSET_OUT_OF_RANGE, -1)),
        (-2, (ErrorCode.OFFSET_OUT_OF_RANGE, -1)),
        (2**63 - 1, (ErrorCode.OFFSET_OUT_OF_RANGE, -1)),
    ],
)
def test_how_far_records_can_be_deleted(
    client: RawClient, topic: str, offset: int, expected: tuple[ErrorCode, int]
) -> None:
    client.produce(topic, good())
    client.produce(topic, good())
    assert delete(client, topic, 2) == (NONE, 2)
    assert delete(client, topic, offset) == expected


def test_a_log_that_was_emptied_goes_on_at_its_end(client: RawClient, topic: str) -> None:
    client.produce(topic, good())
    assert delete(client, topic, -1) == (NONE, 3)
    assert (client.fetch(topic, 3).error_code, client.list_offset(topic, 0).offset) == (NONE, -1)
    assert client.produce(topic, good()).base_offset == 3


def test_records_of_what_does_not_exist_or_is_compacted_are_not_deleted(client: RawClient) -> None:
    assert delete(client, "no-such-topic", 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert delete(client, "payments", 0, partition=3) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    client.produce("compacted", batch_of([b"value"], keys=[b"key"]))
    assert delete(client, "compacted", 1) == (ErrorCode.POLICY_VIOLATION, -1)


def test_what_groups_have_committed_is_not_for_clients_to_delete() -> None:
    with Broker() as broker, RawClient(broker.port) as client:
        broker.create_topics({"__consumer_offsets": 1}, {"cleanup.policy": "compact,delete"})
        assert delete(client, "__consumer_offsets", -1) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
        assert delete(client, "__consumer_offsets", 0, partition=7) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


def test_what_was_deleted_stays_deleted_over_a_restart(tmp_path: Path) -> None:
    with Broker({"orders": 1}, data_dir=str(tmp_path)) as broker, RawClient(broker.port) as client:
        client.produce("orders", good())
        client.produce("orders", good())
        assert delete(client, "orders", 4) == (NONE, 4)
    with Broker(data_dir=str(tmp_path)) as broker, RawClient(broker.port) as client:
        assert client.list_offset("orders", EARLIEST).offset == 4
        assert client.list_offset("orders", LATEST).offset == 6
        assert client.fetch("orders", 3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
