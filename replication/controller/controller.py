"""The controller's decisions: a request and an image in, records and a response out.

Nothing is changed here, and nothing is waited for. The image must include every record appended so far, committed or
not, or two requests could both create one topic. `DECISIONS` says which function decides on which request.
"""

from collections.abc import Callable, Mapping
from typing import Any

from barnabas.base.environment import Random
from barnabas.protocol.api_keys import ApiKey
from barnabas.replication.controller import cluster_control
from barnabas.replication.controller.channel import ControllerRequestContext
from barnabas.replication.controller.decision import Decision
from barnabas.replication.controller.settings import ControllerSettings, Deciding
from barnabas.replication.metadata.image import MetadataImage

Decide = Callable[[Any, MetadataImage, Deciding], Decision[Any]]


class Controller:
    __slots__ = ("_random", "settings")

    def __init__(self, settings: ControllerSettings, random: Random) -> None:
        self.settings = settings
        self._random = random

    def decide(self, request: Any, context: ControllerRequestContext, image: MetadataImage) -> Decision[Any]:
        """Raises KafkaError if the request is refused as a whole."""
        return DECISIONS[request.__api_key__](request, image, Deciding(self.settings, self._random, context))


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
    ApiKey.BROKER_HEARTBEAT: lambda request, image, _: cluster_control.broker_heartbeat(request, image),
    ApiKey.BROKER_REGISTRATION: lambda request, image, _: cluster_control.register_broker(request, image),
    ApiKey.CREATE_PARTITIONS: _imported("topic_control", "create_partitions"),
    ApiKey.CREATE_TOPICS: _imported("topic_control", "create_topics"),
    ApiKey.DELETE_TOPICS: _imported("topic_control", "delete_topics"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _imported("configuration_control", "alter_configs"),
}
