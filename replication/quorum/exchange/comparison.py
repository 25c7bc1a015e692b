"""How the log of a follower, as its fetch describes it, compares with the leader's."""

from barnabas.protocol.named_tuple import NamedTuple
from barnabas.replication.quorum.log_view import BOOTSTRAP_SNAPSHOT, LogView, OffsetAndEpoch


class Valid(NamedTuple):
    """The follower's log is a prefix of ours."""


class Diverging(NamedTuple):
    """The follower must look for the place where its log and ours part, at most here."""

    end: OffsetAndEpoch


class NeedsSnapshot(NamedTuple):
    """The follower needs this snapshot: the records that it asks for were deleted."""

    snapshot: OffsetAndEpoch


def compare(log: LogView, fetch_offset: int, last_fetched_epoch: int) -> Valid | Diverging | NeedsSnapshot:
    """Compares the end of a follower's log with this one."""
    latest, base_epoch = log.latest_snapshot, log.base_epoch
    if fetch_offset == 0 and latest is not None and latest != BOOTSTRAP_SNAPSHOT:
        return NeedsSnapshot(latest)  # it is shorter than the log
    if fetch_offset == 0 and log.start_offset == 0:
        return Valid()
    is_before = fetch_offset < log.start_offset or last_fetched_epoch < base_epoch
    if log.start_offset > 0 and (is_before or (fetch_offset == log.start_offset and last_fetched_epoch != base_epoch)):
        assert latest is not None, "a log that does not begin at 0 begins at a snapshot"
        return NeedsSnapshot(latest)
    end = log.end_of_epoch(last_fetched_epoch)
    if end.epoch != last_fetched_epoch or end.offset < fetch_offset:
        return Diverging(end)
    return Valid()
