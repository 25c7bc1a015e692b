"""The records of `__transaction_state` as the coordinator's own values: a transactional id, and what is known of it."""

from collections.abc import Callable, Iterable

from barnabas.broker.transactions.transaction import State, Transaction
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.stored.transaction_record_serde import decode_record, encode_key, encode_value
from barnabas.protocol.stored.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue
from barnabas.protocol.types import TopicPartition


class TransactionSerde:
    """Implements the coordinator runtime's `Serde`."""

    def __init__(self, transaction_version: Callable[[], int]) -> None:
        """Takes `transaction_version`, the level of the feature: at 0 there may be brokers that read the first version
        of values only."""
        self._transaction_version = transaction_version

    def encode_key(self, transactional_id: str) -> bytes:
        return encode_key(TransactionLogKey(transactional_id=transactional_id))

    def encode_value(self, transaction: Transaction) -> bytes:
        return encode_value(_as_value(transaction), 1 if self._transaction_version() >= 1 else 0)

    def decode_record(self, key: bytes, value: bytes | None) -> tuple[str, Transaction | None] | None:
        decoded = decode_record(key, value)
        if decoded is None:
            return None
        transactional_id, stored = decoded[0].transactional_id, decoded[1]
        return transactional_id, None if stored is None else _from_value(transactional_id, stored)


def _as_value(transaction: Transaction) -> TransactionLogValue:
    return TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=None if transaction.state is State.EMPTY else _by_topic(transaction.partitions),
        transaction_last_update_timestamp_ms=transaction.last_update_timestamp_ms,
        transaction_start_timestamp_ms=transaction.start_timestamp_ms,
        client_transaction_version=transaction.client_transaction_version,
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> list[PartitionsSchema]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return [PartitionsSchema(topic=topic, partition_ids=sorted(ids)) for topic, ids in sorted(topics.items())]


def _from_value(transactional_id: str, value: TransactionLogValue) -> Transaction:
    try:
        state = State(value.transaction_status)
    except ValueError as error:
        raise ProtocolError(f"{transactional_id} is in state {value.transaction_status}, which is none") from error
    return Transaction(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        timeout_ms=value.transaction_timeout_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        producer_epoch=value.producer_epoch,
        state=state,
        partitions=frozenset(
            TopicPartition(topic.topic, index)
            for topic in value.transaction_partitions or ()
            for index in topic.partition_ids
        ),
        start_timestamp_ms=value.transaction_start_timestamp_ms,
        last_update_timestamp_ms=value.transaction_last_update_timestamp_ms,
        client_transaction_version=value.client_transaction_version,
    )
