"""The verdict as people and programs read it."""

import json

from barnabas.verification import events
from barnabas.verification.judge import judge
from barnabas.verification.report import evidence, sentences
from tests.barnabas.verification.histories import (
    ALL,
    THREE,
    History,
    aborted,
    acknowledged,
    begin,
    failed,
    flat,
    polled,
    read_back,
    reader,
    sent,
    transaction,
)


def lines(history: History) -> list[str]:
    return list(sentences(judge(flat(history))))


def test_a_verdict_without_findings() -> None:
    assert lines([begin(), THREE, reader(*ALL), read_back(*ALL)]) == [
        "Topic orders (1 partition) was written and read for 0.0 s.",
        "3 records were sent by idempotent producers with acks=all: 3 acknowledged.",
        "6 records were read by 1 reader, by 0 members of 0 groups with 0 commits, and when all was read back.",
        "",
        "Nothing was found: every acknowledged record is there once, in order, unaltered, and every reader found it.",
    ]


def test_a_verdict_with_anomalies() -> None:
    assert lines([begin(), THREE, read_back((0, 0), (2, 2))])[4:] == [
        "1 lost-write: acknowledged, and not in the partition although later records are.",
        "  partition 0, offset 1, record 1 of producer 0 (sent 00:00:00.001Z, acknowledged 00:00:00.002Z): "
        "nobody has read it; offset 2 was read",
        "Anomalies were found: lost-write.",
    ]


def test_of_many_findings_the_first_are_shown() -> None:
    shown = lines([begin(), sent(*range(9)), acknowledged({n: n for n in range(9)}), read_back()])
    assert shown[4] == "9 unseen: acknowledged, and not at the end of the partition where it belongs."
    assert shown[8:] == ["  … and 6 more", "Anomalies were found: unseen."]


def test_warnings_are_no_anomalies() -> None:
    shown = lines([begin(idempotent=False), sent(0), acknowledged({0: 0}), read_back((0, 0), (1, 0))])
    assert shown[1] == "1 record was sent by non-idempotent producers with acks=all: 1 acknowledged."
    assert shown[4] == "A warning, 1 duplicate: one record at two offsets."
    assert shown[6] == "  The producers were not idempotent: this may happen when they retry."
    assert shown[-1].startswith("Nothing else was found")


def test_what_acks_1_does_not_promise_is_told() -> None:
    verdict = judge(flat([begin(), THREE, read_back((0, 0), (2, 2))]))
    with_acks_1 = verdict._replace(begin=verdict.begin._replace(acks="1"))
    assert "With acks=1 a record is acknowledged before other replicas have it, and can be lost with its leader." in [
        *sentences(with_acks_1)
    ]


def test_transactions_are_told_by_their_ends() -> None:
    history: History = [begin(), transaction(0), aborted(1), transaction(2, committed=None), read_back((0, 0), end=6)]
    told = lines(history)
    assert told[1:3] == [
        "3 records were sent by transactional producers with acks=all: 3 acknowledged.",
        "3 transactions were begun: 1 committed, 1 aborted, 1 that may be either.",
    ]
    assert told[-1] == (
        "Nothing was found: every record of a committed transaction is there once, in order, unaltered, every reader "
        "found it, and nobody has read any other."
    )
    assert lines([begin(), aborted(0), read_back(end=2)])[-1] == (
        "Nothing was found, but no transaction was committed either: this says little."
    )


def test_circumstances_are_told() -> None:
    history: History = [
        begin(shared=True),
        sent(0, 1, 2, 3),
        acknowledged({0: 0, 3: 3}),
        failed(1, definite=True),
        failed(2, definite=False),
        reader((0, 0)),
        polled("reader-1", (1, 99), producer=-1),
        events.Command(60_000, 1, "kill 7", 0),
        events.Command(61_000, 2, "kill 8", 1),
        events.ClientError(62_000, "producer-0", "_TRANSPORT"),
        read_back((3, 3), start=3, position=3),
    ]
    assert lines(history)[1:-2] == [
        "4 records were sent by idempotent producers with acks=all: "
        "2 acknowledged, 1 refused, 1 that may be stored or not.",
        "3 records were read by 1 reader, by 0 members of 0 groups with 0 commits, and when all was read back.",
        "After phase 1, at 00:01:00.000Z, the command succeeded: kill 7",
        "After phase 2, at 00:01:01.000Z, the command failed with exit code 1: kill 8",
        "1 record of others was in the topic; it was not judged.",
        "Partition 0 now begins at offset 3: what was before it is not judged.",
        "1 acknowledged record was before that, and is excused.",
        "The clients met 1 error and went on: _TRANSPORT (1).",
    ]


def test_nothing_acknowledged_is_no_good_news() -> None:
    assert lines([begin()])[-1] == "Nothing was found, but nothing was acknowledged either: this says little."


def test_the_evidence_is_json() -> None:
    found = json.loads(json.dumps(evidence(judge(flat([begin(), THREE, read_back((0, 0), (2, 2))])))))
    assert found["anomalies"] == {"lost-write": 1}
    assert found["warnings"] == {}
    assert found["counts"]["acknowledged"] == 3
    assert found["begin"]["topic"] == "orders"
    (example,) = found["examples"]
    assert (example["kind"], example["partition"], example["offset"], example["sequence"]) == ("lost-write", 0, 1, 1)
