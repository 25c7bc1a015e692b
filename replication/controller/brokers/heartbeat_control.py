"""Decides on heartbeats: what state a broker is in next, and which records bring it there.

| it is | and asks for | it becomes |
|---|---|---|
| fenced | shutdown | shut down now |
| fenced | no fence, and has replayed its registration | unfenced |
| unfenced | fence | fenced |
| unfenced | fence and shutdown | shut down now |
| unfenced | shutdown, and leads partitions | in controlled shutdown |
| unfenced | shutdown, and leads nothing | shut down now |
| in controlled shutdown | whatever, leads nothing, and every active broker knows that | shut down now |

In all other cases it stays what it is. A broker that is shut down now is fenced, and its session ends: its next
incarnation need not wait for that. Whether a broker is in controlled shutdown is known to the controller that began it;
after another took over the broker is unfenced again, asks again, and has mostly nothing left to lead.

A log dir that has failed is taken from the broker first (`log_dir_control.py`), and what state the broker is in next is
decided as if that had happened before.
Not there: cordoned log dirs.
"""

from enum import Enum, auto

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord
from barnabas.replication.controller.broker_sessions import BrokerSessions
from barnabas.replication.controller.brokers.fencing import (
    controlled_shutdown_records,
    fence_records,
    leads_any,
    unfence_records,
)
from barnabas.replication.controller.cluster_control import check_broker_epoch
from barnabas.replication.controller.decision import Decision
from barnabas.replication.controller.settings import ControllerSettings, Deciding
from barnabas.replication.metadata.image import MetadataImage
from barnabas.replication.metadata.image_delta import replayed


class BrokerState(Enum):
    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()
    SHUTDOWN_NOW = auto()


def broker_heartbeat(
    request: BrokerHeartbeatRequest, image: MetadataImage, deciding: Deciding
) -> Decision[BrokerHeartbeatResponse]:
    check_broker_epoch(request.broker_id, request.broker_epoch, image)
    failed: list[MetadataRecord] = []
    if request.offline_log_dirs:
        from barnabas.replication.controller.brokers.log_dir_control import failed_records  # few ever fail

        failed = failed_records(request.broker_id, request.offline_log_dirs, image, deciding.settings)
        image = replayed(image, failed)
    current = _current_state(request.broker_id, image, deciding.sessions)
    state = _next_state(current, request, image, deciding.sessions)
    records = [*failed, *_records(current, state, request.broker_id, image, deciding.settings)]
    _note(state, request, image.end_offset + len(records) - 1, deciding)
    response = BrokerHeartbeatResponse(
        error_code=ErrorCode.NONE,
        is_caught_up=_is_caught_up(request),
        is_fenced=state in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW),
        should_shut_down=state is BrokerState.SHUTDOWN_NOW,
    )
    return Decision(records, response)


def _current_state(broker_id: int, image: MetadataImage, sessions: BrokerSessions) -> BrokerState:
    if image.brokers[broker_id].fenced:
        return BrokerState.FENCED
    if sessions.controlled_shutdown_offset(broker_id) is not None:
        return BrokerState.CONTROLLED_SHUTDOWN
    return BrokerState.UNFENCED


def _next_state(
    current: BrokerState, request: BrokerHeartbeatRequest, image: MetadataImage, sessions: BrokerSessions
) -> BrokerState:
    match current:
        case BrokerState.FENCED if request.want_shut_down:
            return BrokerState.SHUTDOWN_NOW
        case BrokerState.FENCED if not request.want_fence and _is_caught_up(request):
            return BrokerState.UNFENCED
        case BrokerState.UNFENCED if request.want_fence:
            return BrokerState.SHUTDOWN_NOW if request.want_shut_down else BrokerState.FENCED
        case BrokerState.UNFENCED if request.want_shut_down:
            leads = leads_any(request.broker_id, image)
            return BrokerState.CONTROLLED_SHUTDOWN if leads else BrokerState.SHUTDOWN_NOW
        case BrokerState.CONTROLLED_SHUTDOWN if _may_shut_down(request.broker_id, image, sessions):
            return BrokerState.SHUTDOWN_NOW
    return current


def _is_caught_up(request: BrokerHeartbeatRequest) -> bool:
    """Returns whether the broker has replayed its registration, whose offset is its epoch."""
    return request.current_metadata_offset >= request.broker_epoch


def _may_shut_down(broker_id: int, image: MetadataImage, sessions: BrokerSessions) -> bool:
    """Returns whether nobody will look for a leader at this broker: it leads nothing, and every active broker knows."""
    offset = sessions.controlled_shutdown_offset(broker_id)
    assert offset is not None, "it is in controlled shutdown"
    others = (broker.broker_id for broker in image.active_brokers if broker.broker_id != broker_id)
    return not leads_any(broker_id, image) and all(sessions.metadata_offset(other) >= offset for other in others)


def _records(
    current: BrokerState, state: BrokerState, broker_id: int, image: MetadataImage, settings: ControllerSettings
) -> list[MetadataRecord]:
    match state:
        case BrokerState.CONTROLLED_SHUTDOWN if leads_any(broker_id, image):
            return controlled_shutdown_records(broker_id, image, settings)
        case BrokerState.UNFENCED if current is BrokerState.FENCED:
            return unfence_records(broker_id, image, settings)
        case BrokerState.FENCED | BrokerState.SHUTDOWN_NOW:
            return fence_records(broker_id, image, settings)
    return []


def _note(state: BrokerState, request: BrokerHeartbeatRequest, last_offset: int, deciding: Deciding) -> None:
    """Keeps what the heartbeat says about its sender. `last_offset` is that of the records it led to."""
    sessions, broker_id = deciding.sessions, request.broker_id
    sessions.contact(broker_id, request.broker_epoch, request.current_metadata_offset, now_ms=deciding.now_ms)
    if state is BrokerState.CONTROLLED_SHUTDOWN:
        sessions.begin_controlled_shutdown(broker_id, last_offset)
    else:
        sessions.end_controlled_shutdown(broker_id)
    if state is BrokerState.SHUTDOWN_NOW:
        sessions.end(broker_id)
