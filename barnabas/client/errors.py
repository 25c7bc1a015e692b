"""The errors between a client and a cluster, and which of them a later attempt can mend."""

from barnabas.options import Failure
from barnabas.protocol.errors import ErrorCode, KafkaError

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
"""The same, for the coordinator of a group."""


class Unreachable(Failure):
    """No broker answered."""


class NoSuchTopic(KafkaError):
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def __init__(self, name: str) -> None:
        super().__init__(f"topic {name} does not exist")
        self.name = name


def check(error_code: int, message: str | None, about: str) -> None:
    """Raises the error that a broker answered with, in its own words if it has any."""
    if error_code:
        raise KafkaError(f"{about}: {message}" if message else about, ErrorCode(error_code))
