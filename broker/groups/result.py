"""What a coordinator decides: records to write, and what to answer once they are written."""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from barnabas.broker.promise import Promise
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.group_record_serde import GroupKey, GroupValue

R = TypeVar("R")

Committed = Callable[[KafkaError | None], None]


class GroupRecord(NamedTuple):
    key: GroupKey
    value: GroupValue | None
    """None: what the key stands for is gone."""


class Result(Generic[R]):
    """A decision, and the order of things: the records are appended, replayed, committed; then the answer leaves.

    - `response`: a value is answered when the records are committed. A promise is one that the state machine keeps
      itself, at a time of its own choice; if the records cannot be written, `on_committed` has to see to it.
    - `on_committed`: told None when the records are committed, or why they never will be. It must not raise.
    - `is_replayed`: False where deciding has changed the state already, as in a classic group, whose members wait for
      each other in memory; such records are replayed at the next start only.
    """

    __slots__ = ("is_replayed", "on_committed", "records", "response")

    def __init__(
        self,
        response: R | Promise[R],
        records: Sequence[GroupRecord] = (),
        *,
        on_committed: Committed | None = None,
        is_replayed: bool = True,
    ) -> None:
        self.response = response
        self.records = records
        self.on_committed = on_committed
        self.is_replayed = is_replayed
