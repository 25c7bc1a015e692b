"""AddOffsetsToTxn (25), versions 0 to 4: v2 a code of its own for a producer that was fenced, v4 that a transaction may
only be aborted. Adds the group's partition of `__consumer_offsets` to a transaction. By the rules of KIP-890 clients
send it no more: TxnOffsetCommit does it.
"""

from barnabas.base.promise import Promise
from barnabas.broker.handlers.auto_creation import create_topics
from barnabas.broker.handlers.fenced_producers import code_for
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import CoordinatorNotAvailable, ErrorCode, KafkaError
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from barnabas.protocol.types import TopicPartition
from barnabas.replication.metadata.image import GROUP_METADATA_TOPIC

_PRODUCER_FENCED_SINCE = 2


def handle(
    node: Node, request: AddOffsetsToTxnRequest, context: RequestContext
) -> AddOffsetsToTxnResponse | Promise[AddOffsetsToTxnResponse]:
    def refused(error: KafkaError) -> AddOffsetsToTxnResponse:
        return AddOffsetsToTxnResponse(error_code=code_for(error, context.api_version, _PRODUCER_FENCED_SINCE))

    def added() -> Promise[None]:
        partition = TopicPartition(GROUP_METADATA_TOPIC, node.groups.partition_of(request.group_id))
        return node.transactions.add_partitions(
            request.transactional_id, request.producer_id, request.producer_epoch, [partition], client_version=0
        )

    def is_there(_errors: dict[str, ErrorCode]) -> None:
        if node.image.topic(GROUP_METADATA_TOPIC) is None:
            raise CoordinatorNotAvailable(f"there is no {GROUP_METADATA_TOPIC} so far")

    if node.image.topic(GROUP_METADATA_TOPIC) is None:
        done = create_topics(node, [GROUP_METADATA_TOPIC]).map(is_there).then(lambda _: added())
    else:
        done = added()
    return done.map(lambda _: AddOffsetsToTxnResponse(error_code=ErrorCode.NONE)).or_else(refused)
