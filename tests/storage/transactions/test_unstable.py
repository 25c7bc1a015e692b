"""Where the reading of committed transactions ends, against a model that knows every transaction."""

from random import Random

import pytest

from barnabas.protocol.records import ControlType
from barnabas.storage.log import Log
from barnabas.storage.segments.transaction_index import AbortedTransaction
from barnabas.storage.transactions.marker import TransactionMarker
from tests.storage.logs import NOW_MS, Broker, append, batch, end_transaction, verified
from tests.storage.transactions.committed import Transactions, Written, check_committed

PRODUCERS = range(1, 7)


class Model:
    """A log with transactions, appended to as a leader with followers does, and what must be true of it."""

    def __init__(self, random: Random, log: Log) -> None:
        self.random = random
        self.log = log
        self.sequences = dict.fromkeys(PRODUCERS, 0)
        self.history: list[Written] = []

    def step(self) -> None:
        action = self.random.random()
        producer_id = self.random.choice(PRODUCERS)
        if action < 0.5:
            self.write(producer_id)
        elif action < 0.75:
            self.end(producer_id)
        elif action < 0.8:
            self.log.roll(NOW_MS)
        else:
            moved = self.random.randint(self.log.high_watermark, self.log.log_end_offset)
            self.log.advance_high_watermark(moved)

    def write(self, producer_id: int) -> None:
        count = self.random.choice((1, 1, 3))
        fields = {"producer_epoch": 0, "base_sequence": self.sequences[producer_id]}
        data = batch(*[b"v"] * count, producer_id=producer_id, transactional=True, **fields)  # type: ignore[arg-type]
        guard = verified(self.log, data)
        info = self.log.append(memoryview(data), leader_epoch=0, now_ms=NOW_MS, guard=guard)
        self.sequences[producer_id] += count
        self.history.append(Written(info.base_offset, info.last_offset + 1, producer_id))

    def end(self, producer_id: int) -> None:
        is_aborted = self.random.random() < 0.6
        marker = TransactionMarker(producer_id, 0, 0, not is_aborted, 1)
        offset = end_transaction(self.log, marker).base_offset
        ends = ControlType.ABORT if is_aborted else ControlType.COMMIT
        self.history.append(Written(offset, offset + 1, producer_id, ends))


@pytest.mark.parametrize("seed", range(40))
def test_the_last_stable_offset_waits_for_markers_to_be_committed(seed: int) -> None:
    log = Broker().log()
    model = Model(Random(seed), log)
    before = 0
    for _ in range(300):
        model.step()
        expected = Transactions(model.history).last_stable_offset(log.high_watermark)
        assert log.last_stable_offset == expected, f"seed={seed}"
        assert log.last_stable_offset >= before, f"seed={seed}: what was stable must stay so"
        before = log.last_stable_offset


@pytest.mark.parametrize("seed", range(40))
def test_the_aborted_transactions_of_a_range_are_those_that_reach_into_it(seed: int) -> None:
    """Whatever is read: also across segments, and after a restart, which finds them in their files."""
    random = Random(seed)
    broker = Broker()
    log = broker.log()
    model = Model(random, log)
    for _ in range(300):
        model.step()
    log.advance_high_watermark(log.log_end_offset)
    aborted = Transactions(model.history).rows
    for again in (None, broker.restart, broker.kill):
        if again is not None:
            again()
            log = broker.log()
        for _ in range(100):
            start = random.randrange(log.last_stable_offset)
            end = random.randint(start, log.last_stable_offset)
            found = [(row.first_offset, row.last_offset) for row in log.aborted.between(start, end)]
            expected = sorted((first, last) for first, last in aborted if last >= start and first < end)
            assert found == expected, f"seed={seed}: {start} to {end}"
            check_committed(log, model.history, random)


# ---- stable is what is committed for good


def transaction(log: Log, producer_id: int = 7, *, is_committed: bool = True) -> None:
    sent = batch(producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
    log.append(memoryview(sent), leader_epoch=0, now_ms=NOW_MS, guard=verified(log, sent))
    end_transaction(log, TransactionMarker(producer_id, 1, 0, is_committed, 2))


def test_a_marker_that_only_a_snapshot_remembers_may_still_be_lost() -> None:
    """The snapshot of a clean stop does not say where the latest transactions ended."""
    broker = Broker()
    log = broker.log()
    log.note_replicas()
    append(log)
    transaction(log)
    log.advance_high_watermark(2)
    assert log.last_stable_offset == 1, "the transaction began there"
    log.log_dir.high_watermarks[log.topic_partition] = log.high_watermark  # as it is noted every few seconds
    broker.restart()
    log = broker.log()
    assert log.high_watermark == 2
    assert log.last_stable_offset == 0, "which transaction it is nobody knows"
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 3


def test_a_log_that_gets_replicas_takes_no_marker_for_committed() -> None:
    broker = Broker()
    log = broker.log()
    append(log)
    transaction(log)
    log.advance_high_watermark(3)
    log.note_replicas()
    log.advance_high_watermark(2)
    assert log.last_stable_offset == 0
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 3


def test_an_open_transaction_that_is_held_back_besides_is_not_forgotten() -> None:
    log = Broker().log()
    transaction(log)
    sent = batch(producer_id=8, producer_epoch=0, base_sequence=0, transactional=True)
    log.append(memoryview(sent), leader_epoch=0, now_ms=NOW_MS, guard=verified(log, sent))
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 2
    log.delete_records(2)
    log.note_replicas()
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 2, "it begins where the log does, and is still open"


def test_deleting_records_goes_through_open_transactions() -> None:
    log = Broker().log()
    sent = batch(b"1", b"2", producer_id=8, producer_epoch=0, base_sequence=0, transactional=True)
    log.append(memoryview(sent), leader_epoch=0, now_ms=NOW_MS, guard=verified(log, sent))
    append(log)
    append(log)
    assert log.last_stable_offset == 0
    log.delete_records(3)
    assert (log.log_start_offset, log.last_stable_offset) == (3, 3), "never below the start"
    end_transaction(log, TransactionMarker(8, 1, 0, False, 2))
    log.advance_high_watermark(5)
    assert log.last_stable_offset == 5
    assert log.aborted.between(3, 5) == [AbortedTransaction(0, 8, 4, 5)], "until its marker its producer is open"
