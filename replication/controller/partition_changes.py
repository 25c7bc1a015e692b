"""The change of one partition after brokers came or went: who leads it, and who is in sync. Pure.

Rules:
- A leader that may go on leading does. Otherwise the first replica leads that is in sync and active; without one there
  is no leader (-1) until such a replica comes back.
- The last in-sync replica stays in sync when it goes: it alone has all records, and must be the one to lead again.
- An unclean election, where the topic or the operator allows it, takes any active replica. It may have lost records:
  it is then the only one in sync, and recovering.
- The leader epoch begins anew with each change of leader, and with nothing else.
- A change that would change nothing is no record.
"""

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple

from barnabas.protocol.stored.metadata_records import PartitionChangeRecord
from barnabas.protocol.types import Uuid
from barnabas.replication.metadata.image import NO_LEADER, BrokerImage, PartitionImage

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

    def may_lead(self, broker_id: int) -> bool:
        if broker_id in (self.joining, self.leaving):
            return broker_id == self.joining
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_active


class Elected(NamedTuple):
    leader: int
    is_unclean: bool = False


def elect(partition: PartitionImage, isr: Sequence[int], candidates: Candidates, election: Election) -> Elected:
    fit = [replica for replica in partition.replicas if replica in isr and candidates.may_lead(replica)]
    if election is Election.PREFERRED and partition.replicas[0] in fit:
        return Elected(partition.replicas[0])
    if partition.leader in fit:
        return Elected(partition.leader)
    if fit:
        return Elected(fit[0])
    if election is Election.UNCLEAN:
        alive = [replica for replica in partition.replicas if candidates.may_lead(replica)]
        if alive:
            return Elected(alive[0], is_unclean=True)
    return Elected(NO_LEADER)


def partition_change(
    topic_id: Uuid, index: int, partition: PartitionImage, candidates: Candidates, election: Election
) -> PartitionChangeRecord | None:
    """Returns the record that gives the partition its leader and its in-sync replicas; None if it has them."""
    remaining = [replica for replica in partition.isr if replica != candidates.leaving]
    leader, is_unclean = elect(partition, remaining, candidates, election)
    isr = [leader] if is_unclean else remaining or partition.isr
    leads_already, in_sync_already = leader == partition.leader, tuple(isr) == partition.isr
    if leads_already and in_sync_already:
        return None
    change = PartitionChangeRecord(partition_id=index, topic_id=topic_id)
    if not leads_already:
        change.leader = leader
    if not in_sync_already:
        change.isr = list(isr)
    if is_unclean and partition.leader_recovery_state != RECOVERING:
        change.leader_recovery_state = RECOVERING
    return change
