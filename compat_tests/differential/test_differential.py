"""The same requests to Barnabas and to Apache Kafka get the same answers, but for what allowed.py lists.

A thousand pairs, ten thousand where COMPAT=full is set, with a fixed seed. DIFFERENTIAL_SEED sets another one, and
`python -m compat_tests.differential` takes a new one each time.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compat_tests.brokers import KAFKA_LIBS
from compat_tests.conftest import require
from compat_tests.differential.allowed import ALLOWED
from compat_tests.differential.compare import ENDING
from compat_tests.differential.report import Report
from compat_tests.differential.runner import STORIES, arena, is_covered, tell
from compat_tests.differential.sides import CLOSED, Answer, Request
from compat_tests.differential.story import Arena

SEED = int(os.environ.get("DIFFERENTIAL_SEED", 4_300))
IS_LONG = os.environ.get("COMPAT") == "full" and os.environ.get("BROKER", "barnabas") == "barnabas"
PAIRS = 10_000 if IS_LONG else 1_000

pytestmark = pytest.mark.timeout(900)  # all pairs are one fixture, and half of a machine of two cores may be busy


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    """Both brokers, after the whole run."""
    require(("java", KAFKA_LIBS))
    with arena(tmp_path_factory.mktemp("differential")) as where:
        tell(where, PAIRS, SEED)
        yield where


def test_both_brokers_give_the_same_answers(compared: Arena) -> None:
    assert not compared.report.found, "\n".join(compared.report.lines(with_logs=True))
    assert compared.report.total >= PAIRS


def test_every_version_that_both_advertise_was_sent(compared: Arena) -> None:
    assert is_covered(compared)
    assert compared.versions.keys() >= {"Produce", "Fetch", "JoinGroup", "ConsumerGroupHeartbeat", "CreateTopics"}


def test_every_allowed_difference_says_why() -> None:
    for entry in ALLOWED:
        assert entry.reason.endswith("."), entry
        assert len(entry.reason.split()) > 3, entry


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    """Two of ours: whatever differs was altered."""
    require((KAFKA_LIBS,))
    with arena(tmp_path_factory.mktemp("twins"), ("barnabas", "barnabas")) as where:
        yield where


def test_a_broker_does_not_differ_from_itself(twins: Arena) -> None:
    for number, name in enumerate(STORIES):
        where = twins._replace(report=Report())
        STORIES[name](where, 100 + number).run()
        assert not where.report.found, "\n".join(where.report.lines(with_logs=True))


def set_to(*path: str | int, value: Any) -> Callable[[Answer], None]:
    """Puts a value in the place of the answer's own, if the answer has that place."""

    def alter(answer: Answer) -> None:
        holder: Any = answer
        for name in path[:-1]:
            holder = holder[name]
        assert holder[path[-1]] != value
        holder[path[-1]] = value

    return alter


def flip_a_byte(answer: Answer) -> None:
    partition = answer["Responses"][0]["Partitions"][0]
    records = bytearray(partition["Records"])
    records[-1] ^= 1
    partition["Records"] = bytes(records)


def forget_one(answer: Answer) -> None:
    answer["Topics"].pop()


LIES: list[tuple[str, str, Callable[[Answer], None], str]] = [
    ("Batches", "Produce", set_to("Responses", 0, "PartitionResponses", 0, "BaseOffset", value=77), "*.BaseOffset"),
    ("Batches", "Produce", set_to("Responses", 0, "PartitionResponses", 0, "ErrorCode", value=87), "*.ErrorCode"),
    ("Batches", "Fetch", flip_a_byte, "*.Body"),  # inside a record; its checksum is wrong too
    ("Batches", "Fetch", set_to("Responses", 0, "Partitions", 0, "HighWatermark", value=1_000), "*.HighWatermark"),
    ("Batches", "CreateTopics", set_to("Topics", 0, "NumPartitions", value=9), "*.NumPartitions"),
    ("Batches", "CreateTopics", forget_one, "Topics"),  # an element that is missing
    ("Batches", "ListOffsets", set_to("Topics", 0, "Partitions", 0, "Timestamp", value=5), "*.Timestamp"),
    ("ConsumerGroup", "ConsumerGroupHeartbeat", set_to("MemberEpoch", value=9), "MemberEpoch"),
    ("ConsumerGroup", "ConsumerGroupHeartbeat", set_to("ErrorMessage", value=""), "ErrorMessage"),
]


@pytest.mark.parametrize(("number", "story", "api", "lie", "path"), [(number, *row) for number, row in enumerate(LIES)])
def test_an_altered_answer_is_reported(
    twins: Arena, number: int, story: str, api: str, lie: Callable[[Answer], None], path: str
) -> None:
    lied: list[Request] = []

    def alter(asked: Request, answer: Answer) -> None:
        if asked.api.name == api and not lied:
            lied.append(asked)
            lie(answer)

    where = twins._replace(report=Report(), alter=alter)
    STORIES[story](where, 1_000 + number).run()
    assert lied, "the story has no such answer"
    assert any(found.request.api.name == api and matches(found.difference.path, path) for found in where.report.found)


def matches(path: str, expected: str) -> bool:
    return path.endswith(expected.removeprefix("*")) if expected.startswith("*") else path == expected


def test_a_connection_that_one_broker_closes_is_reported(twins: Arena) -> None:
    def alter(asked: Request, answer: Answer) -> None:
        if asked.api.name == "Metadata":
            answer.clear()
            answer |= CLOSED

    where = twins._replace(report=Report(), alter=alter)
    STORIES["Lifecycle"](where, 5_000).run()
    assert [found.difference.kafka for found in where.report.found if found.difference.path == ENDING]
