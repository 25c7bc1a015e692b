"""What the quorum wants done with and for other nodes. The rules are those of `quorum/effects.py`."""

from typing import Any

from barnabas.protocol.named_tuple import NamedTuple
from barnabas.replication.quorum.log_view import OffsetAndEpoch
from barnabas.replication.quorum.voters import Address


class AppendFetched(NamedTuple):
    """Append batches as the leader sent them."""

    records: Any
    end_offset: int


class Truncate(NamedTuple):
    end_offset: int


class Send(NamedTuple):
    """Send a request. Report its end to `receive_response`, or to `request_failed` if the connection closes, cannot be
    opened, or stays silent for `response_timeout_ms`."""

    to: int
    address: Address | None
    """None where the shell knows it: a configured voter."""
    request: Any


class ReadLog(NamedTuple):
    offset: int
    max_bytes: int


class ReadSnapshot(NamedTuple):
    snapshot: OffsetAndEpoch
    position: int
    max_bytes: int


class Respond(NamedTuple):
    """Answer a request. What `read` names is put into the records of the response's only partition."""

    token: Any
    response: Any
    read: ReadLog | ReadSnapshot | None = None


class Unusable(NamedTuple):
    """Tell people that what another node has sent is damaged. It is asked for again, and taken from any leader."""

    node_id: int
    why: str


class WriteSnapshot(NamedTuple):
    """Write a piece of a snapshot that is fetched into its `.part` file."""

    snapshot: OffsetAndEpoch
    position: int
    records: Any


class InstallSnapshot(NamedTuple):
    """Sync the `.part` file, rename it, begin the log again at its end, load it, and call `snapshot_installed`. One
    that is damaged is removed: call `snapshot_refused`."""

    snapshot: OffsetAndEpoch
    size: int


ExchangeEffect = AppendFetched | Truncate | Send | Respond | Unusable | WriteSnapshot | InstallSnapshot
