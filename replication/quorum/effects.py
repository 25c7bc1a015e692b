"""What the quorum wants done. Effects are data, and their order is part of what they say.

Rules for the shell that carries them out:
- Carry them out one after the other, those of one call before those of the next. Those after a Persist wait until the
  file is on the disk: one may be the vote that the file promises to remember.
- Sync is the exception: it is begun in its turn and ends when it ends. The shell then calls `synced` with it.
- An effect that fails ends the node, which could not keep its promises any more.
What is done with and for other nodes is in `exchange/effects.py`: a sole voter need not import it.
"""

from typing import TYPE_CHECKING, Any, TypeAlias

from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.stored.quorum_state import QuorumStateData
from barnabas.replication.quorum.log_view import Batch, LogSync

if TYPE_CHECKING:
    from barnabas.replication.quorum.exchange.effects import ExchangeEffect


class Persist(NamedTuple):
    """Write the file `quorum-state`, and sync it and its directory."""

    data: QuorumStateData


class Append(NamedTuple):
    """Append a batch of this leader: what was handed to `append`, or the control records that the batch names."""

    batch: Batch
    payload: Any = None


class Sync(NamedTuple):
    """Make the log durable up to an offset, and call `synced` with this."""

    sync: LogSync


class LeaderChanged(NamedTuple):
    """Tell the controller who leads. It may decide when its own LeaderChange is committed and replayed."""

    leader_id: int | None
    epoch: int


class Committed(NamedTuple):
    """The high watermark has moved: publish what lies before it, and answer."""

    high_watermark: int


Effect: TypeAlias = "Persist | Append | Sync | LeaderChanged | Committed | ExchangeEffect"
