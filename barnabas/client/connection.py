"""One connection to one broker.

Requests are answered in order. For each API the highest version that both sides know is spoken, so that ApiVersions is
the first request. A broker that cannot be reached, stays silent or answers nonsense is `Unreachable`.
"""

import select
import socket
from struct import Struct
from typing import Any, TypeVar

import barnabas
from barnabas.base.network import Address
from barnabas.client.errors import Unreachable
from barnabas.protocol.errors import ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.frame import decode_response, encode_request
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

T = TypeVar("T")
DEFAULT_PORT = 9092
CLIENT_ID = "barnabas-cli"
RESPONSE_BYTES_MAX = 2**31 - 1
NOBODY_LISTENS = "is one running? start it with `barnabas start`, or name another with --bootstrap-servers"
CANNOT_BE_REACHED = "look at the address again, or name another with --bootstrap-servers"
_SIZE = Struct(">i")


def parse_addresses(text: str) -> list[Address]:
    """Parses `host:port,[v6]:port,host`. Raises ValueError for anything else."""
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


class Connection:
    """A socket, the versions that its broker speaks, and the requests that wait for their responses."""

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
        """Says whether the broker has hung up, as it does after a long silence. It sends nothing else unasked."""
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
            raise KafkaError(f"{self.address} refuses ApiVersions", ErrorCode(response.error_code))
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
        """Sends a request. Without a class for its response, none is expected."""
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
        """Returns the response to the oldest request that waits for one."""
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
        """Reads so many bytes. The buffer grows with what arrives: the size may not be a broker's."""
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
