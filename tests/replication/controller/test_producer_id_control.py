import pytest

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.replication.metadata.image import ProducerIdsImage
from barnabas.replication.metadata.image_delta import replayed
from tests.replication.clusters import cluster, decided


def test_producer_ids_are_given_out_a_thousand_at_a_time_and_never_twice() -> None:
    image = cluster(1)
    epoch = image.brokers[1].broker_epoch
    blocks = []
    for _ in range(3):
        records, block = decided(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch), image)
        image = replayed(image, records)
        blocks.append((block.producer_id_start, block.producer_id_len))
    assert blocks == [(0, 1000), (1000, 1000), (2000, 1000)]
    assert image.producer_ids == ProducerIdsImage(1, epoch, 3000)


@pytest.mark.parametrize(("broker_id", "broker_epoch"), [(1, 99), (2, 0)])
def test_a_stale_broker_gets_none(broker_id: int, broker_epoch: int) -> None:
    with pytest.raises(KafkaError) as raised:
        decided(AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=broker_epoch), cluster(1))
    assert raised.value.code == ErrorCode.STALE_BROKER_EPOCH


def test_producer_ids_that_run_out_are_an_error() -> None:
    image = cluster(1)._replace(producer_ids=ProducerIdsImage(1, 1, 2**63 - 1000))
    with pytest.raises(KafkaError, match="used up"):
        decided(AllocateProducerIdsRequest(broker_id=1, broker_epoch=image.brokers[1].broker_epoch), image)
