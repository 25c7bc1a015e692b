"""Checks of what a member of a consumer group may ask for, and the errors where it may not."""

from collections.abc import Sequence

from barnabas.broker.groups.assignors import Partitions
from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.broker.groups.consumer.member import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    ConsumerMember,
)
from barnabas.protocol.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupMaxSizeReached,
    InvalidRequest,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedAssignor,
)
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

_MEMBER_ID_BY_CLIENT_SINCE = 1
_BLANKS = "".join(map(chr, range(ord(" ") + 1)))  # what Java trims


def check_request(request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: Sequence[str]) -> None:
    epoch = request.member_epoch
    is_named = api_version >= _MEMBER_ID_BY_CLIENT_SINCE or epoch > 0 or epoch == LEAVE_GROUP_MEMBER_EPOCH
    if is_named and _is_blank(request.member_id):
        raise InvalidRequest("the member id is empty")
    if _is_blank(request.group_id):
        raise InvalidRequest("the group id is empty")
    if request.instance_id is not None and _is_blank(request.instance_id):
        raise InvalidRequest("the instance id is empty")
    if request.rack_id is not None and _is_blank(request.rack_id):
        raise InvalidRequest("the rack id is empty")
    if epoch == JOIN_GROUP_MEMBER_EPOCH:
        _check_first_request(request)
    elif epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH and request.instance_id is None:
        raise InvalidRequest("only a static member, which has an instance id, leaves for a while")
    elif epoch < LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        raise InvalidRequest(f"{epoch} is no member epoch")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise UnsupportedAssignor(f"no assignor is called {request.server_assignor}; there are {', '.join(assignors)}")


def _is_blank(text: str) -> bool:
    return not text.strip(_BLANKS)


def _check_first_request(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise InvalidRequest("a member joins with its rebalance timeout")
    if request.topic_partitions is None or request.topic_partitions:
        raise InvalidRequest("a member joins with an empty list of partitions")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise InvalidRequest("a member joins with a subscription: names of topics or a regular expression")


def check_member_epoch(member: ConsumerMember, epoch: int, owned: Partitions | None) -> None:
    """Raises FencedMemberEpoch unless the epoch is the current one. The epoch before is accepted, too, if all that the
    member owns is assigned to it: the answer with the current epoch may have been lost."""
    if epoch in (JOIN_GROUP_MEMBER_EPOCH, member.member_epoch):
        return
    if epoch < member.member_epoch and epoch == member.previous_member_epoch and _has(member, owned):
        return
    text = f"member {member.member_id} comes with epoch {epoch}, its epoch is {member.member_epoch}"
    raise FencedMemberEpoch(f"{text}: give up every partition and join again")


def _has(member: ConsumerMember, owned: Partitions | None) -> bool:
    if owned is None:
        return False
    assigned = member.assigned_partitions
    return all(topic_id in assigned and numbers <= assigned[topic_id].keys() for topic_id, numbers in owned.items())


def check_released(member: ConsumerMember, instance_id: str) -> None:
    if member.member_epoch != LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        raise UnreleasedInstanceId(f"instance {instance_id} is in use by member {member.member_id}")


def check_static_member(member: ConsumerMember | None, member_id: str, instance_id: str) -> ConsumerMember:
    if member is None:
        raise UnknownMemberId(f"no member has the instance id {instance_id}")
    if member.member_id != member_id:
        raise FencedInstanceId(f"instance {instance_id} is member {member.member_id} now, not {member_id}")
    return member


def check_size(group: ConsumerGroup, member_id: str, limit: int) -> None:
    """Raises GroupMaxSizeReached if a new member finds no room."""
    if len(group.members) >= limit and not group.has_member(member_id):
        raise GroupMaxSizeReached(f"group {group.group_id} has {len(group.members)} members, and may have {limit}")


def owned_partitions(topics: Sequence[TopicPartitions] | None) -> Partitions | None:
    if topics is None:
        return None
    owned: dict[bytes, frozenset[int]] = {}
    for topic in topics:
        owned[topic.topic_id] = owned.get(topic.topic_id, frozenset()) | frozenset(topic.partitions)
    return owned
