"""Decides on producer ids: each broker gets blocks of its own, so that none is given twice in a cluster (KIP-730)."""

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from barnabas.protocol.stored.metadata_records import ProducerIdsRecord
from barnabas.replication.controller.cluster_control import check_broker_epoch
from barnabas.replication.controller.decision import Decision, refused
from barnabas.replication.controller.settings import Deciding
from barnabas.replication.metadata.image import MetadataImage

PRODUCER_ID_BLOCK_SIZE = 1000
PRODUCER_ID_MAX = 2**63 - 1


def allocate_producer_ids(
    request: AllocateProducerIdsRequest, image: MetadataImage, _: Deciding
) -> Decision[AllocateProducerIdsResponse]:
    check_broker_epoch(request.broker_id, request.broker_epoch, image)
    first = image.producer_ids.next_producer_id
    if first > PRODUCER_ID_MAX - PRODUCER_ID_BLOCK_SIZE:
        raise refused(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids are used up.")
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=first + PRODUCER_ID_BLOCK_SIZE,
    )
    response = AllocateProducerIdsResponse(
        error_code=ErrorCode.NONE, producer_id_start=first, producer_id_len=PRODUCER_ID_BLOCK_SIZE
    )
    return Decision([record], response)
