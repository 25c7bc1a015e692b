"""Groups with members that go on: they join, are assigned, commit, leave and are described, mostly as they should."""

from typing import Any

from compat_tests.differential.conditions import UNKNOWN_MEMBER_ID
from compat_tests.differential.shapes.groups import assignment, subscription
from compat_tests.differential.sides import Answer, Request
from compat_tests.differential.stories.anything import WithTopics
from compat_tests.differential.story import Arena, Ended
from compat_tests.differential.world import INT32_MAX


class Member:
    def __init__(self, number: int, instance: str | None) -> None:
        self.on = f"member-{number}"
        self.name = f"consumer-{number}"
        self.instance = instance
        self.id: Any = ""
        self.generation = -1  # or its epoch
        self.protocol: str | None = None
        self.leads = False
        self.assignment: list[dict[str, Any]] = []


class WithGroup(WithTopics):
    STEPS = 24

    def __init__(self, arena: Arena, seed: int) -> None:
        super().__init__(arena, seed)
        self.group = self.world.groups[0]
        instances = [f"instance-{number}" if self.random.random() < 0.35 else None for number in range(3)]
        self.members = [Member(number, instance) for number, instance in enumerate(instances)]
        self.topic = f"{self.prefix}-a"

    def tell(self) -> None:
        self.prepare()
        steps = dict(self.steps())
        for step in self.random.choices(list(steps), list(steps.values()), k=self.STEPS):
            free = [member for member in self.members if member.on not in self.pending]
            if not free:
                break
            step(self.random.choice(free))
        self.describe(self.members[0])
        self.fetch_offsets(self.members[0])
        self.settle()

    def steps(self) -> list[tuple[Any, float]]:
        """Returns what can happen, and how often."""
        raise NotImplementedError

    def identity(self, member: Member) -> dict[str, Any]:
        """Returns the member that speaks and its epoch; now and then another member's."""
        others = [other.id for other in self.members]
        generation = member.generation
        return {
            "GroupId": self.world.pick(self.group, self.world.group(), p=0.03),
            "MemberId": self.world.pick(member.id, "", "stranger", *others, p=0.06),
            "generation": self.world.pick(generation, generation + 1, generation - 1, -1, INT32_MAX, p=0.06),
            "instance": self.world.pick(member.instance, None, "instance-1", "", p=0.05),
        }

    # ---- what groups of both kinds are asked

    def commit(self, member: Member) -> None:
        who = self.identity(member)
        version = self.version("OffsetCommit")
        partition = {
            "PartitionIndex": self.world.pick(self.random.randrange(2), 7, p=0.05),
            "CommittedOffset": self.random.randrange(100),
            "CommittedLeaderEpoch": self.world.leader_epoch(),
            "CommittedMetadata": self.world.pick("note", None, "x" * 5_000, p=0.1),
        }
        where = {"Name": self.topic} if version < 10 else {"TopicId": self.world.topic_ids[self.topic]}
        body = {
            "GroupId": who["GroupId"],
            "MemberId": who["MemberId"],
            "GenerationIdOrMemberEpoch": who["generation"],
            "GroupInstanceId": who["instance"],
            "Topics": [{**where, "Partitions": [partition]}],
        }
        self.ask("OffsetCommit", body, version, on=f"{member.on}-offsets")

    def fetch_offsets(self, member: Member) -> None:
        who = self.identity(member)
        version = self.version("OffsetFetch")
        where = {"Name": self.topic} if version < 10 else {"TopicId": self.world.topic_ids[self.topic]}
        topics = self.world.pick([{**where, "PartitionIndexes": [0, 1]}], None if version >= 2 else [], p=0.3)
        by_member = self.random.random() < 0.3
        group = {
            "GroupId": self.group,
            "MemberId": who["MemberId"] if by_member else None,
            "MemberEpoch": who["generation"] if by_member else -1,
            "Topics": topics,
        }
        body = {"GroupId": self.group, "Topics": topics, "Groups": [group], "RequireStable": self.world.flag()}
        self.ask("OffsetFetch", body, version, on=f"{member.on}-offsets")

    def delete_offsets(self, member: Member) -> None:
        partitions = [{"PartitionIndex": self.random.randrange(2)}]
        body = {"GroupId": self.group, "Topics": [{"Name": self.topic, "Partitions": partitions}]}
        self.ask("OffsetDelete", body, on=f"{member.on}-offsets")

    def describe(self, member: Member) -> None:
        asked = {"Groups": [self.group], "IncludeAuthorizedOperations": self.world.flag()}
        self.ask("DescribeGroups", asked, on="tools")
        self.ask("ConsumerGroupDescribe", {"GroupIds": [self.group]}, on="tools")

    def list_groups(self, member: Member) -> None:
        self.ask_for("ListGroups", self.version("ListGroups"))

    def delete_group(self, member: Member) -> None:
        self.ask("DeleteGroups", {"GroupsNames": [self.group]}, on="tools")

    # ---- the classic protocol

    def join(self, member: Member) -> None:
        who = self.identity(member)
        version = self.version("JoinGroup", 5 if member.instance else 0)
        names = self.world.pick(("range", "roundrobin"), ("range",), ("other",), p=0.15)
        metadata = subscription([self.topic], self.random.randrange(4))
        body = {
            "GroupId": self.group,
            "SessionTimeoutMs": 30_000,
            "RebalanceTimeoutMs": 60_000,
            "MemberId": who["MemberId"],
            "GroupInstanceId": member.instance,
            "ProtocolType": self.world.pick("consumer", "connect", p=0.03),
            "Protocols": [{"Name": name, "Metadata": metadata} for name in names],
        }
        answer = self.send("JoinGroup", body, version, on=member.on)
        if answer is not None and answer.get("ErrorCode") == 79:  # it is to come again with the id that it got
            self.send("JoinGroup", {**body, "MemberId": answer["MemberId"]}, version, on=member.on)

    def sync(self, member: Member) -> None:
        who = self.identity(member)
        given = [  # nobody shares a partition: such a group stays classic here, and not in Kafka
            {"MemberId": other.id, "Assignment": assignment({self.topic: [number] if number < 2 else []})}
            for number, other in enumerate(self.members)
            if other.id
        ]
        body = {
            "GroupId": who["GroupId"],
            "GenerationId": who["generation"],
            "MemberId": who["MemberId"],
            "GroupInstanceId": who["instance"],
            "ProtocolType": self.world.pick("consumer", None, "connect", p=0.04),
            "ProtocolName": self.world.pick(member.protocol, None, "other", p=0.04),
            "Assignments": given if member.leads else [],
        }
        self.send("SyncGroup", body, self.version("SyncGroup", 3 if who["instance"] else 0), on=member.on)

    def heartbeat(self, member: Member) -> None:
        who = self.identity(member)
        body = {"GroupId": who["GroupId"], "GenerationId": who["generation"], "MemberId": who["MemberId"]}
        self.send("Heartbeat", {**body, "GroupInstanceId": who["instance"]}, on=member.on)

    def leave(self, member: Member) -> None:
        who = self.identity(member)
        leaving = [{"MemberId": who["MemberId"], "GroupInstanceId": who["instance"], "Reason": "done"}]
        body = {"GroupId": who["GroupId"], "MemberId": who["MemberId"], "Members": leaving}
        self.send("LeaveGroup", body, on=member.on)
        member.id, member.generation = "", -1

    def remember_join(self, member: Member, answer: Answer) -> None:
        if answer.get("ErrorCode") in (0, 79):
            member.id = answer["MemberId"]
        elif answer.get("ErrorCode") in (25, 82):
            member.id = ""
        if answer.get("ErrorCode") == 0:
            member.generation = answer["GenerationId"]
            member.protocol = answer["ProtocolName"]
            member.leads = answer["Leader"] == member.id

    # ---- the consumer protocol

    def consumer_heartbeat(self, member: Member) -> None:
        joins = member.generation <= 0
        topics = self.world.pick([self.topic], [f"{self.prefix}-b"], [], [f"{self.prefix}-nope"], p=0.15)
        changes = joins or self.random.random() < 0.15
        body = {
            "GroupId": self.group,
            "MemberId": member.id or member.name if joins else self.identity(member)["MemberId"],
            "MemberEpoch": 0 if joins else self.identity(member)["generation"],
            "InstanceId": member.instance,
            "RebalanceTimeoutMs": 60_000 if changes else -1,
            "SubscribedTopicNames": topics if changes else None,
            "ServerAssignor": self.world.pick(None, "uniform", "range", "nope", p=0.1) if changes else None,
            "TopicPartitions": [] if joins else self.world.pick(member.assignment, None, [], p=0.2),
        }
        self.ask("ConsumerGroupHeartbeat", body, on=member.on)

    def consumer_leave(self, member: Member) -> None:
        epoch = -2 if member.instance and self.world.flag() else -1
        who = {"MemberId": member.id or member.name, "MemberEpoch": epoch, "InstanceId": member.instance}
        self.ask("ConsumerGroupHeartbeat", {"GroupId": self.group, **who}, on=member.on)
        member.generation = -1

    def remember_heartbeat(self, member: Member, answer: Answer) -> None:
        if answer.get("ErrorCode") == 0:
            member.id = answer["MemberId"] or member.id
            member.generation = answer["MemberEpoch"]
            if answer["Assignment"] is not None:
                member.assignment = answer["Assignment"]["TopicPartitions"]
        elif answer.get("ErrorCode") in (25, 110):
            member.generation, member.assignment = -1, []

    def on_answer(self, request: Request, answer: Answer, on: str) -> None:
        super().on_answer(request, answer, on)
        for member in self.members:
            if member.on == on and request.api.name == "JoinGroup":
                self.remember_join(member, answer)
            elif member.on == on and request.api.name == "ConsumerGroupHeartbeat":
                self.remember_heartbeat(member, answer)


class ClassicGroup(WithGroup):
    def steps(self) -> list[tuple[Any, float]]:
        members = [(self.join, 8.0), (self.sync, 7.0), (self.heartbeat, 3.0), (self.leave, 1.0)]
        tools = [(self.describe, 1.0), (self.list_groups, 0.5), (self.delete_group, 0.3)]
        return [*members, *tools, (self.commit, 2.0), (self.fetch_offsets, 1.0), (self.delete_offsets, 0.5)]


class ConsumerGroup(WithGroup):
    def steps(self) -> list[tuple[Any, float]]:
        members = [(self.consumer_heartbeat, 14.0), (self.consumer_leave, 1.0)]
        tools = [(self.describe, 1.5), (self.list_groups, 0.5), (self.delete_group, 0.3)]
        return [*members, *tools, (self.commit, 2.0), (self.fetch_offsets, 1.0), (self.delete_offsets, 0.5)]


class BothProtocols(WithGroup):
    """Members of both protocols meet in one group, which changes its kind where that is possible."""

    def steps(self) -> list[tuple[Any, float]]:
        classic = [(self.join, 4.0), (self.sync, 3.0), (self.heartbeat, 2.0), (self.leave, 0.7)]
        consumer = [(self.consumer_heartbeat, 6.0), (self.consumer_leave, 0.7)]
        return [*classic, *consumer, (self.describe, 1.5), (self.commit, 1.0), (self.fetch_offsets, 1.0)]

    def on_answer(self, request: Request, answer: Answer, on: str) -> None:
        super().on_answer(request, answer, on)
        is_refused = request.api.name == "JoinGroup" and answer.get("ErrorCode") == UNKNOWN_MEMBER_ID
        if is_refused and all(member.generation <= 0 for member in self.members):
            raise Ended  # an empty consumer group is as it was here, and Kafka has removed it
