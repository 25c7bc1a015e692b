"""What a decision is made of: records to append, all of them or none, and what to answer once they are committed."""

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import Uuid
from barnabas.replication.metadata_record_serde import MetadataRecord
from barnabas.replication.placement import Random

R = TypeVar("R")

RECORDS_MAX = 10_000
"""What one request may add, partitions or records: Kafka's own limit on an operation of a client."""


class Decision(NamedTuple, Generic[R]):
    records: Sequence[MetadataRecord]
    response: R


def refused(code: ErrorCode, reason: str) -> KafkaError:
    return KafkaError(reason, code)


def random_uuid(random: Random) -> Uuid:
    """A version 4 UUID whose text does not start with a dash, which a command line would take for an option."""
    while True:
        uuid = bytearray(random.randbytes(16))
        uuid[6] = uuid[6] & 0x0F | 0x40
        uuid[8] = uuid[8] & 0x3F | 0x80
        if uuid[0] >> 2 != _DASH:
            return bytes(uuid)


_DASH = 62
"""The digit that URL-safe base64 writes as a dash."""
