"""Error responses to members of a classic group."""

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.join_group import JoinGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupResponse

UNKNOWN_MEMBER_ID = ""


def join_error(error_code: ErrorCode, member_id: str = UNKNOWN_MEMBER_ID) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error_code, protocol_name=None, leader="", member_id=member_id, members=())


def sync_error(error_code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error_code, assignment=b"")
