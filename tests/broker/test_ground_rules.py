"""What holds for a broker as a whole, whoever asks: nobody sees half of anything, nobody disturbs a neighbour, and a
broker that comes back is the one that went."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition

from barnabas.broker.server import NotRegistered
from barnabas.protocol.batch_header import crc_of, iter_batches
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.testing import Broker
from tests.broker.wire import RawClient, batch_of, good, records_of, values_of
from tests.broker.witness import Lines

READERS = 3
BATCHES = 400


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"orders": 2}) as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker.port) as client:
        yield client


# ---- readers and writers


class Reader(threading.Thread):
    """Follows the end of a partition from a start of its own, and looks at every byte it is given."""

    def __init__(self, port: int, end_offset: int) -> None:
        super().__init__()
        self._port = port
        self._end_offset = end_offset
        self.values: list[bytes | None] = []
        self.failure: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            with RawClient(self._port) as client:
                while len(self.values) < self._end_offset:
                    self._read(client)
        except BaseException as error:
            self.failure = error

    def _read(self, client: RawClient) -> None:
        offset = len(self.values)
        data = client.fetch("orders", offset, max_wait_ms=500, partition_max_bytes=5_000)
        buffer = memoryview(bytes(data.records or b""))  # type: ignore[arg-type]
        size = 0
        for position, header in iter_batches(buffer):
            size = position + header.size_bytes
            assert header.base_offset == offset, "a gap, or a batch that came twice"
            assert header.crc == crc_of(buffer[position:size]), "half a batch"
            offset = header.next_offset
        assert size == len(buffer), "half a batch at the end"
        assert offset <= data.high_watermark
        self.values += values_of(data)


def test_those_who_read_while_others_write_see_whole_batches_each_once_and_in_order(broker: Broker) -> None:
    """Whenever they begin: before the first record, in the middle or at the end."""
    sent = [[b"%d-%d" % (number, index) for index in range(number % 4 + 1)] for number in range(BATCHES)]
    values = [value for batch in sent for value in batch]
    readers = []
    with RawClient(broker.port) as writer:
        for number, batch in enumerate(sent):
            if number % (BATCHES // READERS) == 0:
                readers.append(Reader(broker.port, len(values)))
            assert writer.produce("orders", batch_of(batch)).error_code == 0
    for reader in readers:
        reader.join()
        assert reader.failure is None, reader.failure
        assert reader.values == values


def test_a_reader_takes_nothing_away_and_may_begin_again(broker: Broker, client: RawClient) -> None:
    client.produce("orders", batch_of([b"a", b"b", b"c"]))
    with RawClient(broker.port) as other:
        assert values_of(client.fetch("orders", 0)) == [b"a", b"b", b"c"]
        assert values_of(client.fetch("orders", 3)) == []
        assert values_of(other.fetch("orders", 0)) == [b"a", b"b", b"c"], "where another stands is nothing to it"
        assert values_of(client.fetch("orders", 0)) == [b"a", b"b", b"c"]


def test_partitions_count_their_offsets_apart(client: RawClient) -> None:
    offsets = [client.produce("orders", good(count), partition=index).base_offset for index, count in ((0, 3), (1, 2))]
    offsets += [client.produce("orders", good(1), partition=index).base_offset for index in (0, 1)]
    assert offsets == [0, 0, 3, 2]


def test_a_consumer_whose_offset_was_deleted_is_told_and_goes_on_at_the_start_that_is_left(
    broker: Broker, client: RawClient
) -> None:
    for number in range(6):
        client.produce("orders", batch_of([b"%d" % number]))
    partitions = [DeleteRecordsPartition(partition_index=0, offset=4)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="orders", partitions=partitions)], timeout_ms=5_000)
    assert client.call(request).topics[0].partitions[0].low_watermark == 4
    data = client.fetch("orders", 1)
    assert (data.error_code, data.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1), "as Kafka answers"
    place = TopicPartition("orders", 0)
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", consumer_timeout_ms=500
    )
    try:
        consumer.assign([place])
        consumer.seek(place, 1)
        assert [(record.offset, record.value) for record in consumer] == [(4, b"4"), (5, b"5")]
    finally:
        consumer.close()


# ---- coming back


def test_a_broker_that_comes_back_is_the_same_node_of_the_same_cluster(tmp_path: Path) -> None:
    seen = []
    for _ in range(2):
        with Broker(config={"node.id": "7"}, data_dir=str(tmp_path)) as broker, RawClient(broker.port) as client:
            answer = client.call(MetadataRequest(topics=[]))
            seen.append((answer.cluster_id, answer.controller_id, [node.node_id for node in answer.brokers]))
    assert seen[0] == seen[1]
    assert seen[0][1:] == (7, [7])


def test_a_directory_without_an_id_is_given_one_that_it_keeps(tmp_path: Path) -> None:
    """Kafka gives its directories ids since 3.7."""
    meta_properties = tmp_path / "meta.properties"
    meta_properties.write_text("version=1\ncluster.id=7dvlZUJRS-CzL6vpTQvPXg\nnode.id=1\n")
    seen = []
    for _ in range(2):
        with Broker(data_dir=str(tmp_path)):
            pass
        seen.append(meta_properties.read_text())
    assert seen[0] == seen[1]
    assert "directory.id=" in seen[0]


def test_a_broker_that_its_cluster_refuses_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(
        "version=1\ncluster.id=7dvlZUJRS-CzL6vpTQvPXg\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n"
    )
    with pytest.raises(NotRegistered, match="reserved"):
        Broker(data_dir=str(tmp_path), report=Lines()).start()


def test_a_broker_answers_nobody_before_it_has_recovered_its_logs(tmp_path: Path) -> None:
    """A copy of a running broker's files with a torn tail is what a killed one leaves."""
    with Broker({"orders": 1}, data_dir=str(tmp_path / "one")) as broker, RawClient(broker.port) as client:
        for _ in range(5):
            client.produce("orders", good(2))
        shutil.copytree(tmp_path / "one", tmp_path / "two")
    segment = tmp_path / "two" / "orders-0" / f"{0:020d}.log"
    segment.write_bytes(segment.read_bytes()[:-1])
    log = Lines()
    with Broker(data_dir=str(tmp_path / "two"), report=log) as broker, RawClient(broker.port) as client:
        assert client.list_offset("orders", -1).offset == 8
        assert log.saying("orders-0: cut")
        assert len(records_of(client.fetch("orders", 0))) == 8
        assert client.produce("orders", good(1)).base_offset == 8


@pytest.mark.parametrize(
    "row",
    [
        (1 << 20, 1 << 30),  # beyond the end of the segment
        (-5, -5),
        (3, 7),  # no batch begins there
        (0, 6_000),  # a batch, but not the one with this offset
    ],
)
def test_an_index_that_points_nowhere_leads_nobody_astray(tmp_path: Path, row: tuple[int, int]) -> None:
    """It looks like a clean stop, so nothing but the row itself tells that it lies."""
    with Broker({"orders": 1}, data_dir=str(tmp_path)) as broker, RawClient(broker.port) as client:
        for number in range(20):
            client.produce("orders", batch_of([b"%d" % number, bytes(2_000)]))
    index = tmp_path / "orders-0" / f"{0:020d}.index"
    size = index.stat().st_size
    assert size >= 40, "several rows"
    index.write_bytes(b"".join(part.to_bytes(4, "big", signed=True) for part in row) * (size // 8))
    with Broker(data_dir=str(tmp_path)) as broker, RawClient(broker.port) as client:
        for offset in range(40):
            found = [record.offset for record in records_of(client.fetch("orders", offset, partition_max_bytes=1))]
            assert found == [offset - offset % 2, offset - offset % 2 + 1]
        assert client.list_offset("orders", -1).offset == 40


def test_without_the_free_space_asked_for_a_broker_starts_and_is_read_but_takes_no_records(tmp_path: Path) -> None:
    with Broker({"orders": 1}, data_dir=str(tmp_path)) as broker, RawClient(broker.port) as client:
        client.produce("orders", good(2))
    log = Lines()
    config = {"barnabas.min.free.bytes": str(1 << 60)}
    with Broker({"more": 1}, config, data_dir=str(tmp_path), report=log) as broker, RawClient(broker.port) as client:
        assert len(records_of(client.fetch("orders", 0))) == 2
        for _ in range(3):
            assert client.produce("orders", good(1)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert len(log.saying("bytes free: nothing is appended")) == 1, "said once, not for every record"
        assert client.list_offset("orders", -1).offset == 2


# ---- what people are told


def test_the_log_tells_what_changed(tmp_path: Path) -> None:
    log = Lines()
    config = {"log.segment.bytes": str(1 << 20)}
    with Broker({"orders": 2}, config, data_dir=str(tmp_path), report=log) as broker, RawClient(broker.port) as client:
        for _ in range(3):
            client.produce("orders", batch_of([bytes(500_000)]))
        growth = CreatePartitionsTopic(name="orders", count=3, assignments=None)
        client.call(CreatePartitionsRequest(topics=[growth], timeout_ms=5_000, validate_only=False))
        client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], timeout_ms=5_000))
    for line in (
        "topic orders created (2 partitions)",
        "orders-0: rolled a new segment at offset 2",
        "topic orders has 3 partitions now, 2 before",
        "topic orders deleted",
    ):
        assert log.saying(line), (line, log.lines)
