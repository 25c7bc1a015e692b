"""What a state machine decides: records to append, all of them or none, and what to answer once they are committed.

The order of things: the machine decides, and changes nothing. The records are appended. They are replayed, and
`on_appended` is called. When everything that the machine has replayed is committed, `on_committed` is called and the
answer leaves. If the append is refused, `on_committed` gets the reason, and nothing has happened. If the commit takes
too long, `on_committed` gets that, too, and the records may be committed later.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from barnabas.base.promise import Promise
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.named_tuple import NamedTuple

R = TypeVar("R")

Record = tuple[Any, Any]
"""A key and a value, which the coordinator's serde turns into bytes. A value of None says that the key is gone."""
Committed = Callable[[KafkaError | None], None]


class TransactionalProducer(NamedTuple):
    """The producer in whose transaction records are written."""

    producer_id: int
    producer_epoch: int
    is_v2: bool
    """Whether it goes by the rules of transaction.version 2: what it writes to is added to its transaction."""


class Decision(Generic[R]):
    """
    - `response`: a value is answered when the records are committed. A promise is settled by the state machine itself,
      when it sees fit; if the records cannot be written, `on_committed` must see to it.
    - `on_appended`: what to do besides, such as setting timers: what was replayed holds, however long its commit takes.
      It is also called where there are no records.
    - `on_committed`: gets None when the records are committed, or the reason why they are not. It must not raise.
    - `is_replayed`: False where deciding has changed the state already, as in a classic group, whose members wait for
      each other in memory. Such records are replayed by the next load only.
    """

    __slots__ = ("is_replayed", "on_appended", "on_committed", "records", "response")

    def __init__(
        self,
        records: Sequence[Record],
        response: R | Promise[R],
        *,
        on_appended: Callable[[], None] | None = None,
        on_committed: Committed | None = None,
        is_replayed: bool = True,
    ) -> None:
        self.records = records
        self.response = response
        self.on_appended = on_appended
        self.on_committed = on_committed
        self.is_replayed = is_replayed
