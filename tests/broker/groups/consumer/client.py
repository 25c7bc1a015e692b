"""Consumer groups under test: topics, requests, and members that behave as clients do."""

from collections.abc import Iterable, Mapping, Sequence

from barnabas.base.promise import Promise
from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.broker.groups.context import ClientInfo
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from barnabas.protocol.types import Uuid
from barnabas.replication.metadata.image import MetadataImage, PartitionImage, TopicImage
from tests.broker.groups.harness import GroupHarness, value_of

GROUP = "orders-readers"
CLIENT = ClientInfo("client-1", "/127.0.0.1", 1)
Owned = Mapping[Uuid, Iterable[int]]
Partitions = dict[Uuid, frozenset[int]]
_PARTITION = PartitionImage(leader=1, leader_epoch=0, partition_epoch=0, replicas=(1,), isr=(1,))


def topic_id(name: str, incarnation: int = 0) -> Uuid:
    """A topic that is created anew has another id."""
    return f"{name}#{incarnation}".encode().ljust(16, b"\0")[:16]


def with_topic(image: MetadataImage, name: str, partitions: int, *, incarnation: int = 0) -> MetadataImage:
    topic = TopicImage(name, topic_id(name, incarnation), (_PARTITION,) * partitions)
    return image._replace(
        end_offset=image.end_offset + 1,
        topics=image.topics.updated({name: topic}),
        topics_by_id=image.topics_by_id.updated({topic.topic_id: topic}),
    )


def without_topic(image: MetadataImage, name: str) -> MetadataImage:
    gone = image.topics[name].topic_id
    return image._replace(
        end_offset=image.end_offset + 1,
        topics=image.topics.updated({name: None}),
        topics_by_id=image.topics_by_id.updated({gone: None}),
    )


def consumer_harness(config: Mapping[str, str] | None = None, **topics: int) -> GroupHarness:
    """Targets are computed at once unless the test says otherwise."""
    harness = GroupHarness({"group.consumer.assignment.interval.ms": "0", **(config or {})})
    for name, partitions in topics.items():
        harness.image = with_topic(harness.image, name, partitions)
    return harness


def heartbeat_request(
    member_id: str,
    member_epoch: int,
    *,
    group_id: str = GROUP,
    instance_id: str | None = None,
    rack_id: str | None = None,
    rebalance_timeout_ms: int = -1,
    names: Sequence[str] | None = None,
    regex: str | None = None,
    assignor: str | None = None,
    owned: Owned | None = None,
) -> ConsumerGroupHeartbeatRequest:
    topics = None
    if owned is not None:
        topics = [TopicPartitions(topic_id=topic, partitions=sorted(numbers)) for topic, numbers in owned.items()]
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=member_epoch,
        instance_id=instance_id,
        rack_id=rack_id,
        rebalance_timeout_ms=rebalance_timeout_ms,
        subscribed_topic_names=names,
        subscribed_topic_regex=regex,
        server_assignor=assignor,
        topic_partitions=topics,
    )


def join_request(member_id: str, *names: str, **rest: object) -> ConsumerGroupHeartbeatRequest:
    first = {"rebalance_timeout_ms": 60_000, "names": list(names), "owned": {}}
    return heartbeat_request(member_id, 0, **{**first, **rest})  # type: ignore[arg-type]


def send(
    harness: GroupHarness, request: ConsumerGroupHeartbeatRequest, client: ClientInfo = CLIENT
) -> Promise[ConsumerGroupHeartbeatResponse]:
    return harness.ask(lambda shard: shard.consumer.consumer_group_heartbeat(request, client))


def group_of(harness: GroupHarness, group_id: str = GROUP) -> ConsumerGroup:
    group = harness.context.groups[group_id]
    assert isinstance(group, ConsumerGroup)
    return group


def assignment_of(response: ConsumerGroupHeartbeatResponse) -> Partitions | None:
    if response.assignment is None:
        return None
    return {topic.topic_id: frozenset(topic.partitions) for topic in response.assignment.topic_partitions}


class Consumer:
    """A client's side of the protocol: what it was told, and what it says it owns."""

    def __init__(
        self,
        harness: GroupHarness,
        member_id: str,
        *names: str,
        instance_id: str | None = None,
        regex: str | None = None,
    ) -> None:
        self.harness = harness
        self.member_id = member_id
        self.names = list(names)
        self.regex = regex
        self.instance_id = instance_id
        self.epoch = 0
        self.owned: Partitions = {}

    def join(self) -> ConsumerGroupHeartbeatResponse:
        self.epoch, self.owned = 0, {}
        return self.beat(is_full=True)

    def beat(self, *, is_full: bool = False, is_lost: bool = False) -> ConsumerGroupHeartbeatResponse:
        """One heartbeat; if the answer is lost, the client does not know of it."""
        request = heartbeat_request(
            self.member_id,
            self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=60_000 if is_full else -1,
            names=self.names if is_full else None,
            regex=self.regex if is_full else None,
            owned=self.owned,
        )
        response = value_of(send(self.harness, request))
        if not is_lost:
            self.epoch = response.member_epoch
            if (assigned := assignment_of(response)) is not None:
                self.owned = assigned
        return response

    def leave(self, epoch: int = -1) -> None:
        value_of(send(self.harness, heartbeat_request(self.member_id, epoch, instance_id=self.instance_id)))
        self.epoch, self.owned = 0, {}

    def partitions(self, topic: str) -> list[int]:
        return sorted(self.owned.get(topic_id(topic), ()))


def settle(*consumers: Consumer, rounds: int = 8) -> None:
    """Everybody sends heartbeats until nothing changes any more."""
    for _ in range(rounds):
        for consumer in consumers:
            consumer.beat()
