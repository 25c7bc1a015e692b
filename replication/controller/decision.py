"""A decision: records to append, all of them or none, and the response to send once they are committed."""

from collections.abc import Sequence
from typing import Generic, TypeVar

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord

R = TypeVar("R")

RECORDS_MAX = 10_000
"""How many partitions or records one request may add: Kafka's own limit on an operation of a client."""


class Decision(NamedTuple, Generic[R]):
    records: Sequence[MetadataRecord]
    response: R


def refused(code: ErrorCode, reason: str) -> KafkaError:
    return KafkaError(reason, code)
