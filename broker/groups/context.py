"""What the parts of a group shard share."""

from collections.abc import Callable
from typing import TypeVar

from barnabas.base.environment import Random, Report
from barnabas.base.uuids import random_uuid
from barnabas.broker.client_info import ClientInfo as ClientInfo
from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.coordinator.definition import Timers
from barnabas.broker.groups.group import Group
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import uuid_text
from barnabas.replication.metadata.image import MetadataImage

G = TypeVar("G")


class TimerKey(NamedTuple):
    kind: str
    group_id: str
    member_id: str = ""


class GroupContext:
    """One for each shard. `groups` holds the groups of that shard by id, whatever their kind."""

    __slots__ = ("config", "groups", "image", "now_ms", "random", "report", "timers", "topics_came_at")

    def __init__(
        self,
        *,
        timers: Timers,
        now_ms: Callable[[], int],
        random: Random,
        report: Report,
        config: Callable[[], BrokerConfig],
        image: Callable[[], MetadataImage],
    ) -> None:
        """Takes `config` and `image`, which are called each time: both change while the broker runs."""
        self.groups: dict[str, Group] = {}
        self.timers = timers
        self.now_ms = now_ms
        self.random = random
        self.report = report
        self.config = config
        self.image = image
        self.topics_came_at = 0
        """The offset of the metadata by which all topics were there: what was resolved before it may lack one."""

    def find(self, group_id: str, kind: type[G]) -> G | None:
        """Returns the group if it exists and is of this kind."""
        group = self.groups.get(group_id)
        return group if isinstance(group, kind) else None

    def groups_of(self, kind: type[G]) -> list[G]:
        return [group for group in self.groups.values() if isinstance(group, kind)]

    def new_uuid(self) -> str:
        """Returns a random UUID in the usual notation."""
        text = random_uuid(self.random).hex()
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def new_member_id(self) -> str:
        """Returns an id for a member of a consumer group that brought none: a UUID in Kafka's notation."""
        return uuid_text(random_uuid(self.random))
