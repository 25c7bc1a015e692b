"""A small blocking Kafka client for the commands, on our own codec. It works with any broker of Kafka 2.1 or later.

Rules:
- One connection per node, opened on first use; requests of one connection are answered in order.
- Per API the highest version that both sides know is spoken; the first thing on every connection is ApiVersions.
- Who cannot be reached or stays silent raises `Unreachable`; what a broker refuses raises `KafkaError` with its code.
- An answer that a fresh look at the metadata can mend (a moved leader, a topic just created) is asked for again until
  the timeout has passed.
"""

import select
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from struct import Struct
from typing import Any, NamedTuple, TypeVar

import barnabas
from barnabas.options import Failure
from barnabas.protocol.errors import ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.frame import decode_response, encode_request
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from barnabas.protocol.types import Uuid

T = TypeVar("T")
DEFAULT_PORT = 9092
CLIENT_ID = "barnabas-cli"
RETRY_BACKOFF_MIN_S = 0.02
RETRY_BACKOFF_MAX_S = 0.5
RESPONSE_BYTES_MAX = 2**31 - 1
NOBODY_LISTENS = "is one running? start it with `barnabas start`, or name another with --bootstrap-servers"
CANNOT_BE_REACHED = "look at the address again, or name another with --bootstrap-servers"
_SIZE = Struct(">i")

RETRIABLE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors after which nothing was done and a later attempt may succeed."""

COORDINATOR_MOVED = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)
"""The same, of who coordinates a group."""


class Unreachable(Failure):
    """No broker answered."""


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(text: str) -> list[Address]:
    """`host:port,[v6]:port,host`; ValueError if it is anything else."""
    addresses = [_parse_address(part.strip()) for part in text.split(",") if part.strip()]
    if not addresses:
        raise ValueError("must be host:port, or several separated by commas")
    return addresses


def _parse_address(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(DEFAULT_PORT)
    if not port.isdecimal() or int(port) > 65535 or not host:
        raise ValueError("must be host:port, or several separated by commas")
    return Address(host.strip("[]"), int(port))


class Partition(NamedTuple):
    partition_index: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    error: ErrorCode


class Topic(NamedTuple):
    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: tuple[Partition, ...]
    """By index."""


class Cluster(NamedTuple):
    cluster_id: str | None
    controller_id: int
    brokers: dict[int, Address]
    topics: dict[str, Topic]
    errors: dict[str, ErrorCode]
    """Of the topics that were asked for and cannot be had."""


class Connection:
    """One socket to one broker."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        self.address = address
        self.timeout_s = timeout_s
        self.versions: dict[int, range] = {}
        self._correlation_id = 0
        self._waiting: list[tuple[int, type, int]] = []
        try:
            self._socket = socket.create_connection(address, timeout_s)
        except OSError as error:
            hint = NOBODY_LISTENS if isinstance(error, ConnectionRefusedError) else CANNOT_BE_REACHED
            raise Unreachable(f"cannot reach a broker at {address}: {_reason(error)}", hint) from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def is_gone(self) -> bool:
        """Whether the broker has hung up, as it does on who is silent for long: nothing else is said unasked."""
        return not self._waiting and bool(select.select([self._socket], [], [], 0)[0])

    def negotiate(self) -> None:
        """Learns the broker's versions. One that does not know our ApiVersions answers its error in v0 (KIP-511)."""
        request = ApiVersionsRequest(
            client_software_name="barnabas", client_software_version=barnabas.__version__.replace("+", "-")
        )
        version = 3
        self.send(request, ApiVersionsResponse, version)
        frame = self._read_frame()
        self._waiting.clear()
        if frame[4:6] == int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big"):
            version = 0
        response = self._decode(ApiVersionsResponse, version, frame)
        if response.error_code and not response.api_keys:
            raise KafkaError(f"{self.address} refuses ApiVersions", error_of(response.error_code))
        self.versions = {api.api_key: range(api.min_version, api.max_version + 1) for api in response.api_keys}

    def version_of(self, request_class: type, max_version: int | None = None) -> int:
        api_key, ours = request_class.__api_key__, request_class.__versions__  # type: ignore[attr-defined]
        theirs = self.versions.get(api_key, range(0))
        version: int = min(ours[-1], theirs[-1] if theirs else -1, ours[-1] if max_version is None else max_version)
        if version not in theirs or version not in ours:
            raise KafkaError(
                f"{self.address} does not speak {request_class.__name__} as we do: it has versions "
                f"{theirs.start} to {theirs.stop - 1}, we {ours.start} to {ours.stop - 1}",
                ErrorCode.UNSUPPORTED_VERSION,
            )
        return version

    def request(self, request: Any, response_class: type[T], timeout_s: float | None = None) -> T:
        self.send(request, response_class, self.version_of(type(request)))
        return self.receive(response_class, timeout_s)

    def send(self, request: Any, response_class: type | None, version: int) -> None:
        """Without a class for it, no response is waited for."""
        self._correlation_id += 1
        frame = encode_request(request, version, self._correlation_id, CLIENT_ID)
        try:
            self._socket.settimeout(self.timeout_s)
            self._socket.sendall(frame)
        except OSError as error:
            raise self._lost(error) from None
        if response_class is not None:
            self._waiting.append((self._correlation_id, response_class, version))

    def receive(self, response_class: type[T], timeout_s: float | None = None) -> T:
        """The response to the oldest request that waits for one."""
        correlation_id, expected, version = self._waiting.pop(0)
        assert expected is response_class, "responses come in the order of their requests"
        frame = self._read_frame(timeout_s)
        if int.from_bytes(frame[:4], "big") != correlation_id:
            raise Unreachable(f"{self.address} answered another request than the one it was asked")
        return self._decode(response_class, version, frame)

    def _decode(self, response_class: type[T], version: int, frame: memoryview) -> T:
        try:
            response: T = decode_response(response_class, version, frame)[1]
        except ProtocolError as error:
            raise Unreachable(f"{self.address} does not speak Kafka's protocol ({error})") from None
        return response

    def _read_frame(self, timeout_s: float | None = None) -> memoryview:
        try:
            self._socket.settimeout(self.timeout_s if timeout_s is None else timeout_s)
            (size,) = _SIZE.unpack(self._read(4))
            if not 4 <= size <= RESPONSE_BYTES_MAX:
                raise Unreachable(f"{self.address} does not speak Kafka's protocol (a frame of {size} bytes)")
            return self._read(size)
        except OSError as error:
            raise self._lost(error) from None

    def _read(self, size: int) -> memoryview:
        """Grows with what has come: a stranger's size field must not take memory."""
        buffer = bytearray()
        while len(buffer) < size:
            chunk = self._socket.recv(min(size - len(buffer), 1 << 20))
            if not chunk:
                raise Unreachable(f"{self.address} closed the connection")
            buffer += chunk
        return memoryview(buffer)

    def _lost(self, error: OSError) -> Unreachable:
        return Unreachable(f"lost the connection to {self.address}: {_reason(error)}")

    def close(self) -> None:
        self._socket.close()


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


class Client:
    def __init__(self, bootstrap: Sequence[Address], timeout_s: float = 10.0) -> None:
        self.bootstrap = bootstrap
        self.timeout_s = timeout_s
        self._any: Connection | None = None
        self._nodes: dict[int, Connection] = {}
        self._addresses: dict[int, Address] = {}
        self._coordinators: dict[str, int] = {}
        """The node of each group that was asked for."""

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for connection in [*self._nodes.values(), *([self._any] if self._any else [])]:
            connection.close()
        self._nodes.clear()
        self._any = None

    # Connections

    def any_node(self) -> Connection:
        """The first of the bootstrap servers that answers."""
        if self._any is not None and self._any.is_gone:
            self.forget_any()
        if self._any is None:
            self._any = self._first_reachable()
        return self._any

    def _first_reachable(self) -> Connection:
        failures: list[Unreachable] = []
        for address in dict.fromkeys([*self.bootstrap, *self._addresses.values()]):
            try:
                return self._connected(address)
            except Unreachable as error:
                failures.append(error)
        if len(failures) == 1:
            raise failures[0]
        raise Unreachable("; ".join(map(str, failures)), failures[0].hint)

    def _connected(self, address: Address) -> Connection:
        connection = Connection(address, self.timeout_s)
        try:
            connection.negotiate()
        except BaseException:
            connection.close()
            raise
        return connection

    def node(self, node_id: int) -> Connection:
        if node_id in self._nodes and self._nodes[node_id].is_gone:
            self.forget(node_id)
        if node_id not in self._nodes:
            if node_id not in self._addresses:
                self.metadata(())
            if node_id not in self._addresses:
                raise KafkaError(f"the cluster has no broker {node_id}", ErrorCode.BROKER_NOT_AVAILABLE)
            self._nodes[node_id] = self._connected(self._addresses[node_id])
        return self._nodes[node_id]

    def forget(self, node_id: int) -> None:
        """Closes the connection: what comes next opens another."""
        if (connection := self._nodes.pop(node_id, None)) is not None:
            connection.close()

    def forget_any(self) -> None:
        if self._any is not None:
            self._any.close()
            self._any = None

    def request(self, request: Any, response_class: type[T]) -> T:
        return self.any_node().request(request, response_class)

    # Metadata

    def metadata(self, topics: Iterable[str] | None = None, *, auto_create: bool = False) -> Cluster:
        """What the cluster looks like; of all topics if none are named."""
        names = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=names, allow_auto_topic_creation=auto_create)
        try:
            response = self.request(request, MetadataResponse)
        except Unreachable:  # the broker we knew is gone; another one may know where everything went
            self.forget_any()
            response = self.request(request, MetadataResponse)
        self._addresses = {broker.node_id: Address(broker.host, broker.port) for broker in response.brokers}
        return _cluster(response, self._addresses)

    def topic(self, name: str, *, auto_create: bool = False) -> Topic:
        """A topic all of whose partitions have a leader; waits for one that is just being made."""

        def look() -> Topic:
            cluster = self.metadata([name], auto_create=auto_create)
            error = cluster.errors.get(name)
            if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not auto_create:
                raise NoSuchTopic(name)
            if error is not None:
                raise KafkaError(f"topic {name}", error)
            topic = cluster.topics[name]
            for partition in topic.partitions:
                if partition.error is ErrorCode.LEADER_NOT_AVAILABLE or partition.leader_id < 0:
                    raise KafkaError(
                        f"partition {partition.partition_index} of topic {name} has no leader",
                        ErrorCode.LEADER_NOT_AVAILABLE,
                    )
            return topic

        return self.retry(look)

    def retry(self, attempt: Callable[[], T], retriable: frozenset[ErrorCode] = RETRIABLE) -> T:
        """Until it succeeds, fails for good or the timeout has passed."""
        deadline = time.monotonic() + self.timeout_s
        for backoff_s in backoffs():
            try:
                return attempt()
            except KafkaError as error:
                if isinstance(error, NoSuchTopic) or error.code not in retriable or time.monotonic() > deadline:
                    raise
            time.sleep(backoff_s)
        raise AssertionError("backoffs never end")

    def on_leaders(
        self, topic: str, ask: Callable[[Connection, list[Partition]], Mapping[int, T]], partitions: Iterable[int]
    ) -> dict[int, T]:
        """Asks every leader for its partitions; those that are missing in the answer are asked for again."""
        answers: dict[int, T] = {}
        missing = set(partitions)

        def attempt() -> dict[int, T]:
            wanted = [partition for partition in self.topic(topic).partitions if partition.partition_index in missing]
            for leader_id, theirs in by_leader(wanted).items():
                answers.update(ask(self.node(leader_id), theirs))
            missing.difference_update(answers)
            if missing:
                raise KafkaError(f"partition {min(missing)} of topic {topic} moved", ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return answers

        return self.retry(attempt)

    # Coordinators

    def coordinator(self, group_id: str) -> int:
        """The node that coordinates a group; waits for one that is just taking over."""
        if group_id not in self._coordinators:
            self._coordinators[group_id] = self.retry(lambda: self._find_coordinator(group_id), COORDINATOR_MOVED)
        return self._coordinators[group_id]

    def _find_coordinator(self, group_id: str) -> int:
        from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

        request = FindCoordinatorRequest(key=group_id, coordinator_keys=[group_id])
        response = self.request(request, FindCoordinatorResponse)
        found = response.coordinators[0] if response.coordinators else response  # several at once since version 4
        check(found.error_code, found.error_message, f"group {group_id} has no coordinator")
        self._addresses[found.node_id] = Address(found.host, found.port)
        return found.node_id

    def on_coordinator(self, group_id: str, ask: Callable[[Connection], T]) -> T:
        """Asks who coordinates the group; one that moved or still loads its groups is looked for again."""

        def attempt() -> T:
            try:
                return ask(self.node(self.coordinator(group_id)))
            except (KafkaError, Unreachable):
                self._coordinators.pop(group_id, None)
                raise

        return self.retry(attempt, COORDINATOR_MOVED)


class NoSuchTopic(KafkaError):
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def __init__(self, name: str) -> None:
        super().__init__(f"topic {name} does not exist")
        self.name = name


def backoffs() -> Iterator[float]:
    backoff_s = RETRY_BACKOFF_MIN_S
    while True:
        yield backoff_s
        backoff_s = min(2 * backoff_s, RETRY_BACKOFF_MAX_S)


def by_leader(partitions: Iterable[Partition]) -> dict[int, list[Partition]]:
    groups: dict[int, list[Partition]] = {}
    for partition in partitions:
        groups.setdefault(partition.leader_id, []).append(partition)
    return groups


def error_of(error_code: int) -> ErrorCode:
    """A later Kafka may know codes that we do not."""
    try:
        return ErrorCode(error_code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def check(error_code: int, message: str | None, about: str) -> None:
    """Raises what the broker said about something, in its own words if it has any."""
    if error_code:
        raise KafkaError(f"{about}: {message}" if message else about, error_of(error_code))


def _cluster(response: MetadataResponse, brokers: dict[int, Address]) -> Cluster:
    topics: dict[str, Topic] = {}
    errors: dict[str, ErrorCode] = {}
    for topic in response.topics:
        name = topic.name or ""
        if topic.error_code:
            errors[name] = error_of(topic.error_code)
            continue
        partitions = sorted(map(_partition, topic.partitions))
        topics[name] = Topic(name, topic.topic_id, topic.is_internal, tuple(partitions))
    return Cluster(response.cluster_id, response.controller_id, brokers, topics, errors)


def _partition(partition: Any) -> Partition:
    return Partition(
        partition.partition_index,
        partition.leader_id,
        partition.leader_epoch,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        tuple(partition.offline_replicas),
        error_of(partition.error_code),
    )
