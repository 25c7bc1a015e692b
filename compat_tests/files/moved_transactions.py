"""Transactions for moving between brokers: open, decided without markers, and ended, as `__transaction_state` has them.

A broker that was stopped in the middle of an end leaves PREPARE without markers. That moment cannot be hit from
outside, so the record is appended to the log of a broker that was stopped before it, as that would have written it.
"""

import struct
import time
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.differential.batches import HEADER, Batch, Record
from compat_tests.differential.sides import Side
from compat_tests.files.sites import Site

LEDGER = "ledger"
PARTITIONS = 2
STATE = "__transaction_state"
SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
ONGOING, PREPARE_COMMIT, PREPARE_ABORT = 1, 2, 3
LAST_EPOCH = 32_767
ROTATED = 7_000
"""The producer id that takes over from one whose epochs are used up."""
_BATCH_OVERHEAD = 12


class Decision(NamedTuple):
    """What is decided of an open transaction, by the rules of version 1 or 2."""

    status: int
    version: int
    is_last_epoch: bool = False


DECIDED = {
    "decided-commit-1": Decision(PREPARE_COMMIT, 1),
    "decided-abort-1": Decision(PREPARE_ABORT, 1),
    "decided-commit-2": Decision(PREPARE_COMMIT, 2),
    "decided-abort-2": Decision(PREPARE_ABORT, 2),
    "decided-rotating": Decision(PREPARE_COMMIT, 2, is_last_epoch=True),
}
ENDS = {
    "committed": "CompleteCommit",
    "aborted": "CompleteAbort",
    "open": "CompleteAbort",
    "decided-commit-1": "CompleteCommit",
    "decided-abort-1": "CompleteAbort",
    "decided-commit-2": "CompleteCommit",
    "decided-abort-2": "CompleteAbort",
    "decided-rotating": "CompleteCommit",
}
"""What becomes of each transactional id, wherever it is finished."""


def create_ledger(bootstrap: str) -> None:
    """Creates the topic, and that of the coordinator."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(LEDGER, PARTITIONS, 1)])[LEDGER].result(30)
    producer_of(bootstrap, "native")


def producer_of(bootstrap: str, transactional_id: str) -> Producer:
    settings = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "transaction.timeout.ms": 20_000}
    producer = Producer(settings)
    producer.init_transactions(30)
    return producer


def begin(producer: Producer, value: str) -> None:
    """Writes one record to each partition, and waits until they are there."""
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce(LEDGER, value.encode(), partition=partition)
    assert producer.flush(30) == 0


def write_transactions(bootstrap: str) -> list[Producer]:
    """Writes transactions. Returns the producers of those that are open: they must live until their broker is gone."""
    for transactional_id in ("committed", "aborted"):
        producer = producer_of(bootstrap, transactional_id)
        begin(producer, transactional_id)
        end = producer.commit_transaction if transactional_id == "committed" else producer.abort_transaction
        end(30)
    still_open = []
    for transactional_id in ("open", *DECIDED):
        still_open.append(producer_of(bootstrap, transactional_id))
        begin(still_open[-1], transactional_id)
    return still_open


def committed(bootstrap: str) -> dict[int, list[str]]:
    """Returns what a reader of committed records gets of each partition, to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    found: dict[int, list[str]] = {}
    try:
        for index in range(PARTITIONS):
            values = found.setdefault(index, [])
            consumer.assign([TopicPartition(LEDGER, index, 0)])
            while (message := consumer.poll(30)) is not None:
                if (error := message.error()) is None:
                    values.append(message.value().decode())
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    break
            assert message is not None, "the records did not come"
    finally:
        consumer.close()
    return found


def states(port: int) -> dict[str, tuple[str, int]]:
    """Returns the state of each id, and its producer id."""
    side = Side("tools", port)
    try:
        answer: Any = side.call("DescribeTransactions", {"TransactionalIds": list(ENDS)})
    finally:
        side.close()
    return {
        each["TransactionalId"]: (each["TransactionState"], each["ProducerId"]) for each in answer["TransactionStates"]
    }


# ---- PREPARE, as a broker writes it


def decide(site: Site) -> None:
    """Appends a decision on each transaction that is to be one of those decided; the broker is stopped."""
    (folder,) = site.partitions(STATE)
    path = max(folder.glob("*.log"))
    for transactional_id, decision in DECIDED.items():
        data = path.read_bytes()
        next_offset, leader_epoch = end_of(data)
        key, value = latest(data, transactional_id)
        batch = Batch(
            (Record(key, decided(value, decision)),),
            timestamp=int(time.time() * 1000),
            base_offset=next_offset,
            leader_epoch=leader_epoch,
        )
        path.write_bytes(data + batch.encoded(-1))


def end_of(data: bytes) -> tuple[int, int]:
    """Returns the offset after the last batch, and its leader's epoch."""
    position, next_offset, leader_epoch = 0, 0, 0
    while position < len(data):
        fields = HEADER.unpack_from(data, position)
        next_offset, leader_epoch = fields[0] + fields[6] + 1, fields[2]
        position += fields[1] + _BATCH_OVERHEAD
    return next_offset, leader_epoch


def latest(data: bytes, transactional_id: str) -> tuple[bytes, bytes]:
    """Returns key and value of the last record of an id. Its batches are not compressed."""
    name = transactional_id.encode()
    key = struct.pack(">hh", 0, len(name)) + name
    at = data.rindex(key) + len(key)
    length, shift = 0, 0
    while True:
        byte = data[at]
        length |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            break
    length = length >> 1  # zigzag
    return key, data[at : at + length]


def decided(value: bytes, decision: Decision) -> bytes:
    """Returns the value of an open transaction, of version 1, as it is when it is decided."""
    version, producer_id, epoch, timeout_ms, status = struct.unpack_from(">hqhib", value)
    assert (version, status) == (1, ONGOING)
    start = struct.calcsize(">hqhib")
    if decision.version == 2:
        epoch = LAST_EPOCH if decision.is_last_epoch else epoch + 1
    middle = value[start : end_of_timestamps(value, start)]
    tagged = [(0, struct.pack(">q", producer_id))]
    if decision.is_last_epoch:
        tagged.append((1, struct.pack(">q", ROTATED)))
    if decision.version == 2:
        tagged.append((2, struct.pack(">h", 2)))
    ending = bytes([len(tagged)]) + b"".join(bytes([tag, len(data)]) + data for tag, data in tagged)
    return struct.pack(">hqhib", version, producer_id, epoch, timeout_ms, decision.status) + middle + ending


def end_of_timestamps(value: bytes, at: int) -> int:
    """Returns where the tagged fields begin: behind the partitions and two times. All counts are below 127."""
    topics, at = value[at] - 1, at + 1
    for _ in range(topics):
        at += value[at]  # the length, one more than it is, and the name
        count, at = value[at] - 1, at + 1
        at += 4 * count + 1
    return at + 16
