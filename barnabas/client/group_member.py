"""A member of a classic group that reads one topic: it joins, keeps in touch, commits and leaves.

Rules:
- It speaks `range` only, which every client offers by default, and assigns for all members when it is their leader.
- Between joining and `keep_up` saying False it may read what it was assigned. Then it has to join again: the others get
  what it had, so everything that it has shown is committed before it asks whether it may stay.
- A coordinator that cannot be reached is asked again the next time: a fetch notices a broker that stays away.
- Leaving is a courtesy, with a last commit before it: Ctrl-C may have come between the output and its commit. It takes
  a connection of its own, since the last one may still wait for an answer.
"""

import time
from collections.abc import Iterable, Mapping

from barnabas.client.client import Client
from barnabas.client.connection import Connection
from barnabas.client.errors import Unreachable, check
from barnabas.client.group_offsets import commit_offsets, stable_offsets
from barnabas.options import Failure
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from barnabas.protocol.stored.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from barnabas.protocol.stored.consumer_protocol import TopicPartition as AssignedTopic
from barnabas.protocol.types import TopicPartition

ASSIGNOR = "range"
SESSION_TIMEOUT_MS = 45_000
REBALANCE_TIMEOUT_MS = 60_000
HEARTBEAT_INTERVAL_S = 1.0
"""A third of what Kafka's clients use, so that a person at a terminal waits less for a rebalance."""
IDLE_S = 0.5
JOIN_TIMEOUT_S = 330
"""A join is answered when the slowest member has joined or was removed; Kafka's clients allow five minutes for that."""
JOIN_AGAIN = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID})


class GroupMember:
    def __init__(self, client: Client, group_id: str, topic: str) -> None:
        """Takes a client of its own: a connection that waits for a fetch cannot be asked anything else."""
        self.client = client
        self.group_id = group_id
        self.topic = topic
        self.member_id = ""
        self.generation_id = -1
        self.shown: Mapping[int, int] = {}
        """The offsets after what the user has seen, by partition: these are to be committed."""
        self._committed: dict[int, int] = {}
        self._heartbeat_at = 0.0

    def __enter__(self) -> "GroupMember":
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    # ---- joining

    def join(self) -> list[int]:
        """Joins the group and returns the partitions of the topic that are assigned to this member."""
        while True:
            try:
                response = self._joined()
                assignment = self._synced(response)
            except KafkaError as error:
                if error.code not in JOIN_AGAIN:
                    raise
                self._forget_unless_known(error.code)
                continue
            self.generation_id = response.generation_id
            self._heartbeat_at = time.monotonic() + HEARTBEAT_INTERVAL_S
            return sorted(
                index
                for each in assignment.assigned_partitions
                if each.topic == self.topic
                for index in each.partitions
            )

    def _joined(self) -> JoinGroupResponse:
        subscription = encode_subscription(ConsumerProtocolSubscription(topics=[self.topic]), 0)

        def ask(connection: Connection) -> JoinGroupResponse:
            request = JoinGroupRequest(
                group_id=self.group_id,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                member_id=self.member_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=[JoinGroupRequestProtocol(name=ASSIGNOR, metadata=subscription)],
            )
            response = connection.request(request, JoinGroupResponse, JOIN_TIMEOUT_S)
            if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:  # the first answer only gives the name (KIP-394)
                self.member_id = response.member_id
                return ask(connection)
            check(response.error_code, None, f"group {self.group_id} did not let us in")
            self.member_id = response.member_id
            return response

        return self.client.on_coordinator(self.group_id, ask)

    def _synced(self, joined: JoinGroupResponse) -> ConsumerProtocolAssignment:
        assignments = self._assignments(joined.members) if joined.leader == joined.member_id else []
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )

        def ask(connection: Connection) -> SyncGroupResponse:
            response = connection.request(request, SyncGroupResponse, JOIN_TIMEOUT_S)
            check(response.error_code, None, f"group {self.group_id} gave us no assignment")
            return response

        assignment = self.client.on_coordinator(self.group_id, ask).assignment
        return (
            decode_assignment(bytes(assignment)) if assignment else ConsumerProtocolAssignment(assigned_partitions=[])
        )

    def _assignments(self, members: Iterable[JoinGroupResponseMember]) -> list[SyncGroupRequestAssignment]:
        topics = {member.member_id: decode_subscription(bytes(member.metadata)).topics for member in members}
        known = self.client.metadata({name for names in topics.values() for name in names}).topics
        shares = range_shares(topics, {name: len(topic.partitions) for name, topic in known.items()})
        return [
            SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=encode_assignment(
                    ConsumerProtocolAssignment(
                        assigned_partitions=[
                            AssignedTopic(topic=topic, partitions=list(partitions))
                            for topic, partitions in share.items()
                        ]
                    ),
                    0,
                ),
            )
            for member_id, share in shares.items()
        ]

    def _forget_unless_known(self, error: ErrorCode) -> None:
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""

    # ---- staying

    def committed(self, partitions: Iterable[int]) -> dict[int, int]:
        """Returns the committed offsets of the group, by partition of the topic."""
        wanted = [TopicPartition(self.topic, index) for index in partitions]
        offsets = stable_offsets(self.client, self.group_id, wanted)
        self._committed = {each.partition: offset for each, offset in offsets.items()}
        self.shown = {}
        return dict(self._committed)

    def keep_up(self) -> bool:
        """Commits what was shown and, when it is time, says that we are here; False if we have to join again."""
        try:
            self._commit()
            if time.monotonic() >= self._heartbeat_at:
                self.client.on_coordinator(self.group_id, self._heartbeat)
                self._heartbeat_at = time.monotonic() + HEARTBEAT_INTERVAL_S
        except Unreachable:
            pass
        except KafkaError as error:
            if error.code not in JOIN_AGAIN:
                raise
            self._forget_unless_known(error.code)
            return False
        return True

    def wait_to_join_again(self) -> None:
        """Waits with heartbeats while nothing is assigned, until others leave or partitions are added."""
        while self.keep_up():
            time.sleep(IDLE_S)

    def _commit(self) -> None:
        """Commits what was shown and is not committed."""
        offsets = {index: offset for index, offset in self.shown.items() if self._committed.get(index) != offset}
        if offsets:
            named = {TopicPartition(self.topic, index): offset for index, offset in offsets.items()}
            commit_offsets(self.client, self.group_id, named, self.member_id, self.generation_id)
            self._committed.update(offsets)

    def _heartbeat(self, connection: Connection) -> None:
        request = HeartbeatRequest(group_id=self.group_id, generation_id=self.generation_id, member_id=self.member_id)
        response = connection.request(request, HeartbeatResponse)
        check(response.error_code, None, f"group {self.group_id} does not want us any more")

    # ---- leaving

    def leave(self) -> None:
        if not self.member_id:
            return
        for step in (self._take_new_connection, self._commit, self._say_goodbye):
            try:
                step()
            except (KafkaError, Failure):
                pass
        self.member_id = ""

    def _take_new_connection(self) -> None:
        self.client.forget(self.client.coordinator(self.group_id))

    def _say_goodbye(self) -> None:
        from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

        request = LeaveGroupRequest(
            group_id=self.group_id, member_id=self.member_id, members=[MemberIdentity(member_id=self.member_id)]
        )
        self.client.on_coordinator(self.group_id, lambda connection: connection.request(request, LeaveGroupResponse))


def range_shares(topics: Mapping[str, Iterable[str]], num_partitions: Mapping[str, int]) -> dict[str, dict[str, range]]:
    """Assigns as Kafka's range assignor: each topic's subscribers get runs of partitions in order, the first ones
    longer."""
    shares: dict[str, dict[str, range]] = {member_id: {} for member_id in topics}
    for topic in sorted(num_partitions):
        subscribers = sorted(member_id for member_id, names in topics.items() if topic in names)
        size, longer = divmod(num_partitions[topic], len(subscribers))
        start = 0
        for number, member_id in enumerate(subscribers):
            end = start + size + (number < longer)
            if end > start:
                shares[member_id][topic] = range(start, end)
            start = end
    return shares
