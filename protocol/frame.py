"""Frames: an int32 size, a header, a message.

A request header is v2 (with tags) when the version of the request is flexible, v1 otherwise; a response header is v1
(with tags) when it is flexible, v0 otherwise. ApiVersions answers with header v0 in every version: a client that does
not yet know the broker must be able to read it (KIP-511).
"""

from struct import Struct
from struct import error as StructError
from typing import Any

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.primitives import AS_JAVA_REPLACES, skip_tags
from barnabas.protocol.schema import Slices, decode, encode_into

SIZE_BYTES = 4
_SIZE = Struct(">i")
_HEADER = Struct(">hhih")
_CORRELATION_ID = Struct(">i")
_RESPONSE_START = Struct(">ii")


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def frame_size(buffer: bytes | bytearray | memoryview, position: int, max_bytes: int) -> int:
    """Returns the size that the frame at `position` declares for what follows; the four bytes must be there."""
    size: int = _SIZE.unpack_from(buffer, position)[0]
    if size < 0:
        raise ProtocolError(f"a frame of negative size {size}")
    if size > max_bytes:
        raise ProtocolError(f"a frame of {size} bytes, above the {max_bytes} allowed")
    return size


def decode_request_header(frame: memoryview, flexible_since: dict[int, int | None]) -> tuple[RequestHeader, int]:
    """Returns the header at the start of a frame, and where it ends. An API not in `flexible_since` gets header v1."""
    try:
        api_key, api_version, correlation_id, length = _HEADER.unpack_from(frame)
        position = 10 + max(length, 0)
        if position > len(frame):
            raise ProtocolError("a client id beyond the end of its frame")
        client_id = None if length < 0 else str(frame[10:position], "utf-8", AS_JAVA_REPLACES)
        since = flexible_since.get(api_key)
        if since is not None and api_version >= since:
            position = skip_tags(frame, position)
    except (StructError, IndexError) as error:
        raise ProtocolError(f"a malformed request header ({error})") from None
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def encode_response(response: Any, version: int, correlation_id: int) -> tuple[bytearray, Slices]:
    """Returns a whole frame, its size filled in. Record slices stay outside; see `encode_into`."""
    out = bytearray(_RESPONSE_START.size)
    if is_flexible(type(response), version) and response.__api_key__ != ApiKey.API_VERSIONS:
        out.append(0)
    slices: Slices = []
    encode_into(response, version, out, slices)
    size = len(out) - SIZE_BYTES
    for _position, part in slices:
        size += part.size
    _RESPONSE_START.pack_into(out, 0, size, correlation_id)
    return out, slices


def encode_request(request: Any, version: int, correlation_id: int, client_id: str | None) -> bytearray:
    """Returns a whole frame, its size filled in."""
    out = bytearray(SIZE_BYTES)
    name = b"" if client_id is None else client_id.encode()
    out += _HEADER.pack(request.__api_key__, version, correlation_id, -1 if client_id is None else len(name))
    out += name
    if is_flexible(type(request), version):
        out.append(0)
    encode_into(request, version, out, [])
    _SIZE.pack_into(out, 0, len(out) - SIZE_BYTES)
    return out


def decode_response(cls: Any, version: int, frame: memoryview) -> tuple[int, Any]:
    """Returns the correlation id and the message of a response frame (without its size)."""
    if len(frame) < _CORRELATION_ID.size:
        raise ProtocolError("a response shorter than its header")
    (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
    position = _CORRELATION_ID.size
    if is_flexible(cls, version) and cls.__api_key__ != ApiKey.API_VERSIONS:
        try:
            position = skip_tags(frame, position)
        except IndexError:
            raise ProtocolError("a response that ends in its header") from None
    return correlation_id, decode(cls, version, frame, position)


def is_flexible(cls: Any, version: int) -> bool:
    return cls.__flexible_since__ is not None and version >= cls.__flexible_since__
