"""Every anomaly in a history small enough to read, and beside it what looks like it and is none."""

import pytest

from barnabas.verification import events
from barnabas.verification.events import BadHistory
from barnabas.verification.findings import Kind
from barnabas.verification.judge import Judge, judge
from tests.barnabas.verification.histories import (
    ALL,
    KINDS,
    THREE,
    History,
    acknowledged,
    assigned,
    begin,
    commit,
    failed,
    flat,
    found,
    member,
    polled,
    read_back,
    reader,
    sent,
    told,
)
from tests.barnabas.verification.test_judge_of_transactions import ANOMALIES as ANOMALIES_OF_TRANSACTIONS

ANOMALIES: dict[str, tuple[History, dict[str, int]]] = {
    "a record in the middle is gone": (
        [begin(), THREE, read_back((0, 0), (2, 2))],
        {"lost-write": 1},
    ),
    "a record was read, and is gone when everything is read back": (
        [begin(), THREE, reader(*ALL), read_back((0, 0), (2, 2))],
        {"lost-write": 1, "skipped-poll": 1},
    ),
    "nobody read a record, and nothing was read back": (
        [begin(), THREE, reader((0, 0), (2, 2))],
        {"lost-write": 1},
    ),
    "a record that was acknowledged without an offset is gone": (
        [begin(), sent(0, 1, 2), acknowledged({0: 0, 1: None, 2: 2}), read_back((0, 0), (2, 2))],
        {"lost-write": 1},
    ),
    "the last record is gone": (
        [begin(), THREE, read_back(*ALL[:2])],
        {"unseen": 1},
    ),
    "everything is gone": (
        [begin(), THREE, read_back()],
        {"unseen": 3},
    ),
    "one record at two offsets": (
        [begin(), THREE, read_back(*ALL, (3, 1))],
        {"duplicate": 1},
    ),
    "one record at two offsets, the first of which was not acknowledged": (
        [begin(), sent(0), acknowledged({0: 1}), read_back((0, 0), (1, 0))],
        {"duplicate": 1},
    ),
    "one record at three offsets, found by two readers": (
        [begin(), THREE, reader(*ALL, (3, 1), (4, 1)), read_back(*ALL, (3, 1), (4, 1))],
        {"duplicate": 2},
    ),
    "an acknowledgement and a reader tell of two records at an offset": (
        [begin(), sent(0, 1), acknowledged({0: 0}), failed(1, definite=False), read_back((0, 1), (1, 0))],
        {"inconsistent-offset": 2},  # record 0 is not where it was said, and record 1 is there
    ),
    "two readers tell of two records at an offset": (
        [begin(), sent(0, 1), failed(0, definite=False), failed(1, definite=False), reader((0, 0)), read_back((0, 1))],
        {"inconsistent-offset": 1},
    ),
    "two acknowledgements tell of one offset": (
        [begin(), sent(0, 1), acknowledged({0: 0, 1: 0}), read_back((0, 0), (1, 1))],
        {"inconsistent-offset": 2},
    ),
    "a record is not where it was said": (
        [begin(), sent(0), acknowledged({0: 0}), read_back((1, 0))],
        {"inconsistent-offset": 1},
    ),
    "acknowledged offsets go down": (
        [begin(), sent(0, 1), acknowledged({0: 1, 1: 0}), read_back((0, 1), (1, 0))],
        {"non-monotonic-send": 1},
    ),
    "records without acknowledged offsets are in the wrong order": (
        [begin(), sent(0, 1), acknowledged({0: None, 1: None}), read_back((0, 1), (1, 0))],
        {"non-monotonic-send": 1},
    ),
    "a reader goes back": (
        [begin(), THREE, reader(*ALL), polled("reader-1", (1, 1)), read_back(*ALL)],
        {"non-monotonic-poll": 1},
    ),
    "a reader goes back within a poll": (
        [begin(), THREE, reader((0, 0), (1, 1), (1, 1), (2, 2)), read_back(*ALL)],
        {"non-monotonic-poll": 1},
    ),
    "a reader begins before its position": (
        [begin(), THREE, reader(*ALL, position=1), read_back(*ALL)],
        {"non-monotonic-poll": 1},
    ),
    "a reader passes over what others find": (
        [begin(), THREE, reader((0, 0), (2, 2)), read_back(*ALL)],
        {"skipped-poll": 1},
    ),
    "a reader passes over the first records": (
        [begin(), THREE, reader((2, 2)), read_back(*ALL)],
        {"skipped-poll": 1},
    ),
    "a record that nobody sent": (
        [begin(), THREE, read_back(*ALL, (3, 3))],
        {"phantom": 1},
    ),
    "a record of a producer that there is not": (
        [begin(), THREE, reader(*ALL), polled("reader-1", (3, 0), producer=7), read_back(*ALL)],
        {"phantom": 1},
    ),
    "a foreign record in a topic of our own, seen twice": (
        [begin(), THREE, reader(*ALL), polled("reader-1", (3, 99), producer=-1), read_back(*ALL)],
        {"phantom": 1},
    ),
    "a record in another partition": (
        [begin(2), sent(0, partition=1), acknowledged({0: 0}), reader((0, 0))],
        {"phantom": 1},
    ),
    "an altered record": (
        [begin(), THREE, reader(*ALL[:2]), polled("reader-1", (2, 2), corrupt=[2]), read_back(*ALL)],
        {"corrupt": 1},
    ),
    "a refused record is there": (
        [begin(), sent(0), failed(0, definite=True), read_back((0, 0))],
        {"refused-but-stored": 1},
    ),
    "a committed offset goes back": (
        [begin(), member("a"), commit("a", 3), commit("a", 5), told("a", 3)],
        {"commit-went-back": 1},
    ),
    "a committed offset is forgotten": (
        [begin(), member("a"), commit("a", 3), told("a", None)],
        {"commit-went-back": 1},
    ),
    "another member is told an offset from before a commit that was stored": (
        [begin(), member("a"), member("b"), commit("a", 3), commit("b", 5), commit("a", 7), told("b", 5)],
        {"commit-went-back": 1},
    ),
    "a committed offset that nobody committed": (
        [begin(), member("a"), commit("a", 3), told("a", 4)],
        {"unknown-commit": 1},
    ),
    "a committed offset although nobody has committed": (
        [begin(), member("a"), told("a", 0)],
        {"unknown-commit": 1},
    ),
    "a refused commit is told": (
        [begin(), member("a"), commit("a", 3), commit("a", 5, stored=False), told("a", 5)],
        {"unknown-commit": 1},
    ),
    "the next owner passes over records after the committed offset": (
        [begin(), THREE, member("a"), assigned("a", 1), polled("a", (2, 2)), read_back(*ALL)],
        {"group-skip": 1},
    ),
    "a send that was never answered": (
        [begin(), sent(0), read_back()],
        {"stuck-send": 1},
    ),
    "a partition that cannot be read to its end": (
        [begin(), THREE, reader(*ALL), read_back(*ALL[:2], end=3, reached=2)],
        {"stuck-read": 1},
    ),
    "a partition of which nobody says where it ends": (
        [begin(), THREE, reader(*ALL), events.Bounds(5, 0, None, None)],
        {"stuck-read": 1},
    ),
}

NONE: dict[str, History] = {
    "nothing happened": [begin()],
    "all is well": [begin(), THREE, reader(*ALL), read_back(*ALL)],
    "acknowledgements come late": [
        begin(), sent(0, 1, 2), reader(*ALL), read_back(*ALL), acknowledged({2: 2, 0: 0, 1: 1}),
    ],
    "two partitions are answered in any order": [
        begin(2), sent(0), sent(1, partition=1), acknowledged({1: 0, 0: 0}), read_back((0, 0)),
        events.Polled(4, "read-back-1", 1, [[0, 0, 1]]),
    ],
    "two producers share a partition": [
        begin(), sent(0, 1), sent(0, producer=1), acknowledged({0: 0, 1: 2}), acknowledged({0: 1}, producer=1),
        reader((0, 0)), polled("reader-1", (1, 0), producer=1), polled("reader-1", (2, 1)),
    ],
    "a record is acknowledged without an offset": [
        begin(), sent(0, 1, 2), acknowledged({0: 0, 1: None, 2: 2}), read_back(*ALL),
    ],
    "a send that may have failed is not there": [begin(), sent(0), failed(0, definite=False), read_back()],
    "a send that may have failed is there": [begin(), sent(0), failed(0, definite=False), read_back((0, 0))],
    "a send that may have failed is there after a later one": [
        begin(), sent(0, 1), failed(0, definite=False), acknowledged({1: 0}), read_back((0, 1), (1, 0)),
    ],
    "a refused record is not there": [begin(), sent(0), failed(0, definite=True), read_back()],
    "retention has deleted the beginning": [
        begin(), THREE, reader((2, 2), position=0), read_back((2, 2), start=2, end=3, position=2),
    ],
    "offsets have gaps that nobody fills": [
        begin(), sent(0, 1), acknowledged({0: 0, 1: 5}), reader((0, 0), (5, 1)), read_back((0, 0), (5, 1)),
    ],
    "a consumer is assigned again and reads again": [
        begin(), THREE, member("a"), assigned("a", 0), polled("a", *ALL), assigned("a", 1), polled("a", *ALL[1:]),
        read_back(*ALL),
    ],
    "a consumer begins anywhere": [
        begin(), THREE, member("a"), events.Assigned(0, "a", 0, None), polled("a", (2, 2)), read_back(*ALL),
    ],
    "the next owner goes on after the committed offset": [
        begin(), THREE, member("a"), assigned("a", 1), polled("a", *ALL[1:]), read_back(*ALL),
    ],
    "others write to the topic, too": [
        begin(shared=True), THREE, reader(*ALL), polled("reader-1", (3, 99), producer=-1), read_back(*ALL),
    ],
    "the topic had records before": [
        begin(first_offset=1000), sent(0), acknowledged({0: 1000}), reader((1000, 0), position=1000),
        read_back((1000, 0), start=10, position=1000),
    ],
    "the last commit is told": [begin(), member("a"), commit("a", 3), commit("a", 5), told("a", 5)],
    "nothing was committed": [begin(), member("a"), told("a", None)],
    "somebody has committed an earlier offset": [begin(), member("a"), commit("a", 5), commit("a", 3), told("a", 3)],
    "a commit that may have failed is told": [
        begin(), member("a"), commit("a", 5), commit("a", 7, stored=None), told("a", 7),
    ],
    "a commit that may have failed is not told": [
        begin(), member("a"), commit("a", 5), commit("a", 7, stored=None), told("a", 5),
    ],
    "a commit that may have failed takes effect late": [
        begin(), member("a"), member("b"), commit("a", 5, stored=None), commit("b", 7), told("b", 5),
    ],
    "two members commit at once": [
        begin(), member("a"), member("b"), events.Commit(3, "a", 0, 7), events.Commit(3, "b", 0, 5),
        events.Committed(3, "b", 0, True), events.Committed(3, "a", 0, True), told("a", 5),
    ],
    "a commit is stored while another member asks": [
        begin(), member("a"), member("b"), commit("a", 5), events.Asked(3, "b", 0), commit("a", 7),
        events.Told(3, "b", 0, 5),
    ],
    "two groups have offsets of their own": [
        begin(), member("a", "kitchen"), member("b", "billing"), commit("a", 5), commit("b", 3), told("b", 3),
    ],
    "a read-back that is stuck does not make a loss of what others read": [
        begin(), THREE, reader(*ALL), read_back(*ALL[:2], end=2, reached=2)[:-2], events.Ended(5, "read-back-1", 0, 2),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("history", "expected"), ANOMALIES.values(), ids=ANOMALIES.keys())
def test_an_anomaly_is_found_and_named(history: History, expected: dict[str, int]) -> None:
    assert found(history) == expected


@pytest.mark.parametrize("history", NONE.values(), ids=NONE.keys())
def test_what_is_allowed_is_not_found(history: History) -> None:
    assert found(history) == {}


def test_every_kind_has_an_example() -> None:
    examples = (*ANOMALIES.values(), *ANOMALIES_OF_TRANSACTIONS.values())
    assert {name for _, expected in examples for name in expected} == set(KINDS)


def test_a_producer_that_is_not_idempotent_may_repeat_and_reorder() -> None:
    verdict = judge(
        flat([begin(idempotent=False), sent(0, 1), acknowledged({0: 1, 1: 0}), read_back((0, 1), (1, 0), (2, 0))])
    )
    assert verdict.findings.counts == {Kind.DUPLICATE: 1, Kind.SEND_ORDER: 1}
    assert verdict.warnings == {Kind.DUPLICATE, Kind.SEND_ORDER}
    assert verdict.anomalies == {}


def test_what_retention_deleted_is_counted() -> None:
    verdict = judge(flat([begin(), THREE, read_back((2, 2), start=2, position=2)]))
    assert verdict.counts.excused == 2
    assert verdict.log_starts == {0: 2}


def test_many_findings_are_counted_and_some_of_them_kept() -> None:
    count = 250
    everything = {sequence: sequence for sequence in range(count)}
    verdict = judge(flat([begin(), sent(*range(count)), acknowledged({**everything}), read_back()]))
    assert verdict.findings.counts == {Kind.UNSEEN: count}
    assert len(verdict.findings.examples[Kind.UNSEEN]) == 100


def test_a_finding_says_where_what_and_when() -> None:
    (finding,) = judge(flat([begin(), THREE, read_back((0, 0), (2, 2))])).anomalies[Kind.LOST]
    assert (finding.partition, finding.offset, finding.producer, finding.sequence) == (0, 1, 0, 1)
    assert (finding.sent_ms, finding.acknowledged_ms) == (1, 2)


@pytest.mark.parametrize(
    ("history", "reason"),
    [
        ([], "the history is empty"),
        ([sent(0)], "the first event, and only the first, must be begin"),
        ([begin(), begin()], "the first event, and only the first, must be begin"),
        ([begin(), sent(1)], "sent record 1 where 0 was next"),
        ([begin(), sent(0, partition=1)], "the topic has no partition 1: it has 1"),
        ([begin(), sent(0, producer=-1)], "a producer must be a number from 0"),
        ([begin(), acknowledged({0: 0})], "producer 0 has sent nothing"),
        ([begin(), sent(0), acknowledged({1: 0})], "was answered and never sent"),
        ([begin(), sent(0), acknowledged({0: 0}), failed(0, definite=True)], "was answered twice"),
        ([begin(), sent(0), acknowledged({0: -1})], "an offset must be at least 0"),
        ([begin(), polled("x", (0, 0))], "x has polled: an event `consumer` must come before"),
        ([begin(), commit("x", 3)], "x is a member of no group"),
        ([begin(), member("x"), events.Committed(3, "x", 0, True)], "without one"),
        ([begin(), reader((-5, 0))], "no record can be number 0 of producer 0 at offset -5"),
    ],
)
def test_what_cannot_have_happened_is_no_history(history: History, reason: str) -> None:
    court = Judge()
    with pytest.raises(BadHistory, match=reason):  # noqa: PT012 - either of the two may notice
        for event in flat(history):
            court.see(event)
        court.verdict()
