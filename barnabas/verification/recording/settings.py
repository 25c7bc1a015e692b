"""What a run does, and how its clients reach the cluster."""

from typing import Any

from barnabas.options import Failure
from barnabas.protocol.named_tuple import NamedTuple


class CannotVerify(Failure):
    """There is nothing to judge: no broker answers, or what was asked for cannot be done."""

    exit_code = 2


class Load(NamedTuple):
    seconds: float
    phases: int
    between: str | None
    producers: int
    rate: float
    """Records a second, of all producers together."""
    record_bytes: int
    groups: int
    consumers: int
    """Members of each group."""
    readers: int


class Sending(NamedTuple):
    acks: str
    is_idempotent: bool
    is_transactional: bool
    compression: str


class TopicChoice(NamedTuple):
    name: str | None
    """None for a topic of the run's own."""
    partitions: int
    replication_factor: int | None
    is_kept: bool


class Settings(NamedTuple):
    bootstrap_servers: str
    properties: dict[str, str]
    """Those of librdkafka, for all clients."""
    topic: TopicChoice
    load: Load
    sending: Sending
    timeout_s: float
    """How long the cluster may be silent before that is a finding."""

    def client_properties(self, **others: Any) -> dict[str, Any]:
        """Returns the properties of a client: its own, and over them the user's."""
        own = {name.replace("_", "."): value for name, value in others.items()}
        return {"bootstrap.servers": self.bootstrap_servers, "log_level": 2, **own, **self.properties}
