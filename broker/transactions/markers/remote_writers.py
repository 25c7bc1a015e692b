"""Markers on their way to other brokers, which lead the partitions: WriteTxnMarkers, one request in flight to each."""

from collections import deque
from collections.abc import Callable

from barnabas.base.promise import Promise
from barnabas.broker.transactions.brokers import REQUEST_TIMEOUT_MS, Brokers
from barnabas.broker.transactions.markers.sender import Sending, Unsent
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas.protocol.types import TopicPartition

MARKERS_MAX = 10_000
"""The most partitions in one request: its receiver writes to all of them before it does anything else."""

Settle = Callable[[Sending, TopicPartition, Exception | None], None]
_Written = dict[tuple[int, TopicPartition], int]
"""Error codes by producer id and partition."""


class RemoteWriters:
    def __init__(self, brokers: Brokers, settle: Settle) -> None:
        """Calls `settle` with what became of each marker."""
        self._brokers = brokers
        self._settle = settle
        self._clients = brokers.clients("transaction-markers")
        self._waiting: dict[int, deque[Unsent]] = {}
        self._asked: set[int] = set()
        """The brokers to which a request is in flight, or leaves at the end of this turn."""

    def add(self, broker_id: int, sending: Sending, partition: TopicPartition) -> None:
        self._waiting.setdefault(broker_id, deque()).append((sending, partition))
        if broker_id not in self._asked:
            self._asked.add(broker_id)
            self._brokers.clock.call_soon(self._send, broker_id)

    def close(self) -> None:
        self._waiting.clear()
        self._clients.close()

    def _send(self, broker_id: int) -> None:
        waiting = self._waiting.get(broker_id, deque())
        markers = [waiting.popleft() for _ in range(min(len(waiting), MARKERS_MAX))]
        markers = [unsent for unsent in markers if not unsent[0].is_over]
        if not waiting:
            self._waiting.pop(broker_id, None)
        client = self._brokers.client(self._clients, broker_id) if markers else None
        if client is None:
            unreached = KafkaError(f"nobody knows where broker {broker_id} is", ErrorCode.NETWORK_EXCEPTION)
            return self._answered(broker_id, markers, unreached, {})
        answer = client.send(_request(markers), WriteTxnMarkersResponse, timeout_ms=REQUEST_TIMEOUT_MS)
        answer.when_done(lambda kept: self._on_answer(broker_id, markers, kept))

    def _on_answer(self, broker_id: int, markers: list[Unsent], answer: Promise[WriteTxnMarkersResponse]) -> None:
        written = _written(answer.value) if answer.error is None else {}
        self._answered(broker_id, markers, answer.error, written)

    def _answered(self, broker_id: int, markers: list[Unsent], error: Exception | None, written: _Written) -> None:
        for sending, partition in markers:
            self._settle(sending, partition, error or _error(written, sending, partition))
        if broker_id in self._waiting:
            self._brokers.clock.call_soon(self._send, broker_id)
        else:
            self._asked.discard(broker_id)


def _request(markers: list[Unsent]) -> WriteTxnMarkersRequest:
    topics: dict[Sending, dict[str, list[int]]] = {}
    for sending, (topic, index) in markers:
        topics.setdefault(sending, {}).setdefault(topic, []).append(index)
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=sending.marker.producer_id,
                producer_epoch=sending.marker.producer_epoch,
                transaction_result=sending.marker.is_committed,
                topics=[WritableTxnMarkerTopic(name=name, partition_indexes=found) for name, found in indexes.items()],
                coordinator_epoch=sending.marker.coordinator_epoch,
                transaction_version=sending.marker.transaction_version,
            )
            for sending, indexes in topics.items()
        ]
    )


def _written(response: WriteTxnMarkersResponse) -> _Written:
    return {
        (marker.producer_id, TopicPartition(topic.name, partition.partition_index)): partition.error_code
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    }


def _error(written: _Written, sending: Sending, partition: TopicPartition) -> KafkaError | None:
    code = written.get((sending.marker.producer_id, partition), ErrorCode.UNKNOWN_SERVER_ERROR)
    if code == ErrorCode.NONE:
        return None
    return KafkaError(f"its leader answers {ErrorCode(code).name}", ErrorCode(code))
