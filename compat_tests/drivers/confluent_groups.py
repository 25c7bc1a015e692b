"""Groups with confluent-kafka: the classic protocol, and the one of KIP-848 with group.protocol=consumer."""

from typing import Any

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from json_lines import Answer, Request
from members import POLL_MS, Member, Partition, operations

MOST_PER_POLL = 500


class GroupConsumer:
    def __init__(self, member: Member) -> None:
        self.member = member
        request = member.request
        self.consumer = Consumer(
            {
                "bootstrap.servers": request["bootstrap"],
                "group.id": request["group"],
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 500,  # the classic protocol finds new topics by looking for them
                "reconnect.backoff.max.ms": 500,  # a broker that restarts is back before that grows to seconds
                **request["settings"],
            }
        )
        if request["assign"] is not None:
            self.consumer.assign([TopicPartition(*partition) for partition in request["assign"]])
        else:
            subscribed = [request["pattern"]] if request["topics"] is None else request["topics"]
            self.consumer.subscribe(subscribed, on_revoke=self._revoked, on_lost=self._lost)

    def _revoked(self, _consumer: Consumer, revoked: list[TopicPartition]) -> None:
        self.member.revocations += bool(revoked)
        self.member.commit_polled(self)

    def _lost(self, _consumer: Consumer, lost: list[TopicPartition]) -> None:
        self.member.revocations += bool(lost)

    def poll(self) -> list[tuple[str, int, int]]:
        polled: list[tuple[str, int, int]] = []
        while len(polled) < MOST_PER_POLL:
            message = self.consumer.poll(0 if polled else POLL_MS / 1000)
            if message is None:
                break
            if message.error() is not None:
                if message.error().code() == KafkaError._FATAL:
                    raise KafkaException(message.error())
                print(message.error(), flush=True)
                continue
            polled.append((message.topic(), message.partition(), message.offset()))
            self.member.uncommitted = True
        return polled

    def assignment(self) -> list[Partition]:
        return [(partition.topic, partition.partition) for partition in self.consumer.assignment()]

    def identity(self) -> tuple[str | None, int | None]:
        return self.consumer.memberid() or None, None

    def commit(self, offsets: list[dict[str, Any]] | None, asynchronous: bool) -> None:
        given = {} if offsets is None else {"offsets": [stated(offset) for offset in offsets]}
        if not asynchronous:
            for partition in self.consumer.commit(asynchronous=False, **given):
                if partition.error is not None:
                    raise KafkaException(partition.error)
            return
        self.consumer.commit(asynchronous=True, **given)

    def committed(self, partitions: list[Partition]) -> list[dict[str, Any] | None]:
        return [told(found) for found in self.consumer.committed([TopicPartition(*p) for p in partitions], timeout=15)]

    def seek_to_committed(self, partitions: list[Partition]) -> None:
        for found in self.consumer.committed([TopicPartition(*p) for p in partitions], timeout=15):
            self.consumer.seek(found)

    def close(self) -> None:
        self.consumer.close()


def stated(offset: dict[str, Any]) -> TopicPartition:
    return TopicPartition(
        offset["topic"], offset["partition"], offset["offset"], offset["metadata"], offset["leader_epoch"]
    )


def told(found: TopicPartition) -> dict[str, Any] | None:
    if found.error is not None:
        raise KafkaException(found.error)
    if found.offset == OFFSET_INVALID:
        return None
    return {"offset": found.offset, "metadata": found.metadata or "", "leader_epoch": found.leader_epoch}


def admin(request: Request) -> AdminClient:
    return AdminClient({"bootstrap.servers": request["bootstrap"]})


def list_groups(request: Request) -> Answer:
    client = admin(request)  # must outlive the futures it hands out
    listing = client.list_consumer_groups(request_timeout=15).result(timeout=20)
    if listing.errors:
        raise listing.errors[0]
    return {
        "groups": [
            {"group": group.group_id, "state": state_name(group.state), "type": group.type.name.title()}
            for group in listing.valid
        ]
    }


def describe_group(request: Request) -> Answer:
    client = admin(request)
    found = client.describe_consumer_groups([request["group"]], request_timeout=15)[request["group"]].result(timeout=20)
    return {
        "state": state_name(found.state),
        "type": found.type.name.title(),
        "assignor": found.partition_assignor,
        "members": [
            {
                "member_id": member.member_id,
                "client_id": member.client_id,
                "host": member.host,
                "group_instance_id": member.group_instance_id,
                "assignment": [(tp.topic, tp.partition) for tp in member.assignment.topic_partitions],
            }
            for member in found.members
        ],
    }


def state_name(state: ConsumerGroupState) -> str:
    """STABLE as the brokers write it: Stable."""
    return "".join(word.title() for word in state.name.split("_"))


def group_offsets(request: Request) -> Answer:
    client = admin(request)
    wanted = [ConsumerGroupTopicPartitions(request["group"])]
    found = client.list_consumer_group_offsets(wanted, request_timeout=15)[request["group"]].result(timeout=20)
    return {
        "offsets": [{"topic": tp.topic, "partition": tp.partition, **(told(tp) or {})} for tp in found.topic_partitions]
    }


def alter_group_offsets(request: Request) -> Answer:
    client = admin(request)
    wanted = [ConsumerGroupTopicPartitions(request["group"], [stated(offset) for offset in request["offsets"]])]
    done = client.alter_consumer_group_offsets(wanted, request_timeout=15)[request["group"]].result(timeout=20)
    for partition in done.topic_partitions:
        if partition.error is not None:
            raise KafkaException(partition.error)
    return {}


def delete_group(request: Request) -> Answer:
    client = admin(request)
    client.delete_consumer_groups([request["group"]], request_timeout=15)[request["group"]].result(timeout=20)
    return {}


def alter_group_configs(request: Request) -> Answer:
    client = admin(request)
    change = AlterConfigOpType.SET
    entries = [ConfigEntry(key, value, incremental_operation=change) for key, value in request["configs"].items()]
    group = ConfigResource(ResourceType.GROUP, request["group"], incremental_configs=entries)
    client.incremental_alter_configs([group], request_timeout=15)[group].result(timeout=20)
    return {}


ADMIN = (list_groups, describe_group, group_offsets, alter_group_offsets, delete_group, alter_group_configs)
GROUPS = (*operations(GroupConsumer), *ADMIN)
