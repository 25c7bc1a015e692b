"""Metadata records as bytes: the value of each record in `__cluster_metadata` and its snapshots.

A value is three unsigned varints, the version of this frame, the record's api key and its version, and then the
message. Every record is written in its highest version: that is what the metadata.version we bootstrap with stands for.
"""

from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.schema import decode, encode_into
from barnabas.protocol.stored.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)

FRAME_VERSION = 1
METADATA_VERSION_LEVEL = 30
"""4.3-IV0, the level of Kafka 4.3."""

MetadataRecord = (
    AbortTransactionRecord
    | BeginTransactionRecord
    | BrokerRegistrationChangeRecord
    | ClearElrRecord
    | ConfigRecord
    | EndTransactionRecord
    | FeatureLevelRecord
    | FenceBrokerRecord
    | NoOpRecord
    | PartitionChangeRecord
    | PartitionRecord
    | ProducerIdsRecord
    | RegisterBrokerRecord
    | RegisterControllerRecord
    | RemoveTopicRecord
    | TopicRecord
    | UnfenceBrokerRecord
    | UnregisterBrokerRecord
)

_CLASSES: dict[int, type[MetadataRecord]] = {cls.__api_key__: cls for cls in MetadataRecord.__args__}


def encode_record(record: MetadataRecord) -> bytes:
    cls = type(record)
    version: int = cls.__versions__[-1]  # type: ignore[union-attr]
    value = bytearray((FRAME_VERSION, cls.__api_key__, version))  # type: ignore[union-attr]
    encode_into(record, version, value, [])
    return bytes(value)


def decode_record(value: bytes) -> MetadataRecord:
    """Returns the record. Raises ProtocolError if it is none, or one that we do not know: skipping it would lose a
    change."""
    frame_version, api_key, version, position = _header(value)
    if frame_version != FRAME_VERSION:
        raise ProtocolError(f"a metadata record in a frame of version {frame_version}")
    cls = _CLASSES.get(api_key)
    if cls is None or version not in cls.__versions__:  # type: ignore[union-attr]
        raise ProtocolError(f"metadata record {api_key} of version {version} is not known here")
    return decode(cls, version, value, position)


def _header(value: bytes) -> tuple[int, int, int, int]:
    """Returns frame version, api key, version, and where the message starts."""
    if len(value) >= 3 and (value[0] | value[1] | value[2]) < 0x80:
        return value[0], value[1], value[2], 3
    frame_version, position = _varint(value, 0)
    api_key, position = _varint(value, position)
    version, position = _varint(value, position)
    return frame_version, api_key, version, position


def _varint(value: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    for index in range(position, min(position + 5, len(value))):
        number |= (value[index] & 0x7F) << shift
        if value[index] < 0x80:
            return number, index + 1
        shift += 7
    raise ProtocolError("a metadata record without a whole header")
