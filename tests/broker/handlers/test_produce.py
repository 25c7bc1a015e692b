from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest

from barnabas.protocol.compression import CompressionType
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.testing import Broker
from tests.broker.wire import (
    RawClient,
    Sent,
    batch_of,
    fetch_request,
    good,
    now_ms,
    produce_request,
    records_of,
    values_of,
)

NONE = ErrorCode.NONE
MAX_INT32 = 2**31 - 1


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_appends_and_tells_where(broker: Broker, client: RawClient, version: int) -> None:
    broker.create_topics({f"produce-v{version}": 1})
    topic = f"produce-v{version}" if version < 13 else client.topic_id(f"produce-v{version}")
    for count in range(3):
        answer = client.produce(topic, good(), version=version)
        assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (NONE, 3 * count, -1)
        assert answer.log_start_offset == (0 if version >= 5 else -1)
        assert (answer.error_message, list(answer.record_errors)) == (None, [])


@pytest.mark.parametrize("acks", [-1, 1])
def test_one_request_appends_to_many_partitions_of_many_topics(broker: Broker, client: RawClient, acks: int) -> None:
    names = f"many-a{acks}", f"many-b{acks}"
    broker.create_topics({names[0]: 3, names[1]: 2})
    request = ProduceRequest(
        acks=acks,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(
                name=name, partition_data=[PartitionProduceData(index=index, records=good()) for index in range(count)]
            )
            for name, count in zip(names, (3, 2))
        ],
    )
    for times in (0, 1):
        answers = {
            (topic.name, answer.index): (answer.error_code, answer.base_offset)
            for topic in client.call(request, 12).responses
            for answer in topic.partition_responses
        }
        places = [(names[0], 0), (names[0], 1), (names[0], 2), (names[1], 0), (names[1], 1)]
        assert answers == dict.fromkeys(places, (NONE, 3 * times))


def test_pipelined_requests_are_appended_and_answered_in_order(broker: Broker, client: RawClient) -> None:
    broker.create_topics({"pipelined": 1})
    frames = bytearray()
    for index in range(100):
        frames += client.frame(produce_request("pipelined", {0: batch_of([b"%d" % index])}), 12)
    client.socket.sendall(frames)
    offsets = [client.receive().responses[0].partition_responses[0].base_offset for _ in range(100)]
    assert offsets == list(range(100))
    assert values_of(client.fetch("pipelined")) == [b"%d" % index for index in range(100)]


@pytest.mark.parametrize("codec", list(CompressionType), ids=lambda codec: codec.name)
def test_a_compressed_batch_is_stored_as_it_came(broker: Broker, client: RawClient, codec: CompressionType) -> None:
    topic = f"stored-{codec.name.lower()}"
    broker.create_topics({topic: 1})
    batch = batch_of([b"value" * 100] * 50, keys=[b"key"] * 50, compression=codec)
    assert client.produce(topic, batch).error_code == NONE
    stored = client.fetch(topic)
    assert bytes(stored.records)[21:] == bytes(batch)[21:], "everything behind the leader epoch and the CRC"  # type: ignore[arg-type]


@pytest.mark.parametrize(("version", "expected"), [(6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (7, NONE)])
def test_zstd_needs_version_7_because_older_consumers_could_not_read_it(
    client: RawClient, version: int, expected: ErrorCode
) -> None:
    batch = good(compression=CompressionType.ZSTD)
    assert client.produce("payments", batch, version=version).error_code == expected


@pytest.mark.parametrize(
    ("topic", "partition", "expected"),
    [
        ("no-such-topic", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),  # Produce never creates a topic
        ("payments", 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("payments", -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (b"\1" * 16, 0, ErrorCode.UNKNOWN_TOPIC_ID),
        (bytes(16), 0, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_what_does_not_exist_is_told(client: RawClient, topic: str, partition: int, expected: ErrorCode) -> None:
    answer = client.produce(topic, good(), partition=partition)
    assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (expected, -1, -1)


def test_the_broker_sets_the_time_where_the_topic_says_so(broker: Broker, client: RawClient) -> None:
    broker.create_topics({"append-time": 1}, {"message.timestamp.type": "LogAppendTime"})
    before = now_ms()
    answer = client.produce("append-time", good(timestamps=[5, 6, 7]))
    assert before <= answer.log_append_time_ms <= now_ms()
    assert {record.timestamp for record in records_of(client.fetch("append-time"))} == {answer.log_append_time_ms}


def test_records_outside_the_allowed_time_are_named(broker: Broker, client: RawClient) -> None:
    limits = {"message.timestamp.before.max.ms": "3600000", "message.timestamp.after.max.ms": "1000"}
    broker.create_topics({"strict-time": 1}, limits)
    now = now_ms()
    answer = client.produce("strict-time", good(4, timestamps=[now, now - 7_200_000, now, now + 60_000]))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in answer.record_errors] == [1, 3]
    assert client.produce("strict-time", good(timestamps=[now, now - 1_000, now])).error_code == NONE


def test_a_topic_decides_how_large_a_batch_may_be(broker: Broker, client: RawClient) -> None:
    broker.create_topics({"small-batches": 1}, {"max.message.bytes": "1000"})
    batch = batch_of([bytes(1_000 - len(batch_of([b""])) - 2)])
    assert len(batch) == 1_000
    assert client.produce("small-batches", batch).error_code == NONE
    assert client.produce("small-batches", batch_of([bytes(1_000)])).error_code == ErrorCode.MESSAGE_TOO_LARGE


# ---- idempotence


def producer_id_of(client: RawClient) -> int:
    answer = client.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1))
    assert (answer.error_code, answer.producer_epoch) == (NONE, 0)
    producer_id: int = answer.producer_id
    return producer_id


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    name = f"idempotent-{abs(hash(request.node.name))}"
    broker.create_topics({name: 1})
    return name


def outcome(client: RawClient, topic: str, sent: Sent, count: int = 3) -> tuple[ErrorCode, int]:
    answer = client.produce(topic, good(count, sent=sent))
    return ErrorCode(answer.error_code), answer.base_offset


def test_producer_ids_are_never_the_same(client: RawClient) -> None:
    ids = {producer_id_of(client) for _ in range(1_500)}  # more than one block of the controller
    assert len(ids) == 1_500


@pytest.mark.parametrize("version", range(0, 6))
def test_every_version_of_init_producer_id_gives_one(client: RawClient, version: int) -> None:
    answer = client.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), version)
    assert (answer.error_code, answer.producer_epoch) == (NONE, 0)
    assert answer.producer_id >= 0


def test_a_duplicate_of_the_last_five_batches_gets_its_original_offset(client: RawClient, topic: str) -> None:
    producer_id = producer_id_of(client)
    batches = [Sent(producer_id, 0, 3 * index) for index in range(6)]
    assert [outcome(client, topic, sent) for sent in batches] == [(NONE, 3 * index) for index in range(6)]
    assert [outcome(client, topic, sent) for sent in batches[1:]] == [(NONE, 3 * index) for index in range(1, 6)]
    assert client.list_offset(topic, -1).offset == 18
    assert outcome(client, topic, Sent(producer_id, 0, 18)) == (NONE, 18), "and it goes on"


def test_a_duplicate_older_than_the_last_five_batches_is_out_of_order(client: RawClient, topic: str) -> None:
    producer_id = producer_id_of(client)
    for index in range(6):
        outcome(client, topic, Sent(producer_id, 0, 3 * index))
    assert outcome(client, topic, Sent(producer_id, 0, 0))[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize(
    ("sent", "count", "expected"),
    [
        (Sent(0, 0, 3), 3, NONE),  # the next
        (Sent(0, 0, 4), 3, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),  # one is missing
        (Sent(0, 0, 300), 3, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (Sent(0, 0, 2), 3, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),  # overlaps what is there
        (Sent(0, 0, 0), 2, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),  # a part of it is no duplicate
        (Sent(0, 1, 0), 3, NONE),  # a new epoch starts at 0
        (Sent(0, 1, 3), 3, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (Sent(0, 32_767, 0), 3, NONE),
        (Sent(0, -1, 3), 3, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_what_may_follow_sequences_0_to_2_of_epoch_0(
    client: RawClient, topic: str, sent: Sent, count: int, expected: ErrorCode
) -> None:
    producer_id = producer_id_of(client)
    assert outcome(client, topic, Sent(producer_id, 0, 0)) == (NONE, 0)
    assert outcome(client, topic, sent._replace(producer_id=producer_id), count)[0] is expected


def test_an_old_epoch_is_fenced(client: RawClient, topic: str) -> None:
    producer_id = producer_id_of(client)
    assert outcome(client, topic, Sent(producer_id, 3, 0)) == (NONE, 0)
    assert outcome(client, topic, Sent(producer_id, 2, 0))[0] == ErrorCode.INVALID_PRODUCER_EPOCH
    assert outcome(client, topic, Sent(producer_id, 3, 3)) == (NONE, 3)


def test_producers_and_partitions_have_their_own_sequences(broker: Broker, client: RawClient, topic: str) -> None:
    first, second = producer_id_of(client), producer_id_of(client)
    for index in range(5):
        assert outcome(client, topic, Sent(first, 0, 3 * index))[0] == NONE
        assert outcome(client, topic, Sent(second, 0, 3 * index))[0] == NONE
    assert outcome(client, "payments", Sent(first, 0, 0))[0] == NONE


def test_a_producer_that_the_partition_does_not_know_may_start_anywhere(client: RawClient, topic: str) -> None:
    """Its state may have expired; Kafka believes it."""
    assert outcome(client, topic, Sent(producer_id_of(client), 7, 1_000)) == (NONE, 0)


def test_sequences_go_on_at_0_after_the_largest(client: RawClient, topic: str) -> None:
    producer_id = producer_id_of(client)
    assert outcome(client, topic, Sent(producer_id, 0, MAX_INT32 - 1)) == (NONE, 0)  # MAX-1, MAX, 0
    assert outcome(client, topic, Sent(producer_id, 0, MAX_INT32 - 1)) == (NONE, 0), "a duplicate"
    assert outcome(client, topic, Sent(producer_id, 0, 0))[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert outcome(client, topic, Sent(producer_id, 0, 1)) == (NONE, 3)


def test_describe_producers_tells_who_writes(client: RawClient, topic: str) -> None:
    producer_id = producer_id_of(client)
    outcome(client, topic, Sent(producer_id, 2, 0))
    outcome(client, topic, Sent(producer_id, 2, 3))
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0, 9])])
    known, unknown = client.call(request).topics[0].partitions
    assert (known.error_code, unknown.error_code) == (NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    [producer] = known.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (producer_id, 2, 5)
    assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (-1, -1)
    assert abs(producer.last_timestamp - now_ms()) < 60_000


def test_what_a_producer_sent_is_remembered_over_a_restart(tmp_path: Path) -> None:
    with Broker({"orders": 1}, data_dir=str(tmp_path)) as broker, RawClient(broker.port) as client:
        producer_id = producer_id_of(client)
        for index in range(3):
            assert outcome(client, "orders", Sent(producer_id, 1, 3 * index)) == (NONE, 3 * index)
    for _ in range(2):
        with Broker(data_dir=str(tmp_path)) as broker, RawClient(broker.port) as client:
            assert outcome(client, "orders", Sent(producer_id, 1, 6)) == (NONE, 6), "a duplicate of the last before it"
            assert outcome(client, "orders", Sent(producer_id, 1, 30))[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert outcome(client, "orders", Sent(producer_id, 0, 9))[0] == ErrorCode.INVALID_PRODUCER_EPOCH
            assert producer_id_of(client) > producer_id, "ids are not given twice either"
    with Broker(data_dir=str(tmp_path)) as broker, RawClient(broker.port) as client:
        assert outcome(client, "orders", Sent(producer_id, 1, 9)) == (NONE, 9)


@pytest.mark.parametrize(
    ("transactional_id", "expected"),
    [
        ("payments-1", ErrorCode.NOT_COORDINATOR),
        ("", ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_transactional_id_is_for_its_coordinator_only(
    client: RawClient, transactional_id: str, expected: ErrorCode
) -> None:
    answer = client.call(InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000))
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (expected, -1, -1)


# ---- durability


@contextmanager
def disk_that_does_not_answer(broker: Broker) -> Iterator[None]:
    """Every thread that could do an fsync waits for the end of the block."""
    assert broker._server is not None
    workers, is_busy, release = broker._server._environment.workers, Event(), Event()

    def occupy() -> None:
        for _ in range(16):
            workers.run(release.wait)
        is_busy.set()

    broker._running.call(occupy)
    is_busy.wait(10)
    try:
        yield
    finally:
        release.set()


@pytest.mark.parametrize("acks", [1, -1])
def test_under_flush_messages_1_nothing_is_acknowledged_or_read_before_it_is_on_the_disk(acks: int) -> None:
    with Broker() as broker, RawClient(broker.port) as producer, RawClient(broker.port) as reader:
        broker.create_topics({"durable": 1}, {"flush.messages": "1"})
        broker.create_topics({"usual": 1})
        with disk_that_does_not_answer(broker):
            assert (
                producer.produce("durable", good(), acks=acks, timeout_ms=100).error_code == ErrorCode.REQUEST_TIMED_OUT
            )
            for index in range(20):
                producer.send(
                    produce_request("durable", {0: batch_of([b"%d" % index])}, acks=acks, timeout_ms=60_000), 12
                )
            assert reader.produce("usual", good()).error_code == NONE, "another topic does not wait"
            reading = reader.fetch("durable")
            assert (values_of(reading), reading.high_watermark) == ([], 0)
            assert reader.list_offset("durable", -1).offset == 0
            reader.send(fetch_request("durable", {0: 0}, max_wait_ms=20_000, min_bytes=500), 12)
        answers = [producer.receive().responses[0].partition_responses[0] for _ in range(20)]
        assert [(answer.error_code, answer.base_offset) for answer in answers] == [
            (NONE, 3 + index) for index in range(20)
        ]
        assert values_of(reader.receive().responses[0].partitions[0])[:3] == [b"value-0", b"value-1", b"value-2"]


def test_a_duplicate_waits_for_the_disk_like_the_first(tmp_path: Path) -> None:
    with Broker(data_dir=str(tmp_path)) as broker, RawClient(broker.port) as first, RawClient(broker.port) as second:
        broker.create_topics({"durable": 1}, {"flush.messages": "1"})
        batch = good(sent=Sent(producer_id_of(first), 0, 0))
        with disk_that_does_not_answer(broker):
            first.send(produce_request("durable", {0: batch}), 12)
            duplicate = second.produce("durable", batch, timeout_ms=100)
            assert duplicate.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert first.receive().responses[0].partition_responses[0].base_offset == 0
        assert second.produce("durable", batch).base_offset == 0


def test_under_flush_messages_n_only_the_one_that_makes_n_waits() -> None:
    with Broker() as broker, RawClient(broker.port) as client:
        broker.create_topics({"every-ten": 1}, {"flush.messages": "10"})
        with disk_that_does_not_answer(broker):
            for index in range(3):
                assert client.produce("every-ten", good()).base_offset == 3 * index
            assert client.produce("every-ten", good(), timeout_ms=100).error_code == ErrorCode.REQUEST_TIMED_OUT
        assert client.produce("every-ten", good()).base_offset == 12
