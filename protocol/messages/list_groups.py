"""ListGroups: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, int16, int32, message, string, struct


@message(api_key=16, versions=range(0, 6), flexible_since=3)
class ListGroupsRequest:
    states_filter: Sequence[str] = array(string, since=4, default=())
    types_filter: Sequence[str] = array(string, since=5, default=())


@struct
class ListedGroup:
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string(since=4, default="")
    group_type: str = string(since=5, default="")


@message(api_key=16, versions=range(0, 6), flexible_since=3)
class ListGroupsResponse:
    throttle_time_ms: int = int32(since=1, default=0)
    error_code: int = int16()
    groups: Sequence[ListedGroup] = array(ListedGroup)
