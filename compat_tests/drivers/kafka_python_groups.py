"""Groups with kafka-python, versions 2 and 3."""

from typing import Any

import kafka
from json_lines import Answer, Request
from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaConnectionError
from members import POLL_MS, Member, Partition, operations

VERSION_2 = kafka.__version__.startswith("2.")

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}
if not VERSION_2:
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

    ASSIGNORS["cooperative-sticky"] = CooperativeStickyAssignor


def settings(given: dict[str, Any]) -> dict[str, Any]:
    """Kafka's names as keyword arguments."""
    named = {key.replace(".", "_"): value for key, value in given.items()}
    if (strategy := named.get("partition_assignment_strategy")) is not None:
        named["partition_assignment_strategy"] = [ASSIGNORS[strategy]]
    return named


class Listener(ConsumerRebalanceListener):
    def __init__(self, member: Member) -> None:
        self.member = member

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self.member.revocations += bool(revoked)

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        pass


class GroupConsumer:
    def __init__(self, member: Member) -> None:
        request = member.request
        self.consumer = KafkaConsumer(
            bootstrap_servers=request["bootstrap"],
            group_id=request["group"],
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            metadata_max_age_ms=500,  # new topics are found by looking for them
            reconnect_backoff_max_ms=500,  # a broker that restarts is back before that grows to seconds
            **settings(request["settings"]),
        )
        if request["assign"] is not None:
            self.consumer.assign([TopicPartition(*partition) for partition in request["assign"]])
        else:
            subscribed = {"topics": request["topics"] or (), "pattern": request["pattern"]}
            self.consumer.subscribe(**subscribed, listener=Listener(member))

    def poll(self) -> list[tuple[str, int, int]]:
        self.resume_join()
        try:
            polled = self.consumer.poll(timeout_ms=POLL_MS)
        except KafkaConnectionError:
            return []  # the broker is being restarted: the next poll tries again
        return [(record.topic, record.partition, record.offset) for records in polled.values() for record in records]

    def resume_join(self) -> None:
        """Reminds kafka-python 2 of a join under way. Whatever the broker, it forgets one that began because a topic
        came, if the time of poll() is over between the answers to JoinGroup and SyncGroup, and gets no partitions."""
        coordinator = self.consumer._coordinator
        if VERSION_2 and coordinator.rejoining and not coordinator.need_rejoin():
            coordinator.request_rejoin()

    def assignment(self) -> list[Partition]:
        return [tuple(partition) for partition in self.consumer.assignment()]

    def identity(self) -> tuple[str | None, int | None]:
        generation = self.consumer._coordinator._generation
        return generation.member_id or None, generation.generation_id

    def commit(self, offsets: list[dict[str, Any]] | None, asynchronous: bool) -> None:
        given = None if offsets is None else {TopicPartition(o["topic"], o["partition"]): stated(o) for o in offsets}
        if not asynchronous:
            self.consumer.commit(given)
            return
        future = self.consumer.commit_async(given)
        while not future.is_done:
            self.consumer.poll(timeout_ms=10, max_records=1)
        if future.failed():
            raise future.exception

    def committed(self, partitions: list[Partition]) -> list[dict[str, Any] | None]:
        return [told(self.consumer.committed(TopicPartition(*partition), metadata=True)) for partition in partitions]

    def seek_to_committed(self, partitions: list[Partition]) -> None:
        for partition in partitions:
            self.consumer.seek(TopicPartition(*partition), self.consumer.committed(TopicPartition(*partition)))

    def close(self) -> None:
        self.consumer.close()


def stated(offset: dict[str, Any]) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset["offset"], offset["metadata"], offset["leader_epoch"])


def told(offset: OffsetAndMetadata | None) -> dict[str, Any] | None:
    if offset is None or offset.offset < 0:
        return None
    return {"offset": offset.offset, "metadata": offset.metadata, "leader_epoch": offset.leader_epoch}


def with_admin(request: Request, action: Any) -> Any:
    admin = KafkaAdminClient(bootstrap_servers=request["bootstrap"])
    try:
        return action(admin)
    finally:
        admin.close()


def list_groups(request: Request) -> Answer:
    if VERSION_2:
        found = with_admin(request, lambda admin: admin.list_consumer_groups())
        return {"groups": [{"group": group, "protocol_type": protocol_type} for group, protocol_type in found]}
    found = with_admin(request, lambda admin: admin.list_groups())
    return {
        "groups": [
            {
                "group": group["group_id"],
                "protocol_type": group["protocol_type"],
                "state": group["group_state"],
                "type": group["group_type"],
            }
            for group in found
        ]
    }


def describe_group(request: Request) -> Answer:
    group = request["group"]
    if VERSION_2:
        (found,) = with_admin(request, lambda admin: admin.describe_consumer_groups([group]))
        return {
            "state": found.state,
            "protocol_type": found.protocol_type,
            "assignor": found.protocol,
            "members": [
                {
                    "member_id": member.member_id,
                    "client_id": member.client_id,
                    "host": member.client_host,
                    "assignment": [
                        (topic, partition)
                        for topic, partitions in member.member_assignment.assignment
                        for partition in partitions
                    ],
                }
                for member in found.members
            ],
        }
    described = with_admin(request, lambda admin: admin.describe_groups([group]))[group]
    if described["error"]:
        raise RuntimeError(described["error"])
    return {
        "state": described["group_state"],
        "protocol_type": described["protocol_type"],
        "assignor": described["protocol_data"],
        "members": [
            {
                "member_id": member["member_id"],
                "client_id": member["client_id"],
                "host": member["client_host"],
                "assignment": [
                    (topic["topic"], partition)
                    for topic in member["member_assignment"]["assigned_partitions"]
                    for partition in topic["partitions"]
                ],
            }
            for member in described["members"]
        ],
    }


def group_offsets(request: Request) -> Answer:
    group = request["group"]
    if VERSION_2:
        found = with_admin(request, lambda admin: admin.list_consumer_group_offsets(group))
    else:
        found = with_admin(request, lambda admin: admin.list_group_offsets({group: None}))[group]
    return {"offsets": [{"topic": t, "partition": p, **(told(offset) or {})} for (t, p), offset in found.items()]}


def alter_group_offsets(request: Request) -> Answer:
    wanted = {TopicPartition(o["topic"], o["partition"]): stated(o) for o in request["offsets"]}
    refuse_errors(with_admin(request, lambda admin: admin.alter_group_offsets(request["group"], wanted)))
    return {}


def delete_group_offsets(request: Request) -> Answer:
    partitions = [TopicPartition(*partition) for partition in request["partitions"]]
    refuse_errors(with_admin(request, lambda admin: admin.delete_group_offsets(request["group"], partitions)))
    return {}


def refuse_errors(found: dict[TopicPartition, Any]) -> None:
    for error in found.values():
        if error.errno:
            raise error()


def delete_group(request: Request) -> Answer:
    if VERSION_2:
        ((_, error),) = with_admin(request, lambda admin: admin.delete_consumer_groups([request["group"]]))
        if error.errno:
            raise error()
        return {}
    answer = with_admin(request, lambda admin: admin.delete_groups([request["group"]]))[request["group"]]
    if answer != "OK":
        raise RuntimeError(answer)
    return {}


GROUPS = (*operations(GroupConsumer), list_groups, describe_group, group_offsets, delete_group)
if not VERSION_2:
    GROUPS += (alter_group_offsets, delete_group_offsets)
