"""The records by which a broker becomes active, or stops being so: its partitions go with it.

A broker that leaves gives up its partitions first, and is fenced by the last record: should only some be written, it is
still unfenced, and the next attempt writes the others. One that comes back is unfenced first, and can then be elected.
"""

from barnabas.protocol.stored.metadata_record_serde import MetadataRecord
from barnabas.protocol.stored.metadata_records import BrokerRegistrationChangeRecord
from barnabas.replication.controller.settings import ControllerSettings
from barnabas.replication.metadata.image import NO_LEADER, MetadataImage

FENCE = 1
UNFENCE = -1
IN_CONTROLLED_SHUTDOWN = 1


def fence_records(broker_id: int, image: MetadataImage, settings: ControllerSettings) -> list[MetadataRecord]:
    """Returns the records that fence a broker; none if it is fenced."""
    broker = image.brokers[broker_id]
    if broker.fenced:
        return []
    from barnabas.replication.controller.brokers.moving import leaving_records

    change = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.broker_epoch, fenced=FENCE)
    return [*leaving_records(broker_id, image, settings), change]


def unfence_records(broker_id: int, image: MetadataImage, settings: ControllerSettings) -> list[MetadataRecord]:
    """Returns the records that make a broker active. Partitions without a leader may get one by that."""
    epoch = image.brokers[broker_id].broker_epoch
    change = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, fenced=UNFENCE)
    if not leads_any(NO_LEADER, image):
        return [change]
    from barnabas.replication.controller.brokers.moving import joining_records  # a new broker finds no such partition

    return [change, *joining_records(broker_id, image, settings)]


def controlled_shutdown_records(
    broker_id: int, image: MetadataImage, settings: ControllerSettings
) -> list[MetadataRecord]:
    """Returns the records that move a broker's leaderships away while it still runs."""
    from barnabas.replication.controller.brokers.moving import leaving_records

    broker, records = image.brokers[broker_id], list[MetadataRecord]()
    if not broker.in_controlled_shutdown:
        change = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.broker_epoch)
        change.in_controlled_shutdown = IN_CONTROLLED_SHUTDOWN
        records.append(change)
    return [*records, *leaving_records(broker_id, image, settings)]


def leads_any(broker_id: int, image: MetadataImage) -> bool:
    return any(partition.leader == broker_id for topic in image.topics.values() for partition in topic.partitions)
