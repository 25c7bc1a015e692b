"""Error codes are numbers on the wire: another number is another error."""

import kafka.errors
import pytest

from barnabas.protocol import errors
from barnabas.protocol.errors import ErrorCode, KafkaError

CLASSES = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, KafkaError)]
OLD_NAMES = {
    "UNKNOWN_SERVER_ERROR": "UNKNOWN",
    "NONE": "NO_ERROR",
    "NOT_LEADER_OR_FOLLOWER": "NOT_LEADER_FOR_PARTITION",
    "MESSAGE_TOO_LARGE": "MESSAGE_SIZE_TOO_LARGE",
    "INVALID_TOPIC_EXCEPTION": "INVALID_TOPIC",
    "INVALID_REPLICA_ASSIGNMENT": "INVALID_REPLICATION_ASSIGNMENT",
}
"""What kafka-python calls an error whose name changed, or was never the same."""


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("NONE", 0),
        ("OFFSET_OUT_OF_RANGE", 1),
        ("CORRUPT_MESSAGE", 2),
        ("UNKNOWN_TOPIC_OR_PARTITION", 3),
        ("NOT_LEADER_OR_FOLLOWER", 6),
        ("MESSAGE_TOO_LARGE", 10),
        ("INVALID_TOPIC_EXCEPTION", 17),
        ("UNKNOWN_MEMBER_ID", 25),
        ("REBALANCE_IN_PROGRESS", 27),
        ("UNSUPPORTED_VERSION", 35),
        ("TOPIC_ALREADY_EXISTS", 36),
        ("OUT_OF_ORDER_SEQUENCE_NUMBER", 45),
        ("KAFKA_STORAGE_ERROR", 56),
    ],
)
def test_those_that_clients_act_upon(name: str, number: int) -> None:
    assert ErrorCode[name] == number


def test_every_number_means_to_kafka_python_what_it_means_here() -> None:
    theirs = {code: cls.message for code, cls in kafka.errors.kafka_errors.items()}
    assert len(theirs) > 100
    ours = {code.value: OLD_NAMES.get(code.name, code.name) for code in ErrorCode if code in theirs}
    assert ours == {code: theirs[code] for code in ours}


@pytest.mark.parametrize("cls", CLASSES)
def test_every_exception_that_is_told_to_a_client_has_a_code(cls: type[KafkaError]) -> None:
    assert isinstance(cls.code, ErrorCode)
    assert cls.code != ErrorCode.NONE


def test_a_code_of_a_later_kafka_is_an_error_that_everybody_knows() -> None:
    assert ErrorCode(9_999) is ErrorCode.UNKNOWN_SERVER_ERROR
