"""Judges a history: events in, a verdict out. It keeps a few integers for each record and none of the events."""

from collections.abc import Callable, Iterable
from typing import Any

from barnabas.protocol.named_tuple import NamedTuple
from barnabas.verification import events
from barnabas.verification.checks.commits import Commits
from barnabas.verification.checks.endings import stuck_reads
from barnabas.verification.checks.poll_order import PollOrder
from barnabas.verification.checks.reads import Reads
from barnabas.verification.checks.sends import (
    MissingRecords,
    misplaced,
    out_of_order,
    refused_but_stored,
    stuck_sends,
)
from barnabas.verification.checks.transactions import (
    EarlyReads,
    MissingOfTransactions,
    aborted_reads,
    outcomes,
    stuck_transactions,
)
from barnabas.verification.events import PRODUCERS_MAX, READ_BACK, BadHistory, Event
from barnabas.verification.findings import Finding, Findings, Kind
from barnabas.verification.ledger import (
    ACKNOWLEDGED_SOMEWHERE,
    READ_BACK_SEEN,
    REFUSED,
    SEEN,
    UNKNOWN,
    Ledger,
    PartitionLedger,
    SentRecords,
    Transactions,
)

ERRORS_MAX = 1000
"""How many different errors of clients are counted by their text."""


class Counts(NamedTuple):
    """How much was checked."""

    sent: int
    acknowledged: int
    refused: int
    unknown: int
    read: int
    foreign: int
    excused: int
    commits: int
    assignments: int
    transactions: dict[str, int]
    """How many transactions were committed, were aborted, and may be either; nothing without transactions."""


class Verdict(NamedTuple):
    begin: events.Begin
    ended_ms: int
    counts: Counts
    findings: Findings
    warnings: frozenset[Kind]
    """Kinds that are no anomaly under the settings of this run."""
    roles: dict[str, int]
    """How many consumers of each role there were."""
    groups: int
    log_starts: dict[int, int]
    """The partitions that no longer begin where they began, and where they begin."""
    commands: list[events.Command]
    errors: dict[str, int]

    @property
    def anomalies(self) -> dict[Kind, list[Finding]]:
        return {kind: each for kind, each in self.findings.examples.items() if kind not in self.warnings}


class Judge:
    def __init__(self) -> None:
        self._ledger = Ledger()
        self._findings = Findings()
        self._early_reads = EarlyReads(self._ledger)
        self._reads = Reads(self._ledger, self._findings, self._early_reads.found)
        self._polls = PollOrder(self._ledger, self._findings)
        self._commits = Commits(self._findings)
        self._begin: events.Begin | None = None
        self._time_ms = 0
        self._roles: dict[str, int] = {}
        self._flags: dict[str, int] = {}
        self._groups: dict[str, str] = {}
        self._endings: list[events.Ended] = []
        self._unknown_bounds: set[int] = set()
        self._commands: list[events.Command] = []
        self._errors: dict[str, int] = {}
        self.sent = self.acknowledged = self.refused = self.unknown = self.read = self.assignments = self.committed = 0
        self._see: dict[type, Callable[[Any], None]] = {
            events.Begin: self._began,
            events.Sent: self._sent,
            events.Acknowledged: self._acknowledged,
            events.Failed: self._failed,
            events.TransactionBegun: self._transaction_begun,
            events.TransactionEnding: lambda event: self._transactions(event.producer).ending(event.commit),
            events.TransactionEnded: self._transaction_ended,
            events.Consumer: self._consumer,
            events.Assigned: self._assigned,
            events.Polled: self._polled,
            events.Commit: lambda event: self._commits.commit(self._group(event.consumer), event),
            events.Committed: lambda event: self._commits.committed(self._group(event.consumer), event),
            events.Asked: lambda event: self._commits.asked(
                self._group(event.consumer), event.consumer, event.partition
            ),
            events.Told: lambda event: self._commits.told(self._group(event.consumer), event),
            events.Bounds: self._bounds,
            events.Ended: self._ended,
            events.Command: lambda event: self._commands.append(event),
            events.ClientError: self._client_error,
        }

    def see(self, event: Event) -> None:
        """Takes the next event. Raises BadHistory if it cannot follow those before it."""
        kind = type(event)
        if (self._begin is None) is not (kind is events.Begin):
            raise BadHistory("the first event, and only the first, must be begin")
        self._see[kind](event)
        if event.time_ms > self._time_ms:
            self._time_ms = event.time_ms

    def _began(self, event: events.Begin) -> None:
        self._begin = event
        self._reads.is_shared = event.shared
        self._ledger.partitions = [PartitionLedger(index, first) for index, first in enumerate(event.first_offsets)]

    def _producer(self, producer: int) -> SentRecords:
        """Returns what the producer has sent; nothing yet if the history tells of it for the first time."""
        if (sent := self._ledger.producers.get(producer)) is None:
            if not 0 <= producer < PRODUCERS_MAX:
                raise BadHistory(f"a producer must be a number from 0 to {PRODUCERS_MAX - 1}, not {producer}")
            sent = self._ledger.producers[producer] = SentRecords(producer)
        return sent

    def _transactions(self, producer: int) -> Transactions:
        return self._producer(producer).transactions

    def _transaction_begun(self, event: events.TransactionBegun) -> None:
        sent = self._producer(event.producer)
        sent.transactions.begin(len(sent), event.time_ms)

    def _transaction_ended(self, event: events.TransactionEnded) -> None:
        self._transactions(event.producer).ended(event.committed)
        self.committed += event.committed is True

    def _sent(self, event: events.Sent) -> None:
        sent = self._producer(event.producer)
        self._ledger.partition(event.partition)
        sent.add(event.sequence, event.partition, event.time_ms)
        self.sent += 1

    def _acknowledged(self, event: events.Acknowledged) -> None:
        sent = self._ledger.sent_by(event.producer)
        outcome = ACKNOWLEDGED_SOMEWHERE if event.offset is None else event.offset
        if event.offset is not None and event.offset < 0:
            raise BadHistory(f"an offset must be at least 0, not {event.offset}; one that is not known is null")
        sent.answer(event.sequence, outcome, event.time_ms)
        self.acknowledged += 1
        if event.offset is not None:
            self._reads.acknowledged(sent, event.sequence, event.offset, event.time_ms)

    def _failed(self, event: events.Failed) -> None:
        outcome = REFUSED if event.definite else UNKNOWN
        self._ledger.sent_by(event.producer).answer(event.sequence, outcome, event.time_ms)
        if event.definite:
            self.refused += 1
        else:
            self.unknown += 1

    def _consumer(self, event: events.Consumer) -> None:
        self._roles[event.role] = self._roles.get(event.role, 0) + 1
        self._flags[event.consumer] = SEEN | READ_BACK_SEEN if event.role == READ_BACK else SEEN
        if event.group is not None:
            self._groups[event.consumer] = event.group

    def _group(self, consumer: str) -> str:
        if (group := self._groups.get(consumer)) is None:
            raise BadHistory(f"{consumer} is a member of no group: an event `consumer` must come before and name it")
        return group

    def _assigned(self, event: events.Assigned) -> None:
        self._ledger.partition(event.partition)
        self._polls.assigned(event)
        self.assignments += 1

    def _polled(self, event: events.Polled) -> None:
        if (flag := self._flags.get(event.consumer)) is None:
            raise BadHistory(f"{event.consumer} has polled: an event `consumer` must come before")
        self._reads.polled(event, flag)
        self._polls.polled(event)
        self.read += len(event.records)

    def _bounds(self, event: events.Bounds) -> None:
        partition = self._ledger.partition(event.partition)
        partition.start, partition.end = event.start, event.end
        if event.end is None:
            self._unknown_bounds.add(event.partition)
        else:
            self._unknown_bounds.discard(event.partition)

    def _ended(self, event: events.Ended) -> None:
        partition = self._ledger.partition(event.partition)
        self._endings.append(event)
        if self._flags.get(event.consumer, SEEN) & READ_BACK_SEEN:
            partition.read_back_to = max(event.position, partition.read_back_to or 0)

    def _client_error(self, event: events.ClientError) -> None:
        if event.error in self._errors or len(self._errors) < ERRORS_MAX:
            self._errors[event.error] = self._errors.get(event.error, 0) + 1

    def verdict(self) -> Verdict:
        """Judges what only the whole history can tell, and returns everything. Call it once, when the history ends."""
        if self._begin is None:
            raise BadHistory("the history is empty")
        of_transactions = MissingOfTransactions(self._ledger)
        missing = MissingRecords(self._ledger, of_transactions)
        for findings in (
            missing.findings(),
            misplaced(self._ledger),
            out_of_order(self._ledger),
            refused_but_stored(self._ledger),
            aborted_reads(self._ledger),
            self._early_reads.findings(),
            of_transactions.torn(),
            stuck_sends(self._ledger),
            stuck_transactions(self._ledger),
            stuck_reads(self._ledger, self._endings, self._unknown_bounds),
        ):
            for finding in findings:
                self._findings.add(finding)
        self._polls.finish(self._groups)
        return Verdict(
            self._begin,
            self._time_ms,
            self._counts(missing.excused),
            self._findings,
            # A producer without sequence numbers may store a record again, and later ones before it, when it retries.
            frozenset() if self._begin.idempotent else frozenset((Kind.DUPLICATE, Kind.SEND_ORDER)),
            self._roles,
            len(set(self._groups.values())),
            {
                partition.index: partition.start
                for partition in self._ledger.partitions
                if partition.start is not None and partition.start > partition.first_offset
            },
            self._commands,
            self._errors,
        )

    def _counts(self, excused: int) -> Counts:
        return Counts(
            self.sent,
            self.acknowledged,
            self.refused,
            self.unknown,
            self.read,
            self._reads.foreign,
            excused,
            self._commits.stored,
            self.assignments,
            outcomes(self._ledger),
        )


def judge(history: Iterable[Event]) -> Verdict:
    """Returns the verdict on a whole history."""
    court = Judge()
    for event in history:
        court.see(event)
    return court.verdict()
