"""Every anomaly of transactions in a history small enough to read, and beside it what looks like it and is none."""

import pytest

from barnabas.verification import events
from barnabas.verification.events import BadHistory
from barnabas.verification.judge import Judge, judge
from tests.barnabas.verification.histories import (
    ALL,
    History,
    aborted,
    acknowledged,
    begin,
    failed,
    flat,
    found,
    polled,
    read_back,
    reader,
    sent,
    transaction,
)

BEGUN, COMMIT, ABORT = (
    events.TransactionBegun(1, 0),
    events.TransactionEnding(2, 0, True),
    events.TransactionEnding(2, 0, False),
)
COMMITTED, ABORTED, IN_DOUBT = (events.TransactionEnded(2, 0, outcome) for outcome in (True, False, None))

ANOMALIES: dict[str, tuple[History, dict[str, int]]] = {
    "a record of an aborted transaction is read": (
        [begin(), aborted(0, 1, 2), read_back((0, 0))],
        {"aborted-read": 1},
    ),
    "an aborted transaction is read as if it were committed": (
        [begin(), transaction(0), aborted(1, 2), read_back(*ALL)],
        {"aborted-read": 2},
    ),
    "an aborted record is read by one reader only": (
        [begin(), aborted(0), reader((0, 0)), read_back(end=2)],
        {"aborted-read": 1},
    ),
    "an aborted record that was never acknowledged is read": (
        [begin(), BEGUN, sent(0), failed(0, definite=False), ABORT, ABORTED, read_back((0, 0))],
        {"aborted-read": 1},
    ),
    "a transaction that was abandoned is read": (
        [begin(), transaction(0, asked=None, committed=False), read_back((0, 0))],
        {"aborted-read": 1},
    ),
    "a transaction that nobody has ended is read": (
        [begin(), transaction(0, asked=None, ends=False), read_back((0, 0))],
        {"aborted-read": 1},
    ),
    "an abort whose answer was lost has committed": (
        [begin(), transaction(0, asked=False, committed=None), read_back((0, 0))],
        {"aborted-read": 1},
    ),
    "a record is read before its transaction is to be committed": (
        [begin(), BEGUN, sent(0), acknowledged({0: 0}), reader((0, 0)), COMMIT, COMMITTED, read_back((0, 0))],
        {"uncommitted-read": 1},
    ),
    "a record is read early of a transaction that is aborted then": (
        [begin(), BEGUN, sent(0), acknowledged({0: 0}), reader((0, 0)), ABORT, ABORTED, read_back(end=2)],
        {"aborted-read": 1},
    ),
    "a part of a committed transaction is missing": (
        [begin(), transaction(0, 1, 2), read_back((0, 0), (2, 2))],
        {"lost-write": 1, "torn-transaction": 1},
    ),
    "a part of a committed transaction is hidden at the end": (
        [begin(), transaction(0, 1, 2), read_back((0, 0), end=4)],
        {"unseen": 2, "torn-transaction": 1},
    ),
    "a committed transaction is missing": (
        [begin(), transaction(0, 1), transaction(2), read_back((2, 2))],
        {"lost-write": 2},
    ),
    "a part of a transaction is missing of which nobody knows whether it was committed": (
        [begin(), transaction(0, 1, committed=None), transaction(2), read_back((0, 0), (2, 2))],
        {"torn-transaction": 1},
    ),
    "a transaction in doubt was read, and a part of it is gone": (
        [begin(), transaction(0, 1, committed=None), transaction(2), reader(*ALL), read_back((0, 0), (2, 2))],
        {"torn-transaction": 1, "skipped-poll": 1},
    ),
    "one of two partitions has a transaction in doubt": (
        [
            begin(2), BEGUN, sent(0), sent(1, partition=1), acknowledged({0: 0, 1: 0}), COMMIT, IN_DOUBT,
            read_back((0, 0)), events.Bounds(5, 1, 0, 2), events.Ended(5, "read-back-1", 1, 2),
        ],
        {"torn-transaction": 1},
    ),
    "a commit that was never answered": (
        [begin(), transaction(0, ends=False), read_back((0, 0))],
        {"stuck-transaction": 1},
    ),
    "an abort that was never answered": (
        [begin(), transaction(0, asked=False, ends=False), read_back(end=1, reached=0)],
        {"stuck-transaction": 1, "stuck-read": 1},
    ),
    "nobody can read past a transaction that hangs": (
        [begin(), transaction(0, asked=None, committed=False), read_back(end=1, reached=0)],
        {"stuck-read": 1},
    ),
}  # fmt: skip

NONE: dict[str, History] = {
    "committed, aborted, committed": [begin(), transaction(0), aborted(1), transaction(2), read_back((0, 0), (2, 2))],
    "markers have offsets that nobody reads": [
        begin(), BEGUN, sent(0), acknowledged({0: 0}), COMMIT, COMMITTED, BEGUN, sent(1), acknowledged({1: 2}), COMMIT,
        COMMITTED, reader((0, 0), (2, 1)), read_back((0, 0), (2, 1), end=4),
    ],
    "a record is read while the commit is under way": [
        begin(), BEGUN, sent(0), acknowledged({0: 0}), COMMIT, reader((0, 0)), COMMITTED, read_back((0, 0)),
    ],
    "a transaction in doubt is there": [begin(), transaction(0, 1, committed=None), read_back((0, 0), (1, 1))],
    "a transaction in doubt is not there": [begin(), transaction(0, 1, committed=None), read_back(end=3)],
    "an aborted transaction is not there": [begin(), aborted(0, 1, 2), read_back(end=4)],
    "a commit that failed, and an abort that may have come too late": [
        begin(), BEGUN, sent(0), acknowledged({0: 0}), COMMIT, ABORT, IN_DOUBT, read_back((0, 0)),
    ],
    "a transaction without records": [begin(), BEGUN, COMMIT, COMMITTED, BEGUN, ABORT, ABORTED, read_back()],
    "retention has deleted a part of a transaction": [
        begin(), transaction(0, 1, 2), read_back((2, 2), start=2, end=4, position=2),
    ],
    "a record of a committed transaction that was refused is not there": [
        begin(), BEGUN, sent(0), failed(0, definite=True), COMMIT, COMMITTED, read_back(),
    ],
    "two producers, one of them without transactions": [
        begin(), transaction(0), sent(0, producer=1), acknowledged({0: 2}, 1), aborted(1),
        reader((0, 0)), polled("reader-1", (2, 0), producer=1),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("history", "expected"), ANOMALIES.values(), ids=ANOMALIES.keys())
def test_an_anomaly_is_found_and_named(history: History, expected: dict[str, int]) -> None:
    assert found(history) == expected


@pytest.mark.parametrize("history", NONE.values(), ids=NONE.keys())
def test_what_is_allowed_is_not_found(history: History) -> None:
    assert found(history) == {}


def test_transactions_are_counted_by_their_ends() -> None:
    history: History = [begin(), transaction(0), aborted(1), transaction(2, committed=None), read_back((0, 0), end=6)]
    assert judge(flat(history)).counts.transactions == {"committed": 1, "aborted": 1, "in_doubt": 1}
    assert judge(flat([begin()])).counts.transactions == {}


def test_what_retention_deleted_of_an_aborted_transaction_is_not_excused_but_nothing() -> None:
    verdict = judge(flat([begin(), aborted(0), transaction(1), read_back(start=2, end=2, position=2)]))
    assert verdict.counts.excused == 1


@pytest.mark.parametrize(
    ("history", "reason"),
    [
        ([begin(), BEGUN, BEGUN], "has begun a transaction before its last one has ended"),
        ([begin(), COMMIT], "ends a transaction that it has not begun"),
        ([begin(), BEGUN, COMMIT, COMMITTED, ABORTED], "ends a transaction that it has not begun"),
        ([begin(), BEGUN, COMMITTED], "was committed, and nobody asked for that"),
        ([begin(), BEGUN, ABORT, COMMITTED], "was committed, and nobody asked for that"),
        ([begin(), BEGUN, COMMIT, sent(0)], "sent record 0 after the end of its transaction"),
        ([begin(), BEGUN, COMMIT, COMMITTED, sent(0)], "sent record 0 after the end of its transaction"),
        ([begin(), events.TransactionBegun(1, -1)], "a producer must be a number from 0"),
    ],
)
def test_what_cannot_have_happened_is_no_history(history: History, reason: str) -> None:
    court = Judge()
    with pytest.raises(BadHistory, match=reason):  # noqa: PT012 - an event of several
        for event in flat(history):
            court.see(event)
