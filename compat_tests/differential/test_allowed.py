"""How much the list of allowed differences lets pass: what it is about, and nothing beside it."""

import time
from typing import Any

import pytest

from compat_tests.brokers import KAFKA_LIBS
from compat_tests.conftest import require
from compat_tests.differential.allowed import allowance
from compat_tests.differential.compare import compared
from compat_tests.differential.conditions import Seen
from compat_tests.differential.schemas import apis
from compat_tests.differential.sides import Answer, Request

MINUTE_MS = 60_000
PRODUCED_MS = int(time.time() * 1_000) - 60 * MINUTE_MS


@pytest.fixture(autouse=True)
def schemas() -> None:
    require((KAFKA_LIBS,))


def refused(name: str, body: dict[str, Any], kafka: Answer, barnabas: Answer) -> list[str]:
    """Returns the paths of what may not differ."""
    request = Request(apis()[name], 0, body)
    found = compared(kafka, barnabas)
    return [each.path for each in found if allowance(Seen(request, each, kafka, barnabas)) is None]


def listed(timestamp: int, offset: int) -> Answer:
    return {"Topics": [{"Name": "t", "Partitions": [{"PartitionIndex": 0, "Timestamp": timestamp, "Offset": offset}]}]}


LATEST = {"Topics": [{"Name": "t", "Partitions": [{"PartitionIndex": 0, "Timestamp": -3}]}]}
OFFSET, TIMESTAMP = "Topics.Partitions.Offset", "Topics.Partitions.Timestamp"


@pytest.mark.parametrize(
    ("kafka", "barnabas", "expected"),
    [
        ((PRODUCED_MS, 3), (PRODUCED_MS, 4), [OFFSET]),  # one timestamp has one first record
        ((-1, 0), (-1, -1), [OFFSET]),
        ((PRODUCED_MS, 3), (PRODUCED_MS + 1, 3), [TIMESTAMP]),  # what a producer said is no clock's
    ],
)
def test_timestamps_of_producers_are_compared(
    kafka: tuple[int, int], barnabas: tuple[int, int], expected: list[str]
) -> None:
    assert refused("ListOffsets", LATEST, listed(*kafka), listed(*barnabas)) == expected


def test_the_brokers_clocks_may_differ() -> None:
    now = int(time.time() * 1_000)
    assert not refused("ListOffsets", LATEST, listed(now, 3), listed(now - 20, 5))


def described(key: str, **fields: Any) -> Answer:
    return {"Results": [{"ResourceType": 4, "ResourceName": "1", "Configs": [{"Name": key, **fields}]}]}


@pytest.mark.parametrize(
    ("key", "field", "expected"),
    [
        ("node.id", "Value", []),
        ("num.io.threads", "ReadOnly", []),
        ("num.io.threads", "Value", ["Results.Configs.Value"]),
        ("num.io.threads", "ConfigType", ["Results.Configs.ConfigType"]),
    ],
)
def test_keys_of_a_broker_are_compared_but_for_a_few(key: str, field: str, expected: list[str]) -> None:
    assert refused("DescribeConfigs", {}, described(key, **{field: 1}), described(key, **{field: 2})) == expected


def altered(code: int) -> Answer:
    return {"Responses": [{"ResourceType": 2, "ResourceName": "t", "ErrorCode": code}]}


@pytest.mark.parametrize(
    ("name", "changes", "is_refused"),
    [("t", 1, True), ("t", 2, False), ("no name", 1, False)],
)
def test_a_single_change_has_one_error(name: str, changes: int, is_refused: bool) -> None:
    configs = [{"Name": f"key-{number}", "ConfigOperation": 0} for number in range(changes)]
    body = {"Resources": [{"ResourceType": 2, "ResourceName": name, "Configs": configs}]}
    assert bool(refused("IncrementalAlterConfigs", body, altered(40), altered(42))) is is_refused


def deleted(*codes: int) -> Answer:
    return {"Responses": [{"Name": f"t{number}", "ErrorCode": code} for number, code in enumerate(codes)]}


def test_where_kafka_fails_its_other_answers_still_count() -> None:
    assert not refused("DeleteTopics", {}, deleted(-1, 0), deleted(42, 0))
    assert not refused("DeleteTopics", {}, {**deleted(-1, -1), "Next": None}, {**deleted(42, 0), "Next": 1})
    assert refused("DeleteTopics", {}, deleted(-1, 0), deleted(42, 3)) == ["Responses.ErrorCode"]
