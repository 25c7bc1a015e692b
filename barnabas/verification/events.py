"""What a history is made of. The order of the events is the order in which they happened.

A record is known by its producer and its sequence: each producer numbers what it sends 0, 1, 2, … over all partitions.
What happens over a time has two events, one for its beginning and one for its end.
"""

from collections.abc import Sequence

from barnabas.protocol.named_tuple import NamedTuple

FOREIGN = -1
"""The producer of a record that is not of this run; its sequence is a checksum of what it holds."""

PRODUCERS_MAX, SEQUENCES_MAX = 1 << 20, 1 << 40

MEMBER, READER, READ_BACK = "member", "reader", "read-back"


class BadHistory(Exception):
    """Something is not an event, or cannot follow those before it."""


class Begin(NamedTuple):
    time_ms: int
    run: str
    topic: str
    first_offsets: Sequence[int]
    """Where each partition ended before the run."""
    acks: str
    idempotent: bool
    shared: bool
    """Whether others may write to the topic. If not, what nobody sent is a finding."""


class Sent(NamedTuple):
    time_ms: int
    producer: int
    sequence: int
    partition: int


class Acknowledged(NamedTuple):
    time_ms: int
    producer: int
    sequence: int
    offset: int | None
    """None if the broker said that it has the record and not where, as it does to some retries."""


class Failed(NamedTuple):
    time_ms: int
    producer: int
    sequence: int
    error: str
    definite: bool
    """Whether the error guarantees that the record was not stored."""


class TransactionBegun(NamedTuple):
    """What the producer sends from now on is of a transaction, until it begins the next one. One that nobody asks to
    commit can never be committed."""

    time_ms: int
    producer: int


class TransactionEnding(NamedTuple):
    """The producer asks for the end of its transaction, and sends nothing more of it. It may ask for a commit, and
    for an abort when that has failed."""

    time_ms: int
    producer: int
    commit: bool


class TransactionEnded(NamedTuple):
    time_ms: int
    producer: int
    committed: bool | None
    """None if it may be committed or not."""
    error: str | None = None


class Consumer(NamedTuple):
    time_ms: int
    consumer: str
    role: str
    """`member` of a group, `reader` beside the load, or `read-back` after it."""
    group: str | None


class Assigned(NamedTuple):
    """A consumer begins to read a partition, or begins again, at a position."""

    time_ms: int
    consumer: str
    partition: int
    position: int | None
    """None if the consumer may begin anywhere."""


class Polled(NamedTuple):
    time_ms: int
    consumer: str
    partition: int
    records: Sequence[Sequence[int]]
    """The offset, the producer and the sequence of each."""
    corrupt: Sequence[int] = ()
    """The offsets of those whose content is not what was sent."""


class Commit(NamedTuple):
    """A member asks to commit. It asks again for the same partition only when it was answered."""

    time_ms: int
    consumer: str
    partition: int
    offset: int


class Committed(NamedTuple):
    time_ms: int
    consumer: str
    partition: int
    stored: bool | None
    """None if nobody knows."""
    error: str | None = None


class Asked(NamedTuple):
    """A member asks for the committed offset of its group."""

    time_ms: int
    consumer: str
    partition: int


class Told(NamedTuple):
    time_ms: int
    consumer: str
    partition: int
    offset: int | None


class Bounds(NamedTuple):
    """What a partition holds after the load, from its first offset to the one after its last."""

    time_ms: int
    partition: int
    start: int | None
    end: int | None
    """Both are None if no broker said so in time."""


class Ended(NamedTuple):
    """A consumer stops reading a partition, at its end or because no more came for a long time."""

    time_ms: int
    consumer: str
    partition: int
    position: int


class Command(NamedTuple):
    """The user's command between two phases has ended."""

    time_ms: int
    phase: int
    command: str
    status: int


class ClientError(NamedTuple):
    time_ms: int
    client: str
    error: str


Event = (
    Begin | Sent | Acknowledged | Failed | TransactionBegun | TransactionEnding | TransactionEnded | Consumer | Assigned
    | Polled | Commit | Committed | Asked | Told | Bounds | Ended | Command | ClientError
)  # fmt: skip
