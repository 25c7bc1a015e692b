"""Where a leader's log parts from that of one who fetches (KIP-595)."""

from barnabas.broker.replicas.partition import Partition
from barnabas.protocol.errors import OffsetOutOfRange
from barnabas.protocol.messages.fetch import EpochEndOffset


def diverging_epoch(partition: Partition, fetch_offset: int, last_fetched_epoch: int) -> EpochEndOffset | None:
    """Returns the latest epoch that both have and where it ends here, if the logs part before the offset. Raises
    OffsetOutOfRange if that cannot be known, or if the offset lies before the log start: whatever its epoch was."""
    epoch, end_offset = partition.end_offset_for_epoch(last_fetched_epoch)
    if epoch < 0:
        raise OffsetOutOfRange(f"epoch {last_fetched_epoch} is older than this log")
    if fetch_offset < partition.log.log_start_offset:
        raise OffsetOutOfRange(f"{fetch_offset} lies before the log start of {partition.topic_partition}")
    if epoch < last_fetched_epoch or end_offset < fetch_offset:
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None
