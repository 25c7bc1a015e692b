from typing import Any

import pytest

from barnabas.protocol.stored.metadata_records import FenceBrokerRecord, PartitionChangeRecord
from barnabas.replication.controller.controller import Controller
from barnabas.replication.controller.partitions import leader_checks
from barnabas.replication.controller.partitions.leader_checks import LeaderChecks
from barnabas.replication.metadata.image import MetadataImage
from barnabas.replication.metadata.image_delta import replayed
from tests.replication.clusters import cluster, controller, new_topic, partition_of, topic_of, with_topics

MINUTE_MS = 60_000


def active(*brokers: int, **settings: Any) -> Controller:
    found = controller(**settings)
    found.sessions.begin(brokers, now_ms=0)
    return found


def orders(
    leader: int, isr: list[int], configs: dict[str, str | None] | None = None, partitions: int = 1
) -> MetadataImage:
    """Partitions of which broker 1 is the preferred leader."""
    assignments = {index: [1, 2] for index in range(partitions)}
    image = with_topics(cluster(1, 2), new_topic("orders", -1, -1, assignments, configs))
    topic_id = topic_of(image, "orders").topic_id
    return replayed(
        image,
        [PartitionChangeRecord(partition_id=i, topic_id=topic_id, leader=leader, isr=isr) for i in range(partitions)],
    )


def checked(image: MetadataImage, controller: Controller, *, now_ms: int) -> list[PartitionChangeRecord]:
    checks = LeaderChecks(controller.settings, now_ms=0)
    checks.check(image, controller.settings, controller.sessions, now_ms=now_ms)  # the other check is due as well
    return checks.check(image, controller.settings, controller.sessions, now_ms=now_ms)


@pytest.mark.parametrize(
    ("leader", "isr", "minutes", "rebalances", "elects"),
    [
        (2, [1, 2], 5, True, True),
        (2, [1, 2], 4, True, False),  # it is not time
        (2, [2], 5, True, False),  # the preferred one is not in sync
        (1, [1, 2], 5, True, False),  # it leads
        (2, [1, 2], 5, False, False),  # the operator does not want it
    ],
)
def test_the_preferred_leader_leads_again(
    leader: int, isr: list[int], minutes: int, rebalances: bool, elects: bool
) -> None:
    image = orders(leader, isr)
    records = checked(image, active(1, 2, auto_leader_rebalance_enable=rebalances), now_ms=minutes * MINUTE_MS)
    assert [record.leader for record in records] == [1] * elects


def test_a_broker_that_has_restarted_leads_only_after_a_while() -> None:
    image, controller = orders(2, [1, 2]), active(2)
    controller.sessions.contact(1, image.brokers[1].broker_epoch, 0, now_ms=3 * MINUTE_MS)
    assert checked(image, controller, now_ms=7 * MINUTE_MS) == []
    controller.sessions.contact(1, image.brokers[1].broker_epoch, 0, now_ms=7 * MINUTE_MS)
    assert [record.leader for record in checked(image, controller, now_ms=8 * MINUTE_MS)] == [1]
    controller.sessions.contact(1, image.brokers[1].broker_epoch + 1, 0, now_ms=8 * MINUTE_MS)  # another life of it
    assert checked(image, controller, now_ms=12 * MINUTE_MS) == []


@pytest.mark.parametrize(("allowed", "leader"), [("true", 2), ("false", -1)])
def test_a_partition_without_a_leader_gets_one_where_unclean_elections_are_allowed(allowed: str, leader: int) -> None:
    image = orders(-1, [1], {"unclean.leader.election.enable": allowed})
    image = replayed(image, [FenceBrokerRecord(id=1, epoch=image.brokers[1].broker_epoch)])
    controller = active(2)
    checks = LeaderChecks(controller.settings, now_ms=0)
    records = checks.check(image, controller.settings, controller.sessions, now_ms=5 * MINUTE_MS)
    assert partition_of(replayed(image, records), "orders", 0).leader == leader


def test_each_check_has_an_interval_of_its_own_and_goes_on_at_once_if_it_has_more_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leader_checks, "ELECTIONS_MAX", 2)
    controller = active(1, 2, leader_imbalance_check_interval_ms=400_000, unclean_leader_election_interval_ms=10**9)
    checks, image = LeaderChecks(controller.settings, now_ms=0), orders(2, [1, 2], partitions=3)
    due = []
    for _ in range(3):
        due.append(checks.due_ms)
        records = checks.check(image, controller.settings, controller.sessions, now_ms=checks.due_ms)
        image = replayed(image, records)
    assert due == [400_000, 400_100, 800_100]
    assert [partition.leader for partition in topic_of(image, "orders").partitions] == [1, 1, 1]
