"""Transactions as an administrator sees them: at their coordinators, and at the partitions that they write to.

Each function imports the one message it sends: a command pays only for what it uses.
"""

from collections.abc import Iterable, Sequence

from barnabas.client.client import Client, Coordinated
from barnabas.client.cluster import partitions_by_leader
from barnabas.client.connection import Connection
from barnabas.client.errors import COORDINATOR_MOVED, RETRIABLE, check
from barnabas.client.group_offsets import by_topic
from barnabas.options import Failure
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import TopicPartition

ONGOING = "Ongoing"
STATES = ("Empty", ONGOING, "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence")
OPEN_STATES = frozenset((ONGOING, "PrepareCommit", "PrepareAbort", "PrepareEpochFence"))
_NO_TRANSACTION = -1
_DURATION_SINCE, _PATTERN_SINCE = 1, 2


class ListedTransaction(NamedTuple):
    """What every coordinator says of each of its transactional ids."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator_id: int


class Transaction(NamedTuple):
    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    """When it began; None if none has so far."""
    coordinator_id: int
    partitions: tuple[TopicPartition, ...]
    """Those that it writes to, and that have no marker so far."""

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES


class OpenTransaction(NamedTuple):
    """A transaction without a marker, as the leader of a partition knows it."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    """That of the last marker of this producer; -1 if there was none."""
    start_offset: int
    last_timestamp_ms: int


# ---- coordinators


def list_transactions(
    client: Client,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    duration_ms: int = -1,
    pattern: str | None = None,
) -> list[ListedTransaction]:
    """Returns the transactional ids that all brokers coordinate, sorted."""
    from barnabas.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

    request = ListTransactionsRequest(
        state_filters=states,
        producer_id_filters=producer_ids,
        duration_filter=duration_ms,
        transactional_id_pattern=pattern,
    )
    needed = _PATTERN_SINCE if pattern is not None else _DURATION_SINCE if duration_ms >= 0 else 0

    def ask_all() -> list[ListedTransaction]:
        found = []
        for node_id in client.metadata(()).brokers:
            connection = client.node(node_id)
            if connection.version_of(ListTransactionsRequest) < needed:
                raise KafkaError(f"broker {node_id} does not know that filter", ErrorCode.UNSUPPORTED_VERSION)
            response = connection.request(request, ListTransactionsResponse)
            check(response.error_code, None, f"the transactions of broker {node_id} cannot be listed")
            found += [
                ListedTransaction(each.transactional_id, each.producer_id, each.transaction_state, node_id)
                for each in response.transaction_states
            ]
        return sorted(found)

    return client.retry(ask_all, COORDINATOR_MOVED)


def describe_transaction(client: Client, transactional_id: str) -> Transaction:
    if (found := find_transaction(client, transactional_id)) is None:
        raise _no_such_id(client, transactional_id)
    return found


def _no_such_id(client: Client, transactional_id: str) -> KafkaError:
    """Says what may have been meant."""
    from barnabas.options import nearest

    known = {each.transactional_id for each in list_transactions(client)}
    text = f"transactional id {transactional_id} is not known{nearest(transactional_id, known)}"
    return KafkaError(text, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)


def find_transaction(client: Client, transactional_id: str) -> Transaction | None:
    from barnabas.protocol.messages.describe_transactions import (
        DescribeTransactionsRequest,
        DescribeTransactionsResponse,
    )

    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])

    def ask(connection: Connection) -> Transaction | None:
        (found,) = connection.request(request, DescribeTransactionsResponse).transaction_states
        if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return None
        check(found.error_code, None, f"transactional id {transactional_id} cannot be described")
        return Transaction(
            transactional_id=transactional_id,
            state=found.transaction_state,
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
            timeout_ms=found.transaction_timeout_ms,
            start_ms=found.transaction_start_time_ms if found.transaction_start_time_ms >= 0 else None,
            coordinator_id=client.coordinator(transactional_id, Coordinated.TRANSACTIONAL_ID),
            partitions=tuple(
                sorted(TopicPartition(topic.topic, index) for topic in found.topics for index in topic.partitions)
            ),
        )

    return client.on_coordinator(transactional_id, ask, Coordinated.TRANSACTIONAL_ID)


def terminate(client: Client, transaction: Transaction) -> None:
    """Aborts the transaction if it is open, and fences its producer: the next one with this id has another epoch."""
    from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

    request = InitProducerIdRequest(
        transactional_id=transaction.transactional_id, transaction_timeout_ms=transaction.timeout_ms
    )

    def ask(connection: Connection) -> None:
        response = connection.request(request, InitProducerIdResponse)
        check(response.error_code, None, f"the transaction of {transaction.transactional_id} was not aborted")

    is_ending = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS})
    transactional_id = transaction.transactional_id
    client.retry(lambda: client.on_coordinator(transactional_id, ask, Coordinated.TRANSACTIONAL_ID), is_ending)


# ---- partitions


def open_transactions(client: Client, partitions: Iterable[TopicPartition]) -> list[OpenTransaction]:
    """Returns what is open in these partitions, asking their leaders. A partition without a leader is left out."""
    wanted = set(partitions)

    def ask_all() -> list[OpenTransaction]:
        cluster = client.metadata({partition.topic for partition in wanted})
        leaders = partitions_by_leader(cluster, wanted)
        return sorted(each for leader_id, theirs in leaders.items() for each in _open(client, leader_id, theirs))

    return client.retry(ask_all, RETRIABLE)


def _open(client: Client, leader_id: int, partitions: Iterable[TopicPartition]) -> list[OpenTransaction]:
    from barnabas.protocol.messages.describe_producers import (
        DescribeProducersRequest,
        DescribeProducersResponse,
        TopicRequest,
    )

    topics = [TopicRequest(name=topic, partition_indexes=indexes) for topic, indexes in by_topic(partitions).items()]
    response = client.node(leader_id).request(DescribeProducersRequest(topics=topics), DescribeProducersResponse)
    found = []
    for topic in response.topics:
        for described in topic.partitions:
            partition = TopicPartition(topic.name, described.partition_index)
            check(described.error_code, described.error_message, f"the producers of {partition} cannot be described")
            found += [
                OpenTransaction(
                    partition=partition,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.producer_epoch,
                    coordinator_epoch=producer.coordinator_epoch,
                    start_offset=producer.current_txn_start_offset,
                    last_timestamp_ms=producer.last_timestamp,
                )
                for producer in described.active_producers
                if producer.current_txn_start_offset != _NO_TRANSACTION
            ]
    return found


def transactional_ids(client: Client, producer_ids: Iterable[int]) -> dict[int, str]:
    """Returns the transactional ids of those producers that a coordinator knows."""
    wanted = sorted(set(producer_ids))
    if not wanted:
        return {}
    return {each.producer_id: each.transactional_id for each in list_transactions(client, producer_ids=wanted)}


def hanging_transactions(client: Client, found: Iterable[OpenTransaction]) -> list[OpenTransaction]:
    """Returns those of which no coordinator knows that they are open in their partition: nobody will ever end them."""
    known = transactional_ids(client, {each.producer_id for each in found})
    described = {
        producer_id: find_transaction(client, transactional_id) for producer_id, transactional_id in known.items()
    }

    def is_hanging(each: OpenTransaction) -> bool:
        transaction = described.get(each.producer_id)
        return transaction is None or not transaction.is_open or each.partition not in transaction.partitions

    return [each for each in found if is_hanging(each)]


def write_abort_marker(client: Client, transaction: OpenTransaction) -> None:
    """Ends the transaction in this one partition, past its coordinator."""
    from barnabas.protocol.messages.write_txn_markers import (
        WritableTxnMarker,
        WritableTxnMarkerTopic,
        WriteTxnMarkersRequest,
        WriteTxnMarkersResponse,
    )

    topic, index = partition = transaction.partition
    marker = WritableTxnMarker(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
        coordinator_epoch=max(transaction.coordinator_epoch, 0),
    )

    def ask_leader() -> None:
        leaders = partitions_by_leader(client.metadata([topic]), [partition])
        if not leaders:
            raise KafkaError(f"{partition} has no leader", ErrorCode.LEADER_NOT_AVAILABLE)
        (leader_id,) = leaders
        response = client.node(leader_id).request(WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse)
        results = [result for each in response.markers for named in each.topics for result in named.partitions]
        if len(results) != 1:
            raise Failure(f"broker {leader_id} does not say what became of the marker")
        code = results[0].error_code
        check(code, None, f"the transaction of producer {transaction.producer_id} in {partition} was not aborted")

    client.retry(ask_leader)
