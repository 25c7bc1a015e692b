"""One of the two brokers as a story sees it: its connections, its symbols, and its answers in comparable form."""

import socket
from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any, NamedTuple

from compat_tests.differential.batches import read_batches
from compat_tests.differential.codec import API_VERSIONS, Undecodable, decode, encode, request_frame, response_body
from compat_tests.differential.compare import ENDING, IDENTITY, IN_ORDER
from compat_tests.differential.schemas import Api, apis
from compat_tests.differential.symbols import KINDS, Symbols

Answer = dict[str, Any]

CLOSED: Answer = {ENDING: "closed"}
SILENT: Answer = {ENDING: "open, no answer"}
OPEN: Answer = {ENDING: "open"}  # after a request that has no answer

BARRIER = "differential-barrier"
"""A topic whose configuration is changed to see how far a broker has come."""

SECONDS = 10


class Request(NamedTuple):
    """One request as it goes to both. Everything after `body` makes the frame wrong."""

    api: Api
    version: int
    body: dict[str, Any]
    client_id: str | bytes | None = "differential"
    tail: bytes = b""
    cut: int = 0  # bytes that are missing at the end
    sent_key: int | None = None
    sent_version: int | None = None

    @property
    def has_answer(self) -> bool:
        return not (self.api.name == "Produce" and self.body.get("Acks") == 0)

    @property
    def answered_version(self) -> int:
        """Returns the version of the answer: ApiVersions answers an unknown version in version 0."""
        return 0 if self.api.key == API_VERSIONS and self.sent_version is not None else self.version


class Connection:
    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation_id = 0
        self.received = bytearray()

    def send(self, request: Request, body: bytes) -> None:
        self.correlation_id += 1
        version = request.version if request.sent_version is None else request.sent_version
        encoded = (body + request.tail)[: max(len(body) - request.cut, 0) if request.cut else None]
        frame = request_frame(
            request.api, version, self.correlation_id, request.client_id, encoded, key=request.sent_key
        )
        try:
            self.socket.sendall(frame)
        except (BrokenPipeError, ConnectionResetError):
            pass  # told by receive

    def receive(self) -> bytes | None:
        """Reads, once there is something to read, a whole frame, or None if more of it is to come. Raises EOFError at
        the end."""
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        if not data:
            raise EOFError
        self.received += data
        size = int.from_bytes(self.received[:4])
        if len(self.received) < 4 + size:
            return None
        frame = bytes(self.received[4 : 4 + size])
        del self.received[: 4 + size]
        return frame

    def receive_now(self) -> bytes:
        while (frame := self.receive()) is None:
            pass
        return frame

    def close(self) -> None:
        self.socket.close()


class Side:
    def __init__(self, name: str, port: int, alter: Callable[[Request, Answer], None] | None = None) -> None:
        self.name = name
        self.port = port
        self.alter = alter  # a lie, to see that it is noticed
        self.symbols = Symbols()
        self.connections: dict[str, Connection] = {}

    def connection(self, name: str) -> Connection:
        if name not in self.connections:
            self.connections[name] = Connection(self.port)
        return self.connections[name]

    def send(self, request: Request, on: str) -> None:
        self.connection(on).send(
            request, encode(request.api.request, request.version, self.symbols.resolved(request.body))
        )
        if not request.has_answer:  # whatever comes next says whether the connection is still there
            self.connection(on).send(probe(), b"")

    def receive(self, request: Request, on: str) -> Answer | None:
        """Reads, once there is something to read, the decoded answer, or None if more of it is to come."""
        connection = self.connections[on]
        try:
            frame = connection.receive()
        except EOFError:
            self.drop(on)
            return CLOSED
        if frame is None:
            return None
        return self.decoded(request, connection.correlation_id, frame) if request.has_answer else OPEN

    def decoded(self, request: Request, correlation_id: int, frame: bytes) -> Answer:
        api, version = request.api, request.answered_version
        try:
            body = response_body(api, version, correlation_id, frame)
            answer = decode(api.response, version, body)
        except Undecodable as error:
            return {ENDING: f"undecodable: {error}: {frame.hex()}"}
        if encode(api.response, version, answer) != body:
            return {ENDING: f"undecodable: not the bytes that its values have: {frame.hex()}"}
        if self.alter is not None:
            self.alter(request, answer)
        return answer

    def comparable(self, value: Any, field: str = "") -> Any:
        """Returns the answer with symbols for this broker's own names, and with the fields of batches for their
        bytes."""
        if field == "Records" and isinstance(value, bytes | None):
            value = read_batches(value)
        if isinstance(value, dict):
            return {name: self.comparable(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            elements = (
                value if field in IN_ORDER else sorted(value, key=place)
            )  # what is named first gets the first symbol
            return [self.comparable(inner, field) for inner in elements]
        return self.symbols.named(field, value)

    def drop(self, on: str) -> None:
        self.connections.pop(on).close()

    def close(self) -> None:
        for connection in self.connections.values():
            connection.close()

    # ---- outside of comparisons

    def call(self, name: str, body: dict[str, Any], version: int | None = None) -> Answer:
        api = apis()[name]
        version = api.request.versions[-1] if version is None else version
        connection = self.connection("aside")
        connection.send(Request(api, version, body), encode(api.request, version, body))
        frame = connection.receive_now()
        return decode(api.response, version, response_body(api, version, connection.correlation_id, frame))


@cache
def probe() -> Request:
    return Request(apis()["ApiVersions"], 0, {})


def place(element: Any) -> str:
    """Returns the place of an element among others, by names that both brokers use; if it has none, by what it says."""
    if isinstance(element, dict):
        names = [element[name] for name in IDENTITY if name in element and name not in KINDS]
        return repr(names or without_own_names(element))
    return repr(element)


def without_own_names(value: Any) -> Any:
    """Returns what is left of an answer without the names that each broker gives itself."""
    if isinstance(value, dict):
        return {name: without_own_names(inner) for name, inner in value.items() if name not in KINDS}
    if isinstance(value, list):
        return [without_own_names(inner) for inner in value]
    return value


class Barrier:
    """Waits until a broker acts by everything that it has agreed to.

    Kafka answers when a change of its metadata is committed and applies it afterwards, change by change and each in
    several steps. That a later change is seen says that the ones before have begun; that another one after it is seen,
    that they are done.
    """

    def __init__(self) -> None:
        self.numbers = count(1)

    def prepare(self, side: Side) -> None:
        topic = {"Name": BARRIER, "NumPartitions": 1, "ReplicationFactor": 1, "Assignments": [], "Configs": []}
        side.call("CreateTopics", {"Topics": [topic], "timeoutMs": 10_000, "validateOnly": False})
        self.wait(side)

    def wait(self, side: Side) -> None:
        for _ in range(2):
            self._wait_once(side, str(next(self.numbers) + 2_000_000))

    def _wait_once(self, side: Side, segment_bytes: str) -> None:
        change = {"Name": "segment.bytes", "ConfigOperation": 0, "Value": segment_bytes}
        resource = {"ResourceType": 2, "ResourceName": BARRIER, "Configs": [change]}
        side.call("IncrementalAlterConfigs", {"Resources": [resource], "ValidateOnly": False})
        asked = {"ResourceType": 2, "ResourceName": BARRIER, "ConfigurationKeys": ["segment.bytes"]}
        while True:
            (result,) = side.call("DescribeConfigs", {"Resources": [asked]})["Results"]
            if [config["Value"] for config in result["Configs"]] == [segment_bytes]:
                return
