"""Starts both brokers, tells stories until there were enough pairs."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from compat_tests.brokers import BROKERS
from compat_tests.differential.report import Report
from compat_tests.differential.schemas import apis
from compat_tests.differential.sides import Answer, Barrier, Request, Side
from compat_tests.differential.stories.anything import Anything, EveryVersion, Frames
from compat_tests.differential.stories.fetches import SessionOfTheDeleted, Waits
from compat_tests.differential.stories.groups import BothProtocols, ClassicGroup, ConsumerGroup
from compat_tests.differential.stories.records import Batches, Lifecycle, Producers, Sessions
from compat_tests.differential.stories.topics import Configs, Pages
from compat_tests.differential.stories.transactions import Transactions
from compat_tests.differential.story import Arena, Story

SETTINGS = {
    # Kafka says first that a topic is unknown and creates it some time later: no two runs would be alike.
    "auto.create.topics.enable": "false",
    "log.retention.ms": "-1",  # old timestamps are part of the test
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}

STORIES: dict[str, type[Story]] = {
    story.__name__: story
    for story in (
        *(EveryVersion, Anything, Frames),
        *(Producers, Batches, Sessions, SessionOfTheDeleted, Waits, Lifecycle, Configs, Pages),
        *(ClassicGroup, ConsumerGroup, BothProtocols, Transactions),
    )
}
ROUND = (
    *("Anything", "Producers", "Anything", "ClassicGroup", "Anything", "Batches", "Anything", "ConsumerGroup"),
    *(
        "Anything",
        "Sessions",
        "Transactions",
        "Frames",
        "Anything",
        "Lifecycle",
        "Anything",
        "BothProtocols",
        "Configs",
    ),
    *("Anything", "Pages", "Anything", "SessionOfTheDeleted", "Anything", "Waits"),
)
"""The stories in their order, over and over, after every version had its turn."""


OF_THE_CLUSTER = frozenset(
    (
        *("AddRaftVoter", "RemoveRaftVoter", "DescribeQuorum"),
        *("UnregisterBroker", "UpdateFeatures", "ElectLeaders", "AlterPartitionReassignments"),
    )
)
"""What changes or describes the cluster itself, on which all stories depend. compat_tests/cluster asks that of its own
clusters."""


@contextmanager
def arena(
    folder: Path,
    brokers: tuple[str, str] = ("kafka", "barnabas"),
    alter: Callable[[Request, Answer], None] | None = None,
) -> Iterator[Arena]:
    """Starts two brokers to compare; `alter` changes what the second says, to see that it is noticed."""
    with ExitStack() as running:
        ports = []
        for number, name in enumerate(brokers):
            place = folder / f"{number}-{name}"
            place.mkdir()
            ports.append(running.enter_context(BROKERS[name](place, SETTINGS)).port)
        sides = [Side(name, port) for name, port in zip(brokers, ports)]
        barrier = Barrier()
        for side in sides:
            barrier.prepare(side)
            wait_for_coordinator(side)
            wait_for_producer_ids(side)
        shared = shared_versions(*sides)
        for side in sides:
            side.close()
        versions = {
            name: [version for version in both if version in apis()[name].request.versions]
            for name, both in shared.items()
        }
        refused = {name: sorted({*both} - {*versions[name]}) for name, both in shared.items()}
        an_hour_ago = int(time.time() * 1_000) - 3_600_000
        yield Arena(ports[0], ports[1], versions, refused, an_hour_ago, barrier, Report(), alter)


def wait_for_coordinator(side: Side) -> None:
    """Waits for both coordinators: the topic of each is created when one is first asked for."""
    for key_type in (0, 1):
        asked = {"KeyType": key_type, "CoordinatorKeys": ["any"]}
        while side.call("FindCoordinator", asked)["Coordinators"][0]["ErrorCode"] != 0:
            pass
    while side.call("DescribeGroups", {"Groups": ["any"]}, 5)["Groups"][0]["ErrorCode"] != 0:
        pass
    while side.call("ListTransactions", {}, 2)["ErrorCode"] != 0:
        pass


def wait_for_producer_ids(side: Side) -> None:
    """Waits for producer ids: Kafka fetches its first block when it is first asked for one, and has the client ask
    again."""
    while side.call("InitProducerId", {"TransactionalId": None}, 4)["ErrorCode"] != 0:
        pass


def shared_versions(*sides: Side) -> dict[str, list[int]]:
    """Returns, for every API that does not concern the cluster itself, the versions that both advertise."""
    told = [{entry["ApiKey"]: entry for entry in side.call("ApiVersions", {}, 0)["ApiKeys"]} for side in sides]
    shared = {}
    for api in apis().values():
        if all(api.key in entries for entries in told) and api.name not in OF_THE_CLUSTER:
            first = max(entries[api.key]["MinVersion"] for entries in told)
            last = min(entries[api.key]["MaxVersion"] for entries in told)
            shared[api.name] = list(range(first, last + 1))
    return shared


def is_covered(where: Arena) -> bool:
    """Says whether every version was sent. A story that tries may end before."""
    advertised = (
        (name, version) for told in (where.versions, where.refused) for name in told for version in told[name]
    )
    return all(pair in where.report.pairs for pair in advertised)


def tell(where: Arena, pairs: int, seed: int, progress: Callable[[str], None] = lambda line: None) -> None:
    """Tells stories for at least so many pairs. Every story's seed follows from `seed`."""
    number = 0
    while where.report.total < pairs:
        name = ROUND[number % len(ROUND)]
        if not is_covered(where):
            name = "EveryVersion"
            while all(pair in where.report.pairs for pair in EveryVersion.calls(where, seed + number)):
                number += 1
        STORIES[name](where, seed + number).run()
        number += 1
        progress(f"{where.report.total} pairs, {number} stories, {len(where.report.found)} differences")
