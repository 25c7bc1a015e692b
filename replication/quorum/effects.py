"""What the quorum wants done. Effects are data, and their order is part of what they say.

Rules for the shell that carries them out:
- Carry them out one after the other, those of one call before those of the next. Those after a Persist wait until the
  file is on the disk: one may be the vote that the file promises to remember.
- Sync is the exception: it is begun in its turn and ends when it ends. The shell then calls `synced` with it.
- An effect that fails ends the node, which could not keep its promises any more.
"""

from typing import Any, NamedTuple

from barnabas.protocol.stored.quorum_state import QuorumStateData
from barnabas.replication.quorum.log_view import Batch, LogSync, OffsetAndEpoch
from barnabas.replication.quorum.voters import Address


class Persist(NamedTuple):
    """Write the file `quorum-state`, and sync it and its directory."""

    data: QuorumStateData


class Append(NamedTuple):
    """Append a batch of this leader: what was handed to `append`, or the control records that the batch names."""

    batch: Batch
    payload: Any = None


class AppendFetched(NamedTuple):
    """Append batches as the leader sent them."""

    records: Any
    end_offset: int


class Truncate(NamedTuple):
    end_offset: int


class Sync(NamedTuple):
    """Make the log durable up to an offset, and call `synced` with this."""

    sync: LogSync


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


class WriteSnapshot(NamedTuple):
    """Write a piece of a snapshot that is fetched into its `.part` file."""

    snapshot: OffsetAndEpoch
    position: int
    records: Any


class InstallSnapshot(NamedTuple):
    """Sync the `.part` file, rename it, begin the log again at its end, load it, and call `snapshot_installed`."""

    snapshot: OffsetAndEpoch
    size: int


class LeaderChanged(NamedTuple):
    """Tell the controller who leads. It may decide when its own LeaderChange is committed and replayed."""

    leader_id: int | None
    epoch: int


class Committed(NamedTuple):
    """The high watermark has moved: publish what lies before it, and answer."""

    high_watermark: int


Effect = (
    Persist
    | Append
    | AppendFetched
    | Truncate
    | Sync
    | Send
    | Respond
    | WriteSnapshot
    | InstallSnapshot
    | LeaderChanged
    | Committed
)
