"""The quick way of a Produce answers as the general way does, and leaves to it what is not its own.

Every request is sent twice: as it is, to one topic, and with a byte behind it that nobody reads but that only the
general way takes, to another topic with the same history.
"""

import re
from collections.abc import Iterator
from copy import deepcopy
from struct import pack
from typing import Any

import pytest

from barnabas.broker.handlers.produce_quick import VERSIONS, QuickProduce
from barnabas.broker.network.session import Session
from barnabas.broker.replicas.leader import LeaderPartition
from barnabas.protocol.batch_builder import build_end_transaction_marker
from barnabas.protocol.compression import CompressionType
from barnabas.protocol.errors import ErrorCode, KafkaStorageError
from barnabas.protocol.frame import encode_request
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.records import ControlType
from barnabas.protocol.types import Uuid
from barnabas.testing import Broker
from tests.broker.members import Member
from tests.broker.test_hot_path import on_broker_thread
from tests.broker.wire import CutOff, RawClient, Sent, batch_of, good, now_ms, produce_request

CONFIGS: dict[str, dict[str, str]] = {
    "plain": {},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "compacted": {"cleanup.policy": "compact"},
    "small": {"max.message.bytes": "200"},
    "flushed": {"flush.messages": "1"},
    "checked": {"barnabas.record.validation": "full"},
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        for kind, config in CONFIGS.items():
            broker.create_topics({f"{kind}-quick": 2, f"{kind}-general": 2}, config)
        yield broker


def flipped(batch: bytearray, position: int, mask: int = 0xFF) -> bytearray:
    batch[position] ^= mask
    return batch


MARKER = build_end_transaction_marker(
    ControlType.COMMIT, coordinator_epoch=0, producer_id=9, producer_epoch=0, timestamp=0
)
KEYS = [b"1", b"2", b"3"]

BATCHES: dict[str, list[bytearray | bytes | None]] = {
    "of one record": [good(1)],
    "of many": [good(300)],
    "one after the other": [good(), good(), good()],
    **{f"compressed by {codec.name}": [good(5, compression=codec)] for codec in CompressionType},
    "with keys": [good(keys=KEYS)],
    "of a producer, in order, again and out of order": [
        good(sent=Sent(7, 0, 0)), good(sent=Sent(7, 0, 3)), good(sent=Sent(7, 0, 3)), good(sent=Sent(7, 0, 9)),
        good(sent=Sent(7, 1, 0)), good(sent=Sent(7, 0, 6)),
    ],
    "with a wrong checksum": [flipped(good(), 17)],
    "with a changed byte": [flipped(good(), 70)],
    "of another magic": [flipped(good(), 16, 3)],
    "with an offset": [flipped(good(), 7, 1)],
    "with a wrong length": [flipped(good(), 11, 1)],
    "cut off": [bytes(good())[:-1], bytes(good())[:60], bytes(good())[:5]],
    "two at once": [good() + good()],
    "of nothing": [b"", None],
    "in a transaction": [good(sent=Sent(8, 0, 0), transactional=True)],
    "of a marker": [MARKER],
    "from the future": [batch_of([b"x"], timestamps=[now_ms() + 10**9])],
    "from the past": [batch_of([b"x"], timestamps=[1])],
    "without timestamps": [batch_of([b"x"], timestamps=[-1])],
}  # fmt: skip


def both(broker: Broker, client: RawClient, kind: str, version: int, **options: Any) -> tuple[str, str]:
    """The answers of the two ways, without the names of their topics and what the clock says."""
    answers = []
    for way in ("quick", "general"):
        request = by_id(broker, produce_request(f"{kind}-{way}", **options), version)
        frame: bytes | bytearray = client.frame(request, version)
        if way == "general":
            frame = pack(">i", len(frame) - 3) + frame[4:] + b"\0"
        client.socket.sendall(frame)
        try:
            (topic,) = client.receive().responses
        except CutOff:
            answers.append("cut off")
            continue
        assert (topic.name, topic.topic_id) == (request.topic_data[0].name, request.topic_data[0].topic_id)
        (partition,) = topic.partition_responses
        if partition.log_append_time_ms > 0:
            partition.log_append_time_ms = "now"
        answers.append(re.sub(r"-?\d{12,}", "a time", repr(partition)).replace(f"{kind}-{way}", "the topic"))
    return answers[0], answers[1]


def by_id(broker: Broker, request: ProduceRequest, version: int) -> ProduceRequest:
    """The request as a version sends it: from 13 on topics have an id in the place of their name."""
    if version >= 13:
        for topic in request.topic_data:
            topic.topic_id, topic.name = topic_id_of(broker, topic.name), ""
    return request


def topic_id_of(broker: Broker, name: str) -> Uuid:
    assert broker._server is not None
    topic = broker._server.node.image.topic(name)
    return topic.topic_id if topic is not None else bytes(range(16))


@pytest.mark.parametrize("version", [6, 7, 8, 9, 12, 13])
@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_is_answered_alike(broker: Broker, client: RawClient, kind: str, name: str, version: int) -> None:
    for batch in BATCHES[name]:
        records = None if batch is None else bytearray(batch)
        quick, general = both(broker, client, kind, version, batches={version % 2: records})
        assert quick == general


@pytest.mark.parametrize("acks", [-2, -1, 0, 1, 2])
@pytest.mark.parametrize("partition", [-1, 0, 1, 2])
@pytest.mark.parametrize("version", [9, 13])
def test_acks_and_partitions_are_answered_alike(broker: Broker, acks: int, partition: int, version: int) -> None:
    if acks == 0:
        return  # it has no answer; what it stores is compared below
    with RawClient(broker.port) as client:
        quick, general = both(broker, client, "plain", version, batches={partition: good()}, acks=acks)
        assert quick == general


def test_the_same_is_stored(broker: Broker, client: RawClient) -> None:
    """After all the tests above."""
    for kind in CONFIGS:
        for partition in (0, 1):
            quick, general = (
                client.list_offset(f"{kind}-{way}", -1, partition=partition).offset for way in ("quick", "general")
            )
            assert quick == general


def test_long_names_and_many_topics_are_answered(broker: Broker, client: RawClient) -> None:
    broker.create_topics({"n" * length: 1 for length in (1, 126, 127, 128, 249)})
    for length in (1, 126, 127, 128, 249):
        assert client.produce("n" * length, good()).error_code == 0


def quickly(broker: Broker, frame: bytes | bytearray) -> Any:
    server = broker._server
    assert server is not None
    way = QuickProduce(server.node)
    session = Session(listener="PLAINTEXT", local=("127.0.0.1", 9092), peer=("127.0.0.1", 1))
    return on_broker_thread(broker, lambda: way(memoryview(bytearray(frame)), session))


def request_of(topic: str = "plain-quick", **fields: Any) -> ProduceRequest:
    request = produce_request(topic, {0: good()})
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def test_the_usual_produce_goes_the_quick_way(broker: Broker) -> None:
    for version in VERSIONS:
        for client_id in (None, "", "rdkafka"):
            request = by_id(broker, request_of(), version)
            assert quickly(broker, encode_request(request, version, 1, client_id)[4:]) is not None


@pytest.mark.parametrize(
    ("why", "request_", "version"),
    [
        ("an older version", request_of(), 6),
        ("a transactional id", request_of(transactional_id="mine"), 9),
        ("no answer is wanted", request_of(acks=0), 9),
        ("nonsense", request_of(acks=7), 9),
        ("no topic", request_of(topic_data=()), 9),
        ("two topics", request_of(topic_data=[*request_of().topic_data, *request_of("plain-general").topic_data]), 9),
        ("two partitions", produce_request("plain-quick", {0: good(), 1: good()}), 9),
        ("no records", produce_request("plain-quick", {0: None}), 9),
        ("no topic", request_of(topic_data=()), 8),
        ("a transactional id", request_of(transactional_id="mine"), 8),
        ("two partitions", produce_request("plain-quick", {0: good(), 1: good()}), 8),
        ("no records", produce_request("plain-quick", {0: None}), 8),
        ("no such topic", request_of("nowhere"), 9),
        ("the broker's own", request_of("__consumer_offsets"), 9),
        ("a transactional id", request_of(transactional_id="mine"), 13),
        ("no topic", request_of(topic_data=()), 13),
        ("two topics", request_of(topic_data=[*request_of().topic_data, *request_of("plain-general").topic_data]), 13),
        ("two partitions", produce_request("plain-quick", {0: good(), 1: good()}), 13),
        ("no records", produce_request("plain-quick", {0: None}), 13),
        ("no answer is wanted", request_of(acks=0), 13),
        ("no such topic", request_of("nowhere"), 13),
        ("the broker's own", request_of("__consumer_offsets"), 13),
    ],
)
def test_what_is_unusual_goes_the_general_way(broker: Broker, why: str, request_: Any, version: int) -> None:
    request = by_id(broker, deepcopy(request_), version)
    assert quickly(broker, encode_request(request, version, 1, "test")[4:]) is None, why


def test_the_topic_of_an_old_id_is_not_the_new_one_of_its_name(broker: Broker, client: RawClient) -> None:
    broker.create_topics({"again": 1})
    old = by_id(broker, request_of("again"), 13)
    assert client.call(old, 13).responses[0].partition_responses[0].error_code == ErrorCode.NONE
    client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="again")], timeout_ms=5_000))
    broker.create_topics({"again": 1})
    assert client.call(old, 13).responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert client.list_offset("again", -1).offset == 0


def test_internal_topics_are_refused_by_their_id(broker: Broker, client: RawClient) -> None:
    member = Member(broker.port, "any")
    member.find_coordinator()
    member.close()
    request = by_id(broker, request_of("__consumer_offsets"), 13)
    assert quickly(broker, encode_request(request, 13, 1, "test")[4:]) is None
    told = client.call(request, 13).responses[0].partition_responses[0]
    assert told.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("version", [8, 9, 13])
def test_no_cut_of_a_frame_is_taken_for_whole(broker: Broker, version: int) -> None:
    frame = bytes(encode_request(by_id(broker, request_of(), version), version, 1, "test")[4:])
    for size in range(2, len(frame)):
        assert quickly(broker, frame[:size]) is None, size


def hostile_frame(client_id_length: int, name_length: int, size: int) -> bytes:
    batch = bytes(good())
    header = pack(">hhih", 0, 8, 1, client_id_length)
    start = pack(">hhiih", -1, 1, 1_000, 1, name_length)
    return header + start + b"plain-quick" + pack(">iii", 1, 0, size) + batch


def test_lengths_below_zero_are_not_counted_from_the_end(broker: Broker) -> None:
    batch_bytes = len(good())
    name_at, frame_bytes = 24, len(hostile_frame(-1, 11, 0))
    assert quickly(broker, hostile_frame(-1, 11, batch_bytes)) is not None, "all is well with the frame"
    assert quickly(broker, hostile_frame(-5, 11, batch_bytes)) is None
    end = -(12 + batch_bytes)  # of a name, where its partition begins
    assert quickly(broker, hostile_frame(-1, end - name_at, frame_bytes + batch_bytes)) is None


def test_a_full_disk_is_asked_once(broker: Broker, client: RawClient, monkeypatch: pytest.MonkeyPatch) -> None:
    server = broker._server
    assert server is not None
    asked = []

    def full(self: LeaderPartition, *_: object) -> None:
        asked.append(self.topic_partition)
        raise KafkaStorageError("the disk is full")

    monkeypatch.setattr(LeaderPartition, "append", full)
    for version in (7, 8, 9, 12, 13):
        told = client.call(by_id(broker, request_of(), version), version).responses[0].partition_responses[0]
        assert (told.error_code, told.base_offset, told.log_start_offset) == (56, -1, -1)
        assert told.error_message == ("the disk is full" if version >= 8 else None)
    assert len(asked) == 5
