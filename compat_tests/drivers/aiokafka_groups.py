"""Groups with aiokafka."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocol
from aiokafka.errors import for_code
from aiokafka.structs import OffsetAndMetadata
from json_lines import Answer, Request
from members import POLL_MS, Member, Partition, operations

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


def settings(given: dict[str, Any]) -> dict[str, Any]:
    """Kafka's names as keyword arguments."""
    named = {key.replace(".", "_"): value for key, value in given.items()}
    if (strategy := named.get("partition_assignment_strategy")) is not None:
        named["partition_assignment_strategy"] = (ASSIGNORS[strategy],)
    return named


class Listener(ConsumerRebalanceListener):
    def __init__(self, member: Member) -> None:
        self.member = member

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self.member.revocations += bool(revoked)

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        pass


class GroupConsumer:
    """The event loop turns only inside the calls: the member polls often enough for its heartbeats."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.runner = asyncio.Runner()
        self.runner.run(self._start())

    async def _start(self) -> None:
        request = self.member.request
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=request["bootstrap"],
            group_id=request["group"],
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            metadata_max_age_ms=500,  # new topics are found by looking for them
            **settings(request["settings"]),
        )
        if request["assign"] is not None:
            self.consumer.assign([TopicPartition(*partition) for partition in request["assign"]])
        else:
            subscribed = {"topics": request["topics"] or (), "pattern": request["pattern"]}
            self.consumer.subscribe(**subscribed, listener=Listener(self.member))
        await self.consumer.start()

    def poll(self) -> list[tuple[str, int, int]]:
        polled = self.runner.run(self.consumer.getmany(timeout_ms=POLL_MS))
        return [(record.topic, record.partition, record.offset) for records in polled.values() for record in records]

    def assignment(self) -> list[Partition]:
        return [tuple(partition) for partition in self.consumer.assignment()]

    def identity(self) -> tuple[str | None, int | None]:
        coordinator = self.consumer._coordinator
        return getattr(coordinator, "member_id", None) or None, getattr(coordinator, "generation", None)

    def commit(self, offsets: list[dict[str, Any]] | None, asynchronous: bool) -> None:
        given = None if offsets is None else {TopicPartition(o["topic"], o["partition"]): stated(o) for o in offsets}
        self.runner.run(self.consumer.commit(given))

    def committed(self, partitions: list[Partition]) -> list[dict[str, Any] | None]:
        found = [self.runner.run(self.consumer.committed(TopicPartition(*partition))) for partition in partitions]
        return [None if offset is None else {"offset": offset} for offset in found]

    def seek_to_committed(self, partitions: list[Partition]) -> None:
        self.runner.run(self.consumer.seek_to_committed(*[TopicPartition(*partition) for partition in partitions]))

    def close(self) -> None:
        self.runner.run(self.consumer.stop())
        self.runner.close()


def stated(offset: dict[str, Any]) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset["offset"], offset["metadata"])


def with_admin(request: Request, action: Callable[[AIOKafkaAdminClient], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=request["bootstrap"])
        await admin.start()
        try:
            return await action(admin)
        finally:
            await admin.close()

    return asyncio.run(run())


def list_groups(request: Request) -> Answer:
    found = with_admin(request, lambda admin: admin.list_consumer_groups())
    return {"groups": [{"group": group, "protocol_type": protocol_type} for group, protocol_type in found]}


def describe_group(request: Request) -> Answer:
    (response,) = with_admin(request, lambda admin: admin.describe_consumer_groups([request["group"]]))
    ((code, _, state, protocol_type, assignor, members, *_),) = response.groups
    if code:
        raise for_code(code)(request["group"])
    return {
        "state": state,
        "protocol_type": protocol_type,
        "assignor": assignor,
        "members": [described(*member) for member in members],
    }


def described(member_id: str, *rest: Any) -> dict[str, Any]:
    client_id, host, _, assignment = rest[-4:]
    topics = ConsumerProtocol.ASSIGNMENT.decode(assignment).assignment
    return {
        "member_id": member_id,
        "client_id": client_id,
        "host": host,
        "assignment": [(topic, partition) for topic, partitions in topics for partition in partitions],
    }


def group_offsets(request: Request) -> Answer:
    found = with_admin(request, lambda admin: admin.list_consumer_group_offsets(request["group"]))
    return {
        "offsets": [
            {"topic": topic, "partition": partition, "offset": offset.offset, "metadata": offset.metadata}
            for (topic, partition), offset in found.items()
        ]
    }


GROUPS = (*operations(GroupConsumer), list_groups, describe_group, group_offsets)
