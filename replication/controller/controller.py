"""The controller's decisions: a request and an image in, records and a response out.

No record is written here, and nothing is waited for. The image must include every record appended so far, committed or
not, or two requests could both create one topic. `DECISIONS` says which function decides on which request.
The sessions of the brokers are all that a decision changes: they are in no record, and only the active controller has
them. They begin when it becomes active, and are cleared when it no longer is.
"""

from collections.abc import Callable, Mapping
from typing import Any

from barnabas.base.environment import Random
from barnabas.protocol.api_keys import ApiKey
from barnabas.replication.controller.broker_sessions import BrokerSessions
from barnabas.replication.controller.channel import ControllerRequestContext
from barnabas.replication.controller.decision import Decision
from barnabas.replication.controller.settings import ControllerSettings, Deciding
from barnabas.replication.metadata.image import MetadataImage

Decide = Callable[[Any, MetadataImage, Deciding], Decision[Any]]


class Controller:
    __slots__ = ("_random", "sessions", "settings")

    def __init__(self, settings: ControllerSettings, random: Random) -> None:
        self.settings = settings
        self.sessions = BrokerSessions(settings.broker_session_timeout_ms)
        self._random = random

    def decide(
        self, request: Any, context: ControllerRequestContext, image: MetadataImage, *, now_ms: int
    ) -> Decision[Any]:
        """Raises KafkaError if the request is refused as a whole. `now_ms` is monotonic."""
        deciding = Deciding(self.settings, self._random, context, self.sessions, now_ms)
        return DECISIONS[request.__api_key__](request, image, deciding)

    def next_fencing(self, image: MetadataImage, *, now_ms: int) -> Decision[None] | None:
        """Returns the records that fence one broker whose session has ended; None if there is no such broker.

        It is one at a time so that the next sees the effect: call this again, with the image after these records, until
        it returns None. If the records cannot be written, the same broker's turn comes again a little later."""
        for broker_id in self.sessions.expired(now_ms=now_ms):
            broker = image.brokers.get(broker_id)
            if broker is None or broker.fenced:
                self.sessions.forget(broker_id)
            elif self.sessions.attempt_fencing(broker_id, now_ms=now_ms):
                from barnabas.replication.controller.brokers.fencing import fence_records  # most brokers stay alive

                return Decision(fence_records(broker_id, image, self.settings), None)
        return None


def _imported(module: str, function: str) -> Decide:
    """Returns a function that is imported when it is first called: a start needs few."""

    def decide(request: Any, image: MetadataImage, deciding: Deciding) -> Decision[Any]:
        found = __import__(f"{__package__}.{module}", fromlist=[function])
        decision: Decision[Any] = getattr(found, function)(request, image, deciding)
        return decision

    return decide


DECISIONS: Mapping[int, Decide] = {
    ApiKey.ALLOCATE_PRODUCER_IDS: _imported("producer_id_control", "allocate_producer_ids"),
    ApiKey.ALTER_CONFIGS: _imported("configuration_control", "alter_configs"),
    ApiKey.ALTER_PARTITION: _imported("partitions.alter_partition_control", "alter_partition"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _imported("partitions.reassignment_control", "alter_partition_reassignments"),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: _imported("brokers.log_dir_control", "assign_replicas_to_dirs"),
    ApiKey.BROKER_HEARTBEAT: _imported("brokers.heartbeat_control", "broker_heartbeat"),
    ApiKey.BROKER_REGISTRATION: _imported("brokers.registration_control", "register_broker"),
    ApiKey.CONTROLLER_REGISTRATION: _imported("brokers.membership_control", "register_controller"),
    ApiKey.CREATE_PARTITIONS: _imported("topic_control", "create_partitions"),
    ApiKey.CREATE_TOPICS: _imported("topic_control", "create_topics"),
    ApiKey.DELETE_TOPICS: _imported("topic_control", "delete_topics"),
    ApiKey.ELECT_LEADERS: _imported("partitions.leader_control", "elect_leaders"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _imported("configuration_control", "alter_configs"),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _imported("partitions.reassignment_control", "list_partition_reassignments"),
    ApiKey.UNREGISTER_BROKER: _imported("brokers.membership_control", "unregister_broker"),
    ApiKey.UPDATE_FEATURES: _imported("feature_control", "update_features"),
}
