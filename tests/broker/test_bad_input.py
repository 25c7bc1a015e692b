"""What strangers, broken clients and bad luck send to a broker, while a healthy client works beside them."""

import os
import resource
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from barnabas.broker.handlers import HANDLERS
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.frame import encode_request
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.testing import Broker
from tests.broker.nonsense import SERVED, drain, tamed
from tests.broker.wire import CutOff, RawClient, batch_of, fetch_request, good, values_of
from tests.broker.witness import Lines, wait_for_line
from tests.protocol.declared import generate

NONE = ErrorCode.NONE
pytestmark = pytest.mark.usefixtures("healthy")


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


# ---- requests that nobody serves


@pytest.mark.parametrize("api_key", [4, 7, 11, 52, 999, 32_767, -1])
def test_an_unknown_api_is_cut_off_with_a_line_in_the_log(stranger: RawClient, log: Lines, api_key: int) -> None:
    stranger.socket.sendall(frame(struct.pack(">hhih", api_key, 0, 1, -1)))
    assert stranger.is_cut_off()
    wait_for_line(log, "closed the connection from 127.0.0.1")


@pytest.mark.parametrize("api_key", [key for key in HANDLERS if key != ApiKey.API_VERSIONS], ids=lambda key: key.name)
def test_a_version_that_is_not_served_is_cut_off(broker: Broker, api_key: ApiKey) -> None:
    served = HANDLERS[api_key].request.__versions__
    for version in (served.start - 1, served.stop, 32_767, -32_768):
        with RawClient(broker.port) as client:
            client.socket.sendall(frame(struct.pack(">hhih", api_key, version, 1, -1) + bytes(100)))
            assert client.is_cut_off(), version


def test_produce_before_version_3_is_advertised_and_cut_off_as_by_kafka(broker: Broker) -> None:
    """librdkafka takes a broker that does not advertise them for one without message timestamps."""
    assert HANDLERS[ApiKey.PRODUCE].versions == range(0, 14)
    assert HANDLERS[ApiKey.PRODUCE].request.__versions__ == range(3, 14)


@pytest.mark.parametrize("version", [6, 99, 32_767])
def test_an_unknown_version_of_api_versions_is_told_what_to_ask(client: RawClient, version: int) -> None:
    request = struct.pack(">hhih", ApiKey.API_VERSIONS, version, 77, 4) + b"test" + b"\0" + b"whatever this is"
    client.socket.sendall(frame(request))
    assert client.receive_frame() == struct.pack(">ihihhh", 77, ErrorCode.UNSUPPORTED_VERSION, 1, 18, 0, 5)
    answer = client.call(ApiVersionsRequest(client_software_name="test", client_software_version="1.0"))
    assert answer.error_code == 0, "the same connection goes on"


# ---- bytes that are no requests


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: localhost:9092\r\n\r\n", "HTTP"),
        (b"POST / HTTP/1.1\r\n\r\n", "HTTP"),
        (bytes.fromhex("1603010200010001fc0303") + bytes(506), "TLS"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH"),
        (struct.pack(">i", 4_194_305), "above the 4194304 allowed"),
        (struct.pack(">i", 2**31 - 1) + bytes(1_000), "above the"),
        (struct.pack(">i", -1), "negative size"),
        (struct.pack(">i", -(2**31)), "negative size"),
        (frame(b""), "malformed request header"),
        (frame(b"\0"), "malformed request header"),
        (frame(bytes(9)), "malformed request header"),
        (frame(struct.pack(">hhih", 18, 0, 1, 30_000)), "client id"),
        (frame(struct.pack(">hhih", 18, 3, 1, -1) + b"\xff\xff\xff\xff\xff\xff"), ""),
        (frame(struct.pack(">hhih", 3, 1, 1, -1) + b"\x7f\xff\xff\xff"), ""),
    ],
)
def test_bytes_that_are_no_request_are_cut_off_and_the_log_says_why(
    stranger: RawClient, log: Lines, stream: bytes, reason: str
) -> None:
    stranger.socket.sendall(stream)
    assert stranger.is_cut_off()
    wait_for_line(log, "closed the connection from 127.0.0.1")
    assert reason in log.saying("closed the connection")[0]


def test_a_flood_of_strangers_does_not_flood_the_log(broker: Broker, log: Lines) -> None:
    for _ in range(200):
        with RawClient(broker.port) as client:
            client.socket.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert client.is_cut_off()
    assert len(log.saying("HTTP")) < 100


def test_every_request_cut_short_anywhere_is_cut_off_or_answered(broker: Broker) -> None:
    """Some are whole requests of their own; none may raise anything of ours."""
    random = Random(3)
    for api_key, handler in SERVED.items():
        for version in (handler.request.__versions__[0], handler.request.__versions__[-1]):
            whole = encode_request(tamed(generate(handler.request, version, random)), version, 1, "test")
            for cut in {len(whole) - 1, len(whole) // 2, random.randrange(14, len(whole) + 1)}:
                with RawClient(broker.port) as client:
                    client.socket.sendall(frame(bytes(whole[4:cut])))
                    client.socket.shutdown(socket.SHUT_WR)
                    drain(client, api_key)


@pytest.mark.parametrize("seed", range(3))
def test_requests_full_of_nonsense_are_answered_or_cut_off(broker: Broker, seed: int) -> None:
    """Every API at every version, well encoded, with generated values in every field."""
    random = Random(seed)
    for api_key, handler in SERVED.items():
        for version in handler.request.__versions__:
            request = tamed(generate(handler.request, version, random))
            with RawClient(broker.port) as client:
                client.socket.sendall(encode_request(request, version, 1, "test"))
                client.socket.shutdown(socket.SHUT_WR)
                drain(client, api_key)


def test_random_bytes_behind_a_good_header_are_answered_or_cut_off(broker: Broker) -> None:
    random = Random(5)
    for api_key, handler in SERVED.items():
        for version in handler.request.__versions__:
            body = random.randbytes(random.choice([0, 1, 7, 60]))
            with RawClient(broker.port) as client:
                client.socket.sendall(frame(struct.pack(">hhih", api_key, version, 1, -1) + body))
                client.socket.shutdown(socket.SHUT_WR)
                drain(client, api_key)


# ---- topic names

BAD_NAMES = [
    "", ".", "..", "../up", "../../etc/passwd", "/etc/passwd", "a/b", "a\\b", "a b", "a\nb", "a\0b", "a:b", "a,b",
    "a#", "a.*",
    "été", "\N{SNOWMAN}", "x" * 250, "y" * 30_000,
]  # fmt: skip


@pytest.mark.parametrize("name", BAD_NAMES, ids=lambda name: ascii(name)[:20])
def test_a_bad_topic_name_is_refused_everywhere_and_leaves_no_trace(
    broker: Broker, client: RawClient, name: str
) -> None:
    before = everything_around(broker)
    created = client.call(create_request(name)).topics[0]
    assert ErrorCode(created.error_code) is ErrorCode.INVALID_TOPIC_EXCEPTION
    asked = client.call(MetadataRequest(topics=[MetadataRequestTopic(name=name)])).topics[0]
    assert ErrorCode(asked.error_code) is ErrorCode.INVALID_TOPIC_EXCEPTION
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.produce(name, good()).error_code == unknown
    assert client.fetch(name).error_code == unknown
    assert client.list_offset(name, -1).error_code == unknown
    resource = DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=None)
    described = client.call(DescribeConfigsRequest(resources=[resource], include_synonyms=False)).results[0]
    assert described.error_code in (ErrorCode.INVALID_TOPIC_EXCEPTION, unknown)
    deleted = client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1_000)).responses[0]
    assert deleted.error_code in (ErrorCode.INVALID_TOPIC_EXCEPTION, unknown)
    assert everything_around(broker) == before


def everything_around(broker: Broker) -> set[str]:
    folder = Path(broker.data_dir)
    return {str(path) for place in (folder, folder.parent) for path in place.iterdir()}


def create_request(name: str, partitions: int = 1) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=(), configs=())
    return CreateTopicsRequest(topics=[topic], timeout_ms=10_000)


@pytest.mark.parametrize("name", ["x" * 249, "...", "-", "_", "a.b_c-D.9", "0"])
def test_an_odd_topic_name_that_kafka_allows_works(client: RawClient, name: str) -> None:
    assert client.call(create_request(name)).topics[0].error_code == NONE
    assert client.produce(name, good()).error_code == NONE
    assert len(values_of(client.fetch(name))) == 3
    deleted = client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1_000)).responses[0]
    assert deleted.error_code == NONE


def test_topic_names_that_differ_in_dots_and_underscores_only_collide(client: RawClient) -> None:
    """Their metrics would have the same name."""
    assert client.call(create_request("a.collision_of")).topics[0].error_code == NONE
    for name in ("a_collision.of", "a_collision_of", "a.collision.of"):
        assert client.call(create_request(name)).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION, name
        asked = client.call(MetadataRequest(topics=[MetadataRequestTopic(name=name)])).topics[0]
        assert asked.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("partitions", [0, -2, 2**31 - 1, 1_000_000])
def test_an_absurd_number_of_partitions_is_refused(client: RawClient, partitions: int) -> None:
    assert client.call(create_request("absurd", partitions)).topics[0].error_code != NONE


# ---- clients that misbehave in time


def test_half_a_frame_and_then_silence_is_cut_off(log: Lines) -> None:
    with Broker({"payments": 1}, {"connections.max.idle.ms": "200"}, report=log) as broker:
        halves = [struct.pack(">i", 100) + b"x" * 50, b"\0", struct.pack(">i", 1_000_000) + bytes(500_000)]
        for half in halves:  # each gets its line
            with RawClient(broker.port) as client:
                client.socket.sendall(half)
                assert client.is_cut_off()
                wait_for_line(log, "half a request")
                log.lines.clear()


def test_an_idle_connection_is_closed_without_a_word_but_not_one_that_waits(log: Lines) -> None:
    with (
        Broker({"payments": 1}, {"connections.max.idle.ms": "200"}, report=log) as broker,
        RawClient(broker.port) as idle,
        RawClient(broker.port) as waiting,
    ):
        waiting.send(fetch_request("payments", {0: 0}, max_wait_ms=1_000), 12)
        assert idle.is_cut_off()
        assert waiting.receive().error_code == NONE
        assert waiting.is_cut_off()
        assert log.saying("closed the connection") == []


def test_connections_live_for_ever_when_the_limit_is_negative(log: Lines) -> None:
    with (
        Broker({"payments": 1}, {"connections.max.idle.ms": "-1"}, report=log) as broker,
        RawClient(broker.port) as client,
    ):
        assert client.list_offset("payments", -1).offset == 0


def test_a_client_that_never_reads_its_replies_is_cut_off_in_the_end(log: Lines) -> None:
    with (
        Broker({"payments": 1}, {"connections.max.idle.ms": "300"}, report=log) as broker,
        RawClient(broker.port) as client,
        RawClient(broker.port) as slow,
    ):
        client.produce("payments", batch_of([bytes(900_000)]))
        for _ in range(40):
            slow.send(fetch_request("payments", {0: 0}), 12)
        wait_for_line(log, "it read nothing of its replies")


def test_slow_readers_stall_nobody_and_get_every_byte_in_the_end(broker: Broker, client: RawClient) -> None:
    broker.create_topics({"large": 1})
    value = os.urandom(900_000)
    assert client.produce("large", batch_of([value])).error_code == NONE
    slow = [RawClient(broker.port) for _ in range(10)]
    for reader in slow:
        for _ in range(8):
            reader.send(fetch_request("large", {0: 0}), 12)
    for _ in range(20):
        assert client.list_offset("large", -1).offset == 1
    for reader in slow:
        with reader:
            for _ in range(8):
                assert values_of(reader.receive().responses[0].partitions[0]) == [value]


def test_readers_that_go_away_in_the_middle_of_a_reply_harm_nobody(broker: Broker, client: RawClient) -> None:
    broker.create_topics({"half-read": 1})
    client.produce("half-read", batch_of([os.urandom(900_000)]))
    for _ in range(20):
        with RawClient(broker.port) as reader:
            for _ in range(8):
                reader.send(fetch_request("half-read", {0: 0}), 12)
            reader.socket.recv(10_000)
    assert client.list_offset("half-read", -1).offset == 1


def test_clients_that_go_away_while_their_fetch_waits_leave_nothing_behind(broker: Broker, client: RawClient) -> None:
    broker.create_topics({"ghosts": 1})
    waiting = [RawClient(broker.port) for _ in range(50)]
    for reader in waiting:
        reader.send(fetch_request("ghosts", {0: 0}, max_wait_ms=600_000), 12)
    for reader in waiting[:25]:
        reader.close()
    assert client.produce("ghosts", good()).error_code == NONE
    for reader in waiting[25:]:
        with reader:
            assert len(values_of(reader.receive().responses[0].partitions[0])) == 3


# ---- how many


def test_more_connections_than_max_connections_are_refused(log: Lines) -> None:
    with Broker(config={"max.connections": "5"}, report=log) as broker:
        clients = [RawClient(broker.port) for _ in range(5)]
        for client in clients:
            client.call(MetadataRequest(topics=[]))
        with RawClient(broker.port) as sixth:
            assert sixth.is_cut_off()
        wait_for_line(log, "max.connections")
        clients.pop().close()
        wait_until_served(broker)
        for client in clients:
            client.call(MetadataRequest(topics=[]))
            client.close()


@pytest.mark.parametrize(
    "config", [{"max.connections.per.ip": "3"}, {"max.connections.per.ip.overrides": "127.0.0.1:3"}]
)
def test_more_connections_of_one_address_than_allowed_are_refused(log: Lines, config: dict[str, str]) -> None:
    with Broker(config=config, report=log) as broker:
        clients = [RawClient(broker.port) for _ in range(3)]
        for client in clients:
            client.call(MetadataRequest(topics=[]))
        with RawClient(broker.port) as fourth:
            assert fourth.is_cut_off()
        wait_for_line(log, "max.connections.per.ip")
        other = socket.create_connection(("127.0.0.1", broker.port), timeout=10, source_address=("127.0.0.2", 0))
        with other:
            other.sendall(encode_request(MetadataRequest(topics=[]), 1, 1, "test"))
            assert other.recv(4), "another address has its own count"
        for client in clients:
            client.close()
        wait_until_served(broker)


def wait_until_served(broker: Broker) -> None:
    """The broker learns of a closed connection a moment later."""
    deadline = time.monotonic() + 10
    while True:
        with RawClient(broker.port) as client:
            try:
                client.call(MetadataRequest(topics=[]))
                return
            except (CutOff, BrokenPipeError):
                assert time.monotonic() < deadline


@pytest.fixture
def many_descriptors() -> Iterator[int]:
    """As many as the system lets us have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(20_000, hard) if hard != resource.RLIM_INFINITY else 20_000
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield max(soft, wanted)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_thousands_of_connections_come_work_and_go(broker: Broker, client: RawClient, many_descriptors: int) -> None:
    count = min(2_000, (many_descriptors - 500) // 2)
    clients = [RawClient(broker.port) for _ in range(count)]
    for other in clients:
        other.send(MetadataRequest(topics=[]))
    for other in clients:
        assert len(other.receive().brokers) == 1
    for other in clients:
        other.close()
    assert client.list_offset("payments", -1).error_code == NONE


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Nobody in this process can open a file, a socket or a connection."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 1, limits[1]))
    held = []
    try:
        while True:
            try:
                held.append(os.dup(0))
            except OSError:
                break
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for descriptor in held:
            os.close(descriptor)


def test_without_descriptors_connections_wait_and_those_that_are_there_work_on(broker: Broker, log: Lines) -> None:
    with RawClient(broker.port) as client, socket.socket() as waiting:
        client.call(MetadataRequest(topics=[]))
        waiting.settimeout(10)
        with no_descriptors():
            waiting.connect(("127.0.0.1", broker.port))
            waiting.sendall(encode_request(MetadataRequest(topics=[]), 1, 1, "test"))
            wait_for_line(log, "ulimit -n")
            assert len(client.call(MetadataRequest(topics=[])).brokers) == 1
        assert waiting.recv(4), "accepted when there was room again"


def test_a_broker_without_descriptors_can_still_be_stopped(log: Lines) -> None:
    with Broker(report=log) as broker, socket.socket() as waiting:
        with no_descriptors():
            waiting.connect(("127.0.0.1", broker.port))
            wait_for_line(log, "ulimit -n")
        broker.stop()
