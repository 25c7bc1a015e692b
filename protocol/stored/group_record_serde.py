"""Group records as bytes: the key and the value of each record in `__consumer_offsets`.

A key is the record's type and then the key's message, always in version 0; a value is its version and then its message.
Both numbers take two bytes. A record without a value is a tombstone: what its key names is gone.
"""

from struct import Struct

from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.schema import decode, encode_into
from barnabas.protocol.stored.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

GroupKey = (
    ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupRegularExpressionKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | GroupMetadataKey
    | OffsetCommitKey
)
GroupValue = (
    ConsumerGroupCurrentMemberAssignmentValue
    | ConsumerGroupMemberMetadataValue
    | ConsumerGroupMetadataValue
    | ConsumerGroupPartitionMetadataValue
    | ConsumerGroupRegularExpressionValue
    | ConsumerGroupTargetAssignmentMemberValue
    | ConsumerGroupTargetAssignmentMetadataValue
    | GroupMetadataValue
    | OffsetCommitValue
)

LEGACY_OFFSET_COMMIT = 0
"""The type of offset commits before 0.9. Their key is the same, and their value is version 0 of today's."""

_INT16 = Struct(">h")
_KEYS: dict[int, type[GroupKey]] = {cls.__api_key__: cls for cls in GroupKey.__args__}
_KEYS[LEGACY_OFFSET_COMMIT] = OffsetCommitKey
_VALUES: dict[int, type[GroupValue]] = {cls.__api_key__: cls for cls in GroupValue.__args__}
_VALUES[LEGACY_OFFSET_COMMIT] = OffsetCommitValue


def encode_key(key: GroupKey) -> bytes:
    out = bytearray(_INT16.pack(type(key).__api_key__))  # type: ignore[union-attr]
    encode_into(key, 0, out, [])
    return bytes(out)


def encode_value(value: GroupValue) -> bytes:
    version = _version_to_write(value)
    out = bytearray(_INT16.pack(version))
    encode_into(value, version, out, [])
    return bytes(out)


def _version_to_write(value: GroupValue) -> int:
    """Returns the version that Kafka 4.3 writes, so that it reads our log as its own."""
    if isinstance(value, OffsetCommitValue):  # only version 1 has the expiry that a client may ask for
        return 4 if value.expire_timestamp == -1 else 1
    return 3 if isinstance(value, GroupMetadataValue) else 0


def decode_record(key: bytes, value: bytes | None) -> tuple[GroupKey, GroupValue | None] | None:
    """Returns key and value, which is None in a tombstone. Returns None if the type is not known here, such as that of
    a share group: it is not about the groups we have. Raises ProtocolError if the bytes are no record."""
    record_type = _number(key)
    key_class = _KEYS.get(record_type)
    if key_class is None:
        return None
    decoded_key = decode(key_class, 0, key, _INT16.size)
    if value is None:
        return decoded_key, None
    value_class = _VALUES[record_type]
    version = _number(value)
    if version not in value_class.__versions__:  # type: ignore[union-attr]
        raise ProtocolError(f"{value_class.__name__} of version {version} is not known here")
    return decoded_key, decode(value_class, version, value, _INT16.size)


def _number(data: bytes) -> int:
    if len(data) < _INT16.size:
        raise ProtocolError(f"a group record of {len(data)} bytes")
    number: int = _INT16.unpack_from(data)[0]
    return number
