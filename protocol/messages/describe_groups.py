"""DescribeGroups: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, blob, boolean, int16, int32, message, string, struct


@message(api_key=15, versions=range(0, 7), flexible_since=5)
class DescribeGroupsRequest:
    groups: Sequence[str] = array(string)
    include_authorized_operations: bool = boolean(since=3, default=False)


@struct
class DescribedGroupMember:
    member_id: str = string()
    group_instance_id: str | None = string(since=4, nullable=True, default=None)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = blob()
    member_assignment: bytes = blob()


@struct
class DescribedGroup:
    error_code: int = int16()
    error_message: str | None = string(since=6, nullable=True, default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: Sequence[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32(since=3, default=-2147483648)


@message(api_key=15, versions=range(0, 7), flexible_since=5)
class DescribeGroupsResponse:
    throttle_time_ms: int = int32(since=1, default=0)
    groups: Sequence[DescribedGroup] = array(DescribedGroup)
