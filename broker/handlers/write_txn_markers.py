"""WriteTxnMarkers (27), versions 1 and 2: writes the markers that end transactions, to partitions led here.

v2 says by which rules of transaction.version the transaction was ended (KIP-1228).

- Coordinators of other brokers send it, and so do tools that end a hanging transaction by hand: it answers on the
  listeners of clients. Either permission on the cluster is enough.
- Answered when every marker is committed, or refused. Several markers of one producer id are answered together.
"""

from barnabas.base.promise import Promise
from barnabas.broker.distinct_partitions import distinct_partitions
from barnabas.broker.in_turns import in_turns
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas.protocol.types import TopicPartition
from barnabas.storage.transactions.marker import TransactionMarker

_Written = tuple[int, TopicPartition, int]
"""The producer id, the partition, and the error code."""


def handle(node: Node, request: WriteTxnMarkersRequest, _context: RequestContext) -> Promise[WriteTxnMarkersResponse]:
    wanted = [
        (_marker(marker), TopicPartition(topic.name, index))
        for marker in request.markers
        for topic in marker.topics
        for index in dict.fromkeys(topic.partition_indexes)
    ]

    def write(marker: TransactionMarker, partition: TopicPartition) -> Promise[_Written]:
        written = node.transaction_traffic.marker_writer.write(partition, marker).map(lambda _: ErrorCode.NONE)
        codes = written.or_else(lambda error: error.code)
        return codes.map(lambda code: (marker.producer_id, partition, code))

    return in_turns(node.clock, wanted, lambda each: write(*each)).map(_response)


def _marker(marker: WritableTxnMarker) -> TransactionMarker:
    return TransactionMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        is_committed=marker.transaction_result,
        transaction_version=marker.transaction_version,
    )


def _response(written: list[_Written]) -> WriteTxnMarkersResponse:
    producers: dict[int, list[tuple[str, int, int]]] = {}
    for producer_id, partition, code in written:
        producers.setdefault(producer_id, []).append((*partition, code))
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(producer_id=producer_id, topics=_topics(partitions))
            for producer_id, partitions in producers.items()
        ]
    )


def _topics(partitions: list[tuple[str, int, int]]) -> list[WritableTxnMarkerTopicResult]:
    return [
        WritableTxnMarkerTopicResult(
            name=name,
            partitions=[
                WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                for index, code in codes.items()
            ],
        )
        for name, codes in distinct_partitions(partitions).items()
    ]
