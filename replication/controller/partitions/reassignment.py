"""What a reassignment makes of a partition: at its beginning, at its end, and when it is cancelled. Pure.

Rules:
- It begins by making the target's brokers replicas beside the present ones. Those that are new are being added, and
  those that the target does not name are being removed.
- It ends when all that were added are in sync, and at least one that stays. If fewer replicas are left than there were,
  all of them must be in sync: otherwise the end of it could leave fewer in sync than there are now.
- A new target may take the place of one that is not reached yet. What no longer is to be added or removed then stays
  neither, or a target that takes back the one before it would never be reached (in Kafka it is not).
- One that is cancelled leaves the replicas that were there before it. If none of these is in sync, the first of them
  counts as such, though it may miss records: that is an unclean election, and only done where those are allowed.
"""

from collections.abc import Sequence

from barnabas.protocol.named_tuple import NamedTuple
from barnabas.replication.metadata.image import PartitionImage


def is_reassigning(partition: PartitionImage) -> bool:
    return bool(partition.removing_replicas or partition.adding_replicas)


def begun(partition: PartitionImage, target: Sequence[int]) -> PartitionImage:
    """Returns the partition as it is wanted while its replicas move to the target, in place of a reassignment that may
    be under way."""
    removing = sorted(set(partition.replicas).difference(target))
    adding = sorted(set(target).difference(partition.replicas))
    if not adding:
        adding = [replica for replica in partition.adding_replicas if replica in target]
    return partition._replace(
        replicas=(*target, *removing), removing_replicas=tuple(removing), adding_replicas=tuple(adding)
    )


def completed(partition: PartitionImage) -> PartitionImage:
    """Returns the partition after its reassignment, if it has one that can end; else the partition as it is."""
    removing, adding = partition.removing_replicas, partition.adding_replicas
    if not is_reassigning(partition):
        return partition
    replicas, isr = _without(partition.replicas, removing), _without(partition.isr, removing)
    is_stranded = bool(removing) and not (replicas and isr)
    if is_stranded or not set(adding) <= set(isr):
        return partition
    if len(adding) < len(removing) and not set(replicas) <= set(isr):
        return partition
    return partition._replace(replicas=replicas, isr=isr, removing_replicas=(), adding_replicas=())


class Reverted(NamedTuple):
    partition: PartitionImage
    is_unclean: bool


def reverted(partition: PartitionImage) -> Reverted:
    """Returns the partition as it is wanted without its reassignment."""
    adding = partition.adding_replicas
    replicas, isr = _without(partition.replicas, adding), _without(partition.isr, adding)
    wanted = partition._replace(replicas=replicas, isr=isr or replicas[:1], removing_replicas=(), adding_replicas=())
    return Reverted(wanted, is_unclean=not isr)


def _without(replicas: Sequence[int], gone: Sequence[int]) -> tuple[int, ...]:
    return tuple(replica for replica in replicas if replica not in gone)
