"""The change of one partition: who leads it, who is in sync, and which brokers have it. Pure.

A caller says what the partition is wanted to be, as an image of it; what follows from that is decided here.

Rules:
- A reassignment whose replicas are all in sync is completed by the change that makes it so.
- A leader that may go on leading does. Otherwise the first replica leads that is in sync and active. With nobody in
  sync, the first active one of the eligible leader replicas does, and is alone in sync then (ELR, KIP-966).
- Active is a replica whose broker is, and whose log dir has not failed (KIP-858).
- Who leaves the in-sync replicas while they are fewer than `min.insync.replicas` is eligible: nothing was committed
  without it. It no longer is after an unclean shutdown, and nobody is once enough replicas are in sync again.
- Without anybody in sync or eligible, the last leader leads again: it may have lost records, but hardly any. An unclean
  election, where the topic or the operator allows it, takes any active replica. Whoever was elected in one of these two
  ways is alone in sync, and recovering.
- While ELR is off, the last in-sync replica stays in sync when it goes: it must be the one to lead again.
- The leader epoch begins anew when the leader changes, or is lost, or replicas are removed; the partition epoch always.
- A change that would change nothing is no record.
"""

from collections.abc import Mapping
from enum import Enum, auto

from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.stored.metadata_records import PartitionChangeRecord
from barnabas.protocol.types import Uuid
from barnabas.replication.controller.partitions.directories import default_directory, directory_of, is_online
from barnabas.replication.controller.partitions.reassignment import completed
from barnabas.replication.metadata.image import NO_LEADER, BrokerImage, PartitionImage

RECOVERED = 0
RECOVERING = 1


class Election(Enum):
    ONLINE = auto()
    """Keeps a leader that is fit to lead."""
    PREFERRED = auto()
    """Prefers the first replica to a leader that is fit to lead."""
    UNCLEAN = auto()
    """Takes a replica that is not in sync before none."""


class Candidates(NamedTuple):
    """Who may lead, while the records that change it are being written."""

    brokers: Mapping[int, BrokerImage]
    joining: int | None = None
    """The broker that these records unfence."""
    leaving: int | None = None
    """The broker that these records take out."""

    def may_lead(self, broker_id: int, partition: PartitionImage) -> bool:
        broker = self.brokers.get(broker_id)
        if broker is None or broker_id == self.leaving or not (broker.is_active or broker_id == self.joining):
            return False
        return is_online(broker, directory_of(partition, broker_id))


class Circumstances(NamedTuple):
    """What a change depends on besides the partition."""

    candidates: Candidates
    election: Election = Election.ONLINE
    min_isr: int = 1
    """How many replicas must be in sync for a record to be committed: the topic cannot ask for more than it has."""
    elr_enabled: bool = False
    lost: int | None = None
    """The broker that had an unclean shutdown: it may miss committed records."""


class Elected(NamedTuple):
    leader: int
    is_unclean: bool = False


def partition_change(
    topic_id: Uuid, index: int, partition: PartitionImage, wanted: PartitionImage, circumstances: Circumstances
) -> PartitionChangeRecord | None:
    """Returns the record that makes the partition what it is wanted to be, as far as it can; None if it is."""
    target = completed(wanted)
    if target.replicas != partition.replicas:
        target = target._replace(directories=_directories(partition, target, circumstances.candidates.brokers))
    target = _with_eligible_leaders(partition, target, circumstances)
    target = _with_leader(partition, target, circumstances)
    if not target.isr and not circumstances.elr_enabled:
        target = target._replace(isr=partition.isr)
    return _record(topic_id, index, partition, target)


def _with_eligible_leaders(
    partition: PartitionImage, target: PartitionImage, circumstances: Circumstances
) -> PartitionImage:
    if not circumstances.elr_enabled:
        return target
    if len(target.isr) >= circumstances.min_isr:
        return target._replace(eligible_leader_replicas=())
    eligible = {*partition.eligible_leader_replicas, *partition.isr} - {*target.isr, circumstances.lost}
    return target._replace(eligible_leader_replicas=tuple(sorted(eligible.intersection(target.replicas))))


def _with_leader(partition: PartitionImage, target: PartitionImage, circumstances: Circumstances) -> PartitionImage:
    leader, is_unclean = elect(partition, target, circumstances)
    eligible = target.eligible_leader_replicas
    if is_unclean:
        target = target._replace(isr=(leader,), leader_recovery_state=RECOVERING)
    elif leader in eligible:
        eligible = tuple(replica for replica in eligible if replica != leader)
        target = target._replace(isr=(leader,))
    if is_unclean or not circumstances.elr_enabled:
        eligible = ()
    last_known = partition.last_known_elr
    if circumstances.elr_enabled:
        last_known = _last_known_leader(partition, leader)
    return target._replace(leader=leader, eligible_leader_replicas=eligible, last_known_elr=last_known)


def _last_known_leader(partition: PartitionImage, leader: int) -> tuple[int, ...]:
    """Returns who led last, of a partition without a leader; nobody if it has one."""
    if leader != NO_LEADER:
        return ()
    if partition.leader != NO_LEADER and not partition.last_known_elr:
        return (partition.leader,)
    return partition.last_known_elr


def elect(partition: PartitionImage, target: PartitionImage, circumstances: Circumstances) -> Elected:
    """Returns who leads a partition that is about to become `target`."""
    candidates, election = circumstances.candidates, circumstances.election
    fit = target.isr or target.eligible_leader_replicas
    preferred = target.replicas[:1] if election is Election.PREFERRED else ()
    for replica in (*preferred, partition.leader, *target.replicas):
        if replica in fit and candidates.may_lead(replica, target):
            return Elected(replica)
    last_known = partition.last_known_elr
    if circumstances.elr_enabled and not fit and len(last_known) == 1 and candidates.may_lead(last_known[0], target):
        return Elected(last_known[0], is_unclean=True)
    if election is Election.UNCLEAN:
        for replica in target.replicas:
            if candidates.may_lead(replica, target):
                return Elected(replica, is_unclean=True)
    return Elected(NO_LEADER)


def _directories(
    partition: PartitionImage, target: PartitionImage, brokers: Mapping[int, BrokerImage]
) -> tuple[Uuid, ...]:
    known = dict(zip(partition.replicas, partition.directories, strict=False))
    return tuple(known.get(replica) or default_directory(brokers.get(replica)) for replica in target.replicas)


def _record(
    topic_id: Uuid, index: int, partition: PartitionImage, target: PartitionImage
) -> PartitionChangeRecord | None:
    """Returns what differs between the two. A leader that is named starts a new leader epoch, even if it led before."""
    change = PartitionChangeRecord(partition_id=index, topic_id=topic_id)
    differs = False
    for name in _ARRAYS:
        if (value := getattr(target, name)) != getattr(partition, name):
            setattr(change, name, list(value))
            differs = True
    if target.leader != partition.leader or not set(partition.replicas) <= set(target.replicas):
        change.leader = target.leader
        differs = True
    if target.leader_recovery_state != partition.leader_recovery_state:
        change.leader_recovery_state = target.leader_recovery_state
        differs = True
    return change if differs else None


_ARRAYS = (
    "isr",
    "replicas",
    "removing_replicas",
    "adding_replicas",
    "directories",
    "eligible_leader_replicas",
    "last_known_elr",
)
