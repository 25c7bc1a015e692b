from typing import Any, NamedTuple

import pytest

from barnabas.protocol.stored.metadata_records import PartitionChangeRecord
from barnabas.replication.controller.partitions.partition_changes import (
    Candidates,
    Circumstances,
    Election,
    partition_change,
)
from barnabas.replication.metadata.image import PartitionImage
from barnabas.replication.metadata.image_delta import merged
from tests.replication.clusters import cluster, uuid

BROKERS = cluster(1, 2, 3, 4).brokers
ONLINE, PREFERRED, UNCLEAN = Election


def partition(leader: int, isr: list[int], elr: tuple[int, ...] = (), last: tuple[int, ...] = ()) -> PartitionImage:
    """One of replicas 1, 2 and 3."""
    dirs = tuple(BROKERS[replica].log_dirs[0] for replica in (1, 2, 3))
    found = PartitionImage(leader, 5, 9, (1, 2, 3), tuple(isr), directories=dirs)
    return found._replace(eligible_leader_replicas=elr, last_known_elr=last)


def among(*alive: int, election: Election = ONLINE, min_isr: int = 2, elr: bool = True, **more: Any) -> Circumstances:
    brokers = {broker_id: broker for broker_id, broker in BROKERS.items() if broker_id in alive}
    return Circumstances(Candidates(brokers), election, min_isr, elr, **more)


def changed(before: PartitionImage, circumstances: Circumstances, **wanted: Any) -> PartitionImage:
    wanted = {name: tuple(value) if isinstance(value, list) else value for name, value in wanted.items()}
    change = partition_change(uuid(1), 0, before, before._replace(**wanted), circumstances)
    return before if change is None else merged(before, change)


class Left(NamedTuple):
    """What is left of a partition."""

    leader: int
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()


def left(after: PartitionImage) -> Left:
    return Left(after.leader, after.isr, after.eligible_leader_replicas, after.last_known_elr)


@pytest.mark.parametrize(
    ("before", "isr", "circumstances", "after"),
    [
        (partition(1, [1, 2, 3]), [1, 2], among(1, 2), Left(1, (1, 2))),  # two are enough: nobody is eligible
        (partition(1, [1, 2, 3]), [2, 3], among(2, 3), Left(2, (2, 3))),
        (partition(1, [1, 2]), [1], among(1), Left(1, (1,), (2,))),  # below the minimum: nothing is committed without 2
        (partition(1, [1, 2]), [2], among(2), Left(2, (2,), (1,))),
        (partition(1, [1, 2]), [2], among(2, lost=1), Left(2, (2,))),  # it may have lost what it had
        (partition(2, [2], (1,)), [], among(), Left(-1, (), (1, 2), (2,))),
        (partition(2, [2], (1,)), [], among(1), Left(1, (1,), (2,))),  # 1 is eligible: it leads, cleanly
        (partition(2, [2], (1,)), [], among(3), Left(-1, (), (1, 2), (2,))),  # 3 is not
        (partition(2, [2], (1,)), [], among(lost=2), Left(-1, (), (1,), (2,))),
        (partition(2, [2], (1,)), [1, 2], among(1, 2), Left(2, (1, 2))),  # enough again: nobody is only eligible
        (partition(1, [1, 2, 3]), [], among(min_isr=1), Left(-1, (), (1, 2, 3), (1,))),
        (partition(-1, [], (1, 2), (2,)), [], among(2), Left(2, (2,), (1,))),  # an eligible one has come back
        (partition(-1, [], (1,), (2,)), [], among(2), Left(-1, (), (1,), (2,))),  # 1 may still come: it has more
        (partition(-1, [], (), (2,)), [], among(1, 3), Left(-1, (), (), (2,))),
        (partition(-1, [], (), (2,)), [], among(2), Left(2, (2,))),  # the last leader, though it may have lost records
        (partition(-1, [], (), (2, 3)), [], among(2, 3), Left(-1, (), (), (2, 3))),  # who led last is not known
        (partition(-1, [], (), (2,)), [], among(3, election=UNCLEAN), Left(3, (3,))),
        (partition(-1, [], (1,), (2,)), [], among(3, election=UNCLEAN), Left(3, (3,))),  # the operator does not wait
        (partition(1, [1, 2, 3]), [], among(elr=False), Left(-1, (1, 2, 3))),  # without ELR the last stay in sync
        (partition(1, [1, 2]), [1], among(1, elr=False), Left(1, (1,))),
        (partition(-1, [], (1,), (1,)), [], among(1, elr=False), Left(1, (1,), (), (1,))),  # ELR was switched off
    ],
)
def test_who_leads_and_who_may_lead_next(
    before: PartitionImage, isr: list[int], circumstances: Circumstances, after: Left
) -> None:
    assert left(changed(before, circumstances, isr=isr)) == after


@pytest.mark.parametrize(
    ("before", "circumstances", "recovering"),
    [
        (partition(-1, [], (), (2,)), among(2), True),  # the last known leader
        (partition(-1, [3]), among(1, election=UNCLEAN), True),
        (partition(-1, [3]), among(3, election=UNCLEAN), False),  # one that is in sync is there
        (partition(-1, [], (3,)), among(3, election=UNCLEAN), False),  # or eligible
        (partition(1, [1, 2]), among(2), False),
    ],
)
def test_who_may_have_lost_records_recovers(
    before: PartitionImage, circumstances: Circumstances, recovering: bool
) -> None:
    after = changed(before, circumstances)
    assert (after.leader > 0, after.leader_recovery_state) == (True, recovering)
    assert len(after.isr) == 1 if recovering else True


@pytest.mark.parametrize(
    ("before", "wanted", "circumstances", "epochs"),
    [
        (partition(1, [1, 2, 3]), {"isr": [1, 2]}, among(1, 2, 3), (5, 10)),  # a follower left: the same leader epoch
        (partition(1, [1, 2]), {"isr": [1, 2, 3]}, among(1, 2, 3), (5, 10)),
        (partition(1, [1, 2, 3]), {"isr": [2, 3]}, among(2, 3), (6, 10)),  # another leader
        (partition(1, [1, 2, 3]), {"isr": []}, among(), (6, 10)),  # no leader
        (partition(1, [1, 2, 3]), {}, among(1, 2, 3), (5, 9)),  # nothing
        (partition(1, [1, 2, 3]), {"replicas": [1, 2]}, among(1, 2, 3), (6, 10)),  # 3 must know that it is out
        (partition(1, [1, 2, 3]), {"replicas": [1, 2, 3, 4]}, among(1, 2, 3), (5, 10)),
        (partition(1, [1, 2, 3]), {"leader_recovery_state": 1}, among(1, 2, 3), (5, 10)),
    ],
)
def test_the_leader_epoch_begins_anew_only_when_it_must_and_the_partition_epoch_always(
    before: PartitionImage, wanted: dict[str, Any], circumstances: Circumstances, epochs: tuple[int, int]
) -> None:
    after = changed(before, circumstances, **wanted)
    assert (after.leader_epoch, after.partition_epoch) == epochs


@pytest.mark.parametrize(
    ("election", "leader", "isr", "alive", "elected"),
    [
        (ONLINE, 2, [3, 2, 1], (1, 2, 3), 2),  # it leads on
        (PREFERRED, 2, [3, 2, 1], (1, 2, 3), 1),
        (PREFERRED, 2, [3, 2], (1, 2, 3), 2),  # the preferred one is not in sync
        (PREFERRED, 2, [3, 2, 1], (2, 3), 2),  # or not alive
        (ONLINE, 1, [3, 2, 1], (2, 3), 2),  # by the order of the replicas, not of those in sync
        (UNCLEAN, 1, [1], (2, 3), 2),
        (PREFERRED, 1, [1], (2, 3), -1),
    ],
)
def test_an_election(election: Election, leader: int, isr: list[int], alive: tuple[int, ...], elected: int) -> None:
    assert changed(partition(leader, isr), among(*alive, election=election)).leader == elected


def test_a_broker_that_joins_may_lead_and_one_that_leaves_may_not() -> None:
    image = cluster(1, 2, fenced=(1,))
    before = PartitionImage(-1, 0, 0, (1, 2), (1, 2))
    joining = Circumstances(Candidates(image.brokers, joining=1, leaving=2))
    assert changed(before, joining).leader == 1
    assert changed(before, Circumstances(Candidates(image.brokers, leaving=2))).leader == -1


def test_new_replicas_lie_in_the_only_dir_of_their_broker_and_the_others_stay_where_they_are() -> None:
    before = partition(1, [1, 2, 3])._replace(directories=(uuid(1), uuid(2), uuid(3)))
    after = changed(before, among(1, 2, 3, 4), replicas=[3, 4, 5, 1])
    unassigned = bytes(15) + b"\1"
    assert after.directories == (uuid(3), uuid(204), unassigned, uuid(1))  # nobody knows broker 5


def test_a_record_holds_only_what_changes() -> None:
    before = partition(1, [1, 2, 3])
    change = partition_change(uuid(1), 4, before, before._replace(isr=(1, 2)), among(1, 2, 3))
    assert change == PartitionChangeRecord(partition_id=4, topic_id=uuid(1), isr=[1, 2])
