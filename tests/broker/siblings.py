"""A second broker that is only told of: the metadata say where it is and what it leads, and nobody answers there."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from barnabas.base.promise import Promise, resolved
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.stored.metadata_records import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from barnabas.replication.controller.channel import own_context
from barnabas.replication.metadata.image import TopicImage
from barnabas.replication.metadata.image_delta import MetadataDelta
from barnabas.testing import Broker
from tests.replication.clusters import new_topic, topic_of, uuid

T = TypeVar("T")
US, SIBLING = 1, 2
SIBLING_PORT = 19_002


def on_loop(broker: Broker, function: Callable[[], T]) -> T:
    """Calls `function` on the broker's thread."""
    return broker._call_on_loop(lambda: resolved(function()))


def commit(broker: Broker, *records: Any) -> None:
    """Has the controller commit these records, and returns when the broker has applied them."""

    def append() -> Promise[None]:
        promise: Promise[None] = broker._server.node.quorum.append(records)
        return promise

    broker._call_on_loop(append)


def register(broker: Broker, broker_id: int = SIBLING, *, host: str = "localhost", **fields: Any) -> None:
    """Registers a broker which is active, unless `fields` say something else."""
    endpoint = BrokerEndpoint(name="PLAINTEXT", host=host, port=19_000 + broker_id, security_protocol=0)
    record = RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=uuid(100 + broker_id),
        broker_epoch=1_000 + broker_id,
        end_points=[endpoint],
        features=[],
        rack="shelf",
        fenced=False,
        log_dirs=[uuid(200 + broker_id)],
    )
    for name, value in fields.items():
        setattr(record, name, value)
    commit(broker, record)


def fence(broker: Broker, broker_id: int = SIBLING, *, fenced: int = 1) -> None:
    change = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=1_000 + broker_id, fenced=fenced)
    commit(broker, change)


def create(broker: Broker, name: str, *assignments: Sequence[int], **configs: str) -> TopicImage:
    """Creates a topic whose partitions have these replicas; the first of each leads."""
    topic = new_topic(
        name, -1, -1, dict(enumerate(map(list, assignments))), {key.replace("_", "."): configs[key] for key in configs}
    )
    request = CreateTopicsRequest(topics=[topic])
    response = broker._call_on_loop(lambda: broker._server.node.controller.submit(request, own_context(request)))
    assert [result.error_code for result in response.topics] == [0], response
    return described(broker, name)


def described(broker: Broker, name: str) -> TopicImage:
    return on_loop(broker, lambda: topic_of(broker._server.node.image, name))


def move(broker: Broker, name: str, leader: int, *, partition: int = 0, **changes: Any) -> None:
    """Has the partition led by another broker: every time a new leader epoch begins."""
    topic_id = described(broker, name).topic_id
    commit(broker, PartitionChangeRecord(partition_id=partition, topic_id=topic_id, leader=leader, **changes))


def learn_of_new_leader(broker: Broker, name: str, leader: int) -> None:
    """Like `move`, without the disk that the controller of this broker needs: as if another controller had said it."""
    node = broker._server.node

    def learn() -> None:
        delta = MetadataDelta(node.image)
        topic_id = topic_of(node.image, name).topic_id
        delta.replay(PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=leader))
        end_offset, epoch = node.image.end_offset + 1, node.image.epoch
        node.on_metadata(*delta.finish(end_offset=end_offset, epoch=epoch, timestamp_ms=0, controller_id=SIBLING))

    on_loop(broker, learn)
