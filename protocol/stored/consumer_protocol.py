"""The messages of consumers to each other through the classic group protocol: subscriptions and assignments.

The broker hands these bytes on unread, except where it must know the topics: to refuse the deletion of offsets in use,
and to let classic members and members of the consumer protocol share a group.

Both begin with their version, in two bytes. A later version only adds fields at the end, so one that is not known here
is read as the latest that is, and what follows is left alone.
"""

from collections.abc import Sequence
from struct import Struct
from typing import TypeVar

from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.schema import array, blob, decode_from, encode_into, int32, message, string, struct

T = TypeVar("T")

PROTOCOL_TYPE = "consumer"
LATEST_VERSION = 3

_INT16 = Struct(">h")


@struct
class TopicPartition:
    topic: str = string()
    partitions: Sequence[int] = array(int32)


@message(versions=range(0, LATEST_VERSION + 1))
class ConsumerProtocolSubscription:
    topics: Sequence[str] = array(string)
    user_data: bytes | None = blob(nullable=True, default=None)
    owned_partitions: Sequence[TopicPartition] = array(TopicPartition, since=1, default=())
    generation_id: int = int32(since=2, default=-1)
    rack_id: str | None = string(since=3, nullable=True, default=None)


@message(versions=range(0, LATEST_VERSION + 1))
class ConsumerProtocolAssignment:
    assigned_partitions: Sequence[TopicPartition] = array(TopicPartition)
    user_data: bytes | None = blob(nullable=True, default=None)


def decode_version(data: bytes) -> int:
    """Returns the version to answer a member in: that of its own subscription, or the latest we know."""
    if len(data) < _INT16.size:
        raise ProtocolError(f"no version in the {len(data)} bytes of a consumer's metadata")
    version: int = _INT16.unpack_from(data)[0]
    if version < 0:
        raise ProtocolError(f"a consumer's metadata of version {version}")
    return min(version, LATEST_VERSION)


def decode_subscription(data: bytes) -> ConsumerProtocolSubscription:
    return _decode(ConsumerProtocolSubscription, data)


def decode_assignment(data: bytes) -> ConsumerProtocolAssignment:
    return _decode(ConsumerProtocolAssignment, data)


def encode_subscription(subscription: ConsumerProtocolSubscription, version: int = LATEST_VERSION) -> bytes:
    return _encode(subscription, version)


def encode_assignment(assignment: ConsumerProtocolAssignment, version: int = LATEST_VERSION) -> bytes:
    return _encode(assignment, version)


def _decode(cls: type[T], data: bytes) -> T:
    value, _ = decode_from(cls, decode_version(data), data, _INT16.size)
    return value


def _encode(value: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int) -> bytes:
    out = bytearray(_INT16.pack(version))
    encode_into(value, version, out, [])
    return bytes(out)
