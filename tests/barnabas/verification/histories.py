"""Short ways to write histories by hand. Time stands still in them: the judge looks at the order of the events."""

from collections.abc import Iterable

from barnabas.verification import events
from barnabas.verification.events import Event, Polled
from barnabas.verification.findings import Kind
from barnabas.verification.judge import judge

RUN = "00112233445566ff"


def begin(partitions: int = 1, *, idempotent: bool = True, shared: bool = False, first_offset: int = 0) -> Event:
    return events.Begin(0, RUN, "orders", [first_offset] * partitions, "all", idempotent, shared)


def sent(*sequences: int, producer: int = 0, partition: int = 0) -> list[Event]:
    return [events.Sent(1, producer, sequence, partition) for sequence in sequences]


def acknowledged(offsets: dict[int, int | None], producer: int = 0) -> list[Event]:
    """The offset by the sequence."""
    return [events.Acknowledged(2, producer, sequence, offset) for sequence, offset in offsets.items()]


def failed(sequence: int, *, definite: bool) -> list[Event]:
    return [events.Failed(2, 0, sequence, "MSG_SIZE_TOO_LARGE" if definite else "_MSG_TIMED_OUT", definite)]


def transaction(
    *sequences: int, asked: bool | None = True, committed: bool | None = True, producer: int = 0, ends: bool = True
) -> list[Event]:
    """A transaction with these records, each acknowledged at the offset of its number. `asked` says for which end the
    producer asked, None if for none."""
    ending = [events.TransactionEnding(2, producer, asked)] if asked is not None else []
    ended = [events.TransactionEnded(2, producer, committed)] if ends else []
    return [
        events.TransactionBegun(1, producer),
        *sent(*sequences, producer=producer),
        *acknowledged({sequence: sequence for sequence in sequences}, producer),
        *ending,
        *ended,
    ]


def aborted(*sequences: int) -> list[Event]:
    return transaction(*sequences, asked=False, committed=False)


def polled(consumer: str, *records: tuple[int, int], producer: int = 0, corrupt: Iterable[int] = ()) -> Event:
    """Pairs of an offset and a sequence."""
    return Polled(3, consumer, 0, [[offset, producer, sequence] for offset, sequence in records], [*corrupt])


def reader(*records: tuple[int, int], name: str = "reader-1", position: int = 0) -> list[Event]:
    return [
        events.Consumer(0, name, events.READER, None),
        events.Assigned(0, name, 0, position),
        polled(name, *records),
    ]


def read_back(
    *records: tuple[int, int], start: int = 0, end: int | None = None, reached: int | None = None, position: int = 0
) -> list[Event]:
    """Everything is read from the beginning to the end, which is after the last record unless it is said otherwise."""
    end = max((offset for offset, _ in records), default=-1) + 1 if end is None else end
    return [
        events.Consumer(4, "read-back-1", events.READ_BACK, None),
        events.Assigned(4, "read-back-1", 0, position),
        *([polled("read-back-1", *records)] if records else []),
        events.Bounds(5, 0, start, end),
        events.Ended(5, "read-back-1", 0, end if reached is None else reached),
    ]


def member(name: str, group: str = "kitchen") -> Event:
    return events.Consumer(0, name, events.MEMBER, group)


def commit(name: str, offset: int, *, stored: bool | None = True) -> list[Event]:
    return [events.Commit(3, name, 0, offset), events.Committed(3, name, 0, stored)]


def told(name: str, offset: int | None) -> list[Event]:
    return [events.Asked(3, name, 0), events.Told(3, name, 0, offset)]


def assigned(name: str, position: int) -> Event:
    return events.Assigned(3, name, 0, position)


History = list[Event | list[Event]]


def flat(history: History) -> list[Event]:
    return [event for part in history for event in (part if isinstance(part, list) else [part])]


def found(history: History) -> dict[str, int]:
    """What is found in a history, warnings too."""
    return {kind.slug: count for kind, count in judge(flat(history)).findings.counts.items()}


THREE: list[Event] = [*sent(0, 1, 2), *acknowledged({0: 0, 1: 1, 2: 2})]
"""Three records that are acknowledged at offsets 0, 1 and 2."""
ALL = ((0, 0), (1, 1), (2, 2))
"""And as they should be read."""

KINDS = [kind.slug for kind in Kind]
