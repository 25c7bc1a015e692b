"""What an administrator asks of the coordinators of groups: which there are, and who is in them.

Rules:
- A group is asked for at its coordinator; a list of groups is the sum of what every broker lists.
- ConsumerGroupDescribe knows the groups of the consumer protocol (KIP-848) and DescribeGroups the classic ones. A group
  does not say which it is, so the first is tried before the second, as Kafka's own tools do.
"""

from collections.abc import Iterable
from typing import Any

from barnabas.base.network import Address
from barnabas.client.client import Client
from barnabas.client.connection import Connection
from barnabas.client.errors import COORDINATOR_MOVED, check
from barnabas.protocol.errors import ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import TopicPartition

CLASSIC, CONSUMER = "classic", "consumer"


class ListedGroup(NamedTuple):
    group_id: str
    type: str
    """`classic`, `consumer`, `share` or `streams`; empty where a broker is too old to say."""
    state: str
    protocol_type: str


class Member(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None
    """None in a classic group, whose generation only its members know."""
    topics: tuple[str, ...]
    topic_regex: str | None
    assignment: tuple[TopicPartition, ...] | None
    """None where it cannot be read: protocols other than that of consumers have formats of their own."""
    target: tuple[TopicPartition, ...] | None
    """The partitions that a member of the consumer protocol is moving to."""

    def __str__(self) -> str:
        return f"{self.client_id or self.member_id} ({self.host})"


class Group(NamedTuple):
    group_id: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    epoch: int | None
    assignment_epoch: int | None
    coordinator_id: int
    coordinator: Address
    members: tuple[Member, ...]


class NoSuchGroup(KafkaError):
    code = ErrorCode.GROUP_ID_NOT_FOUND


def no_such_group(client: Client, group_id: str) -> NoSuchGroup:
    """Says what may have been meant."""
    from barnabas.options import nearest

    known = {group.group_id: group for group in list_groups(client)}
    if group_id in known:
        kind = known[group_id].type or "different"
        return NoSuchGroup(f"group {group_id} is a {kind} group, not a classic or a consumer group")
    return NoSuchGroup(f"group {group_id} does not exist{nearest(group_id, known)}")


# ---- groups


def list_groups(client: Client) -> list[ListedGroup]:
    """Returns all groups, sorted by name."""
    from barnabas.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

    def ask_all() -> list[ListedGroup]:
        groups = []
        for node_id in client.metadata(()).brokers:
            response = client.node(node_id).request(ListGroupsRequest(), ListGroupsResponse)
            check(response.error_code, None, f"the groups of broker {node_id} cannot be listed")
            groups += [
                ListedGroup(group.group_id, group.group_type.lower(), group.group_state, group.protocol_type)
                for group in response.groups
            ]
        return sorted(groups)

    return client.retry(ask_all, COORDINATOR_MOVED)


def describe_group(client: Client, group_id: str) -> Group:
    if (group := find_group(client, group_id)) is None:
        raise no_such_group(client, group_id)
    return group


def find_group(client: Client, group_id: str) -> Group | None:
    """Returns the group, or None if there is none, or one of another kind."""

    def ask(connection: Connection) -> Group | None:
        node_id = client.coordinator(group_id)
        return _described_consumer(connection, node_id, group_id) or _described_classic(connection, node_id, group_id)

    return client.on_coordinator(group_id, ask)


def _described_consumer(connection: Connection, node_id: int, group_id: str) -> Group | None:
    from barnabas.protocol.messages.consumer_group_describe import (
        ConsumerGroupDescribeRequest,
        ConsumerGroupDescribeResponse,
    )

    if ConsumerGroupDescribeRequest.__api_key__ not in connection.versions:  # type: ignore[attr-defined]
        return None
    request = ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False)
    (group,) = connection.request(request, ConsumerGroupDescribeResponse).groups
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    check(group.error_code, group.error_message, f"group {group_id} cannot be described")
    return Group(
        group_id=group_id,
        type=CONSUMER,
        state=group.group_state,
        protocol_type=CONSUMER,
        assignor=group.assignor_name,
        epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        coordinator_id=node_id,
        coordinator=connection.address,
        members=tuple(sorted((_consumer_member(member) for member in group.members), key=_by_client)),
    )


def _consumer_member(member: Any) -> Member:
    def partitions(assignment: Any) -> tuple[TopicPartition, ...]:
        return _flat((each.topic_name, each.partitions) for each in assignment.topic_partitions)

    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=_host(member.client_host),
        epoch=member.member_epoch,
        topics=tuple(sorted(member.subscribed_topic_names)),
        topic_regex=member.subscribed_topic_regex or None,
        assignment=partitions(member.assignment),
        target=partitions(member.target_assignment),
    )


def _described_classic(connection: Connection, node_id: int, group_id: str) -> Group | None:
    from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse

    request = DescribeGroupsRequest(groups=[group_id], include_authorized_operations=False)
    (group,) = connection.request(request, DescribeGroupsResponse).groups
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND or group.group_state == "Dead":  # the latter before version 6
        return None
    check(group.error_code, group.error_message, f"group {group_id} cannot be described")
    return Group(
        group_id=group_id,
        type=CLASSIC,
        state=group.group_state,
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        epoch=None,
        assignment_epoch=None,
        coordinator_id=node_id,
        coordinator=connection.address,
        members=tuple(
            sorted((_classic_member(member, group.protocol_type) for member in group.members), key=_by_client)
        ),
    )


def _classic_member(member: Any, protocol_type: str) -> Member:
    topics, assignment = _consumer_protocol(member) if protocol_type == CONSUMER else ((), None)
    return Member(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=_host(member.client_host),
        epoch=None,
        topics=topics,
        topic_regex=None,
        assignment=assignment,
        target=None,
    )


def _consumer_protocol(member: Any) -> tuple[tuple[str, ...], tuple[TopicPartition, ...] | None]:
    """Returns topics and assignment. Both are empty while a group rebalances: the coordinator gives neither then."""
    from barnabas.protocol.stored.consumer_protocol import decode_assignment, decode_subscription

    try:
        topics = decode_subscription(bytes(member.member_metadata)).topics if member.member_metadata else ()
        assigned = (
            decode_assignment(bytes(member.member_assignment)).assigned_partitions if member.member_assignment else ()
        )
    except ProtocolError:
        return (), None
    return tuple(sorted(topics)), _flat((each.topic, each.partitions) for each in assigned)


def _flat(topics: Iterable[tuple[str, Iterable[int]]]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(TopicPartition(topic, index) for topic, partitions in topics for index in partitions))


def _host(host: str) -> str:
    """Returns the host without the slash with which Java writes an address that it did not look up."""
    return host.rpartition("/")[2]


def _by_client(member: Member) -> tuple[str, str]:
    return member.client_id, member.member_id


def delete_group(client: Client, group_id: str) -> None:
    from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse

    def ask(connection: Connection) -> ErrorCode:
        (result,) = connection.request(DeleteGroupsRequest(groups_names=[group_id]), DeleteGroupsResponse).results
        return unless_moved(result.error_code, group_id)

    refuse(client, client.on_coordinator(group_id, ask), f"group {group_id} was not deleted", group_id)


def unless_moved(error_code: int, group_id: str) -> ErrorCode:
    """Returns the error, or raises it if the coordinator has moved and must be looked for again."""
    if (error := ErrorCode(error_code)) in COORDINATOR_MOVED:
        raise KafkaError(f"the coordinator of group {group_id} moved", error)
    return error


def refuse(client: Client, error: ErrorCode, about: str, group_id: str) -> None:
    """Raises the reason and names the members that are in the way, if there are any."""
    if error is ErrorCode.GROUP_ID_NOT_FOUND:
        raise no_such_group(client, group_id)
    if error in (ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC):
        raise KafkaError(f"{about}: {in_use(describe_group(client, group_id))}", error)
    check(error, None, about)


def in_use(group: Group, shown_max: int = 3) -> str:
    """Returns why a group is in use: the names of its members, or its state."""
    from barnabas.output import plural

    names = [str(member) for member in group.members[:shown_max]]
    more = len(group.members) - len(names)
    who = ", ".join(names) + (f" and {more} more" if more else "")
    return f"it has {plural(len(group.members), 'member')}, {who}" if names else f"it is {group.state}"
