"""Kafka's command-line tools say of a cluster of three brokers what they say of three Apache Kafkas, to the last line.

With BROKER=kafka two clusters of Kafka are compared: what differs then is not the broker's doing.
"""

import re

import pytest

from compat_tests.brokers import BROKER, barnabas_cluster, kafka_cluster
from compat_tests.conftest import Drivers
from compat_tests.tools.invocation import Invocation
from compat_tests.tools.runs import Said, Side, without_what_is_not_served
from compat_tests.tools.three_brokers import FILES, THREE_BROKERS

SETTINGS = {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}
ATTEMPTS = 5
START = kafka_cluster if BROKER == "kafka" else barnabas_cluster


@pytest.fixture(scope="module")
def said(drivers: Drivers, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Said, Said]]:
    """Returns what each tool said of the cluster and of Apache Kafka's, in the order of the table."""
    folders = [tmp_path_factory.mktemp(name) for name in ("cluster", "kafkas", "files")]
    for name, text in FILES.items():
        (folders[2] / name).write_text(text)
    with START(folders[0], SETTINGS) as cluster, kafka_cluster(folders[1], SETTINGS) as kafkas:
        tools = drivers["java-4.3"]
        ours, theirs = (Side(side, tools, folders[2]) for side in (cluster, kafkas))
        return [said_of(ours, theirs, invocation) for invocation in THREE_BROKERS]


def said_of(ours: Side, theirs: Side, invocation: Invocation) -> tuple[Said, Said]:
    """Returns what a tool says of both. In a cluster the broker that is asked may not have heard of the change before,
    so those that only look look again while they differ."""
    attempts = ATTEMPTS if re.match(r"--(describe|list)\b", invocation.arguments) else 1
    for _ in range(attempts):
        said = ours.run(invocation), theirs.run(invocation)
        if said[0] == as_ours(said[1]):
            break
    return said


def as_ours(kafkas: Said) -> Said:
    return kafkas if BROKER == "kafka" else without_what_is_not_served(kafkas)


@pytest.mark.parametrize(
    ("number", "invocation"), list(enumerate(THREE_BROKERS)), ids=[str(invocation) for invocation in THREE_BROKERS]
)
def test_a_tool_says_the_same_of_both_clusters(
    said: list[tuple[Said, Said]], number: int, invocation: Invocation
) -> None:
    ours, kafkas = said[number]
    assert kafkas.is_failure == invocation.fails, kafkas
    assert ours == as_ours(kafkas)
