"""SyncGroup: the leader hands in the assignment of every member, and each member fetches its own.

Nobody learns of an assignment before it is stored. If it cannot be stored, nobody owns anything and all join again.
"""

from barnabas.base.promise import Promise
from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.groups.classic.group import ClassicGroup
from barnabas.broker.groups.classic.rebalance import ClassicRebalance
from barnabas.broker.groups.classic.records import group_metadata_record
from barnabas.broker.groups.classic.state import COMPLETING_REBALANCE, PREPARING_REBALANCE, STABLE
from barnabas.protocol.errors import (
    ErrorCode,
    IllegalGeneration,
    InconsistentGroupProtocol,
    KafkaError,
    RebalanceInProgress,
)
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

Synced = Decision[SyncGroupResponse]


class ClassicSync:
    def __init__(self, rebalance: ClassicRebalance) -> None:
        self._rebalance = rebalance

    def sync(self, group: ClassicGroup, request: SyncGroupRequest) -> Synced:
        member = group.check_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation_id:
            raise IllegalGeneration(f"{group.group_id} has generation {group.generation_id}")
        if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol_name):
            raise InconsistentGroupProtocol(f"{group.group_id} is of {group.protocol_type}: {group.protocol_name}")
        if group.state is PREPARING_REBALANCE:
            raise RebalanceInProgress(f"the members of {group.group_id} join again")
        self._rebalance.received_sync(group, member.member_id)
        if group.state is STABLE:
            return Decision(
                (),
                SyncGroupResponse(
                    error_code=ErrorCode.NONE,
                    protocol_type=group.protocol_type,
                    protocol_name=group.protocol_name,
                    assignment=member.assignment,
                ),
            )
        promise: Promise[SyncGroupResponse] = Promise()
        group.await_sync(member, promise)
        if not group.is_leader(member.member_id) or group.is_storing_assignment:
            return Decision((), promise)
        return self._store(group, request, promise)

    def _store(self, group: ClassicGroup, request: SyncGroupRequest, promise: Promise[SyncGroupResponse]) -> Synced:
        """Stores the assignment, then answers. A leader that syncs again meanwhile waits with the others: two
        assignments of one generation could be stored in one order and answered in the other."""
        given = {assignment.member_id: assignment.assignment for assignment in request.assignments}
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
        group.is_storing_assignment = True

        def on_committed(error: KafkaError | None) -> None:
            if group.state is not COMPLETING_REBALANCE or group.generation_id != request.generation_id:
                return  # somebody joined or left meanwhile: everybody has to join again
            if error is not None:
                self._rebalance.propagate_error(group, error.code)
                self._rebalance.prepare(group, f"the assignment could not be stored: {error}")
                return
            for member in group.members.values():
                member.assignment = assignments[member.member_id]
            group.transition_to(STABLE)
            self._rebalance.propagate_assignment(group)
            self._rebalance.report_end(group)

        record = group_metadata_record(group, assignments)
        return Decision([record], promise, on_committed=on_committed, is_replayed=False)


def _differs(name: str | None, expected: str | None) -> bool:
    return name is not None and expected is not None and name != expected
