"""What the state machines of a coordinator share."""

from binascii import b2a_base64
from collections.abc import Callable
from typing import Protocol

from barnabas.broker.client_info import ClientInfo as ClientInfo
from barnabas.broker.config import BrokerConfig
from barnabas.broker.groups.group import Group
from barnabas.broker.groups.timers import Timers
from barnabas.replication.image import MetadataImage
from barnabas.storage.seams import Report

_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class Random(Protocol):
    def randbytes(self, n: int, /) -> bytes: ...


class GroupContext:
    """One for each shard. `groups` holds the groups of that shard by id, whatever their kind."""

    __slots__ = ("config", "groups", "image", "now_ms", "random", "report", "timers")

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
        """`config` and `image` are asked each time: both change while the broker runs."""
        self.groups: dict[str, Group] = {}
        self.timers = timers
        self.now_ms = now_ms
        self.random = random
        self.report = report
        self.config = config
        self.image = image

    def new_uuid(self) -> str:
        """A random (version 4) UUID in the usual notation: importing `uuid` costs the start more than this."""
        text = self._random_uuid().hex()
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def new_member_id(self) -> str:
        """For a member of a consumer group that brought none: a UUID in Kafka's notation, never with a dash first."""
        while (text := b2a_base64(self._random_uuid())[:22].translate(_URL_SAFE)).startswith(b"-"):
            pass
        return text.decode()

    def _random_uuid(self) -> bytearray:
        raw = bytearray(self.random.randbytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        return raw
