"""Every command-line tool of Kafka says of this broker what it says of Apache Kafka, to its last line.

Where a tool needs what Barnabas does not serve, it says which API that is. With BROKER=kafka two Kafkas are compared:
what differs then is not the broker's doing.
"""

import pytest

from compat_tests.brokers import BROKER, BROKERS
from compat_tests.conftest import require
from compat_tests.harness.clients import CLIENTS
from compat_tests.harness.driver import Driver
from compat_tests.harness.not_served import APIS_NOT_SERVED
from compat_tests.tools.cluster_tables import CLUSTERS
from compat_tests.tools.data_tables import DATA, FILES
from compat_tests.tools.invocation import Invocation
from compat_tests.tools.runs import Said, Side, is_refusal, without_what_is_not_served

SETTINGS = {
    "barnabas": {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"},
    "kafka": {
        "offsets.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
    },
}
INVOCATIONS = [invocation for invocation in (*DATA, *CLUSTERS) if invocation.in_this_run]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Said, Said]]:
    """Returns what each tool said of the broker and of Apache Kafka, in the order of the tables."""
    java = next(client for client in CLIENTS if client.name == "java-4.3")
    require(java.needs)
    folders = [tmp_path_factory.mktemp(name) for name in ("broker", "kafka", "files")]
    for name, text in FILES.items():
        (folders[2] / name).write_text(text)
    tools = Driver(java, "", folders[2] / "tools.log")
    try:
        with (
            BROKERS[BROKER](folders[0], SETTINGS[BROKER]) as broker,
            BROKERS["kafka"](folders[1], SETTINGS["kafka"]) as kafka,
        ):
            ours, theirs = (Side(side, tools, folders[2]) for side in (broker, kafka))
            return [(ours.run(invocation), theirs.run(invocation)) for invocation in INVOCATIONS]
    finally:
        tools.stop()


@pytest.mark.parametrize(
    ("number", "invocation"), list(enumerate(INVOCATIONS)), ids=[str(invocation) for invocation in INVOCATIONS]
)
def test_a_tool_says_the_same_of_both_brokers(
    said: list[tuple[Said, Said]], number: int, invocation: Invocation
) -> None:
    ours, kafkas = said[number]
    assert invocation.not_served or kafkas.is_failure == invocation.fails, kafkas
    if BROKER == "kafka":
        assert ours == kafkas
    elif invocation.not_served:
        assert is_refusal(ours, invocation.not_served), ours
        assert not is_refusal(kafkas, invocation.not_served), kafkas
    else:
        assert ours == without_what_is_not_served(kafkas)


def test_what_is_refused_needs_an_api_that_is_not_served() -> None:
    """So that a row leaves this list with the API."""
    assert {invocation.not_served for invocation in (*DATA, *CLUSTERS)} - {""} <= set(APIS_NOT_SERVED)
