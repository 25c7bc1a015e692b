"""This broker's configuration as it is now: what it was started with, and what was altered while it ran (KIP-226).

A part of the broker that keeps a copy of something in it subscribes. The metadata come in at one end, the changes go
out at the other, and configuration is handed on in no other way. What stands in the metadata ends no broker: it was
judged when it was altered, and something else may have been in force then.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from barnabas.base.environment import Report
from barnabas.broker.config.broker_config import BrokerConfig, BrokerProperties
from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.errors import InvalidConfig
from barnabas.replication.metadata.image import ImageChanges, MetadataImage
from barnabas.storage.log_config import LogConfig

if TYPE_CHECKING:
    from barnabas.broker.config.describe import ConfigDescriber

OnChange = Callable[[BrokerConfig], None]


class DynamicConfig:
    def __init__(self, static: Mapping[str, str], report: Report) -> None:
        """Raises InvalidConfig."""
        self._properties = BrokerProperties(static)
        self._report = report
        self._image: MetadataImage | None = None
        self._describer: ConfigDescriber | None = None
        self._subscribers: list[OnChange] = []
        self.current: BrokerConfig = self._properties.effective()

    @property
    def describer(self) -> "ConfigDescriber":
        if self._describer is None:
            from barnabas.broker.config.describe import ConfigDescriber  # a start needs no descriptions

            self._describer = ConfigDescriber(self._properties)
        return self._describer

    def subscribe(self, on_change: OnChange) -> None:
        """Calls `on_change` with the whole configuration each time that something in it changes."""
        self._subscribers.append(on_change)

    def log_config(self, topic: str) -> LogConfig:
        """Returns the configuration of a topic's logs. Before the metadata are there, only the defaults are known: by
        these nothing is deleted, because the topic may want to keep it."""
        defaults = self.current.log_defaults
        if self._image is None:
            return defaults.with_overrides({"retention.bytes": "-1", "retention.ms": "-1"})
        return defaults.with_stored(self._image.config(ResourceType.TOPIC, topic))

    def load(self, image: MetadataImage) -> None:
        """Takes over the metadata that a start finds."""
        self._image = image
        self._reload(image)

    def on_metadata(self, image: MetadataImage, changes: ImageChanges) -> None:
        self._image = image
        own = (ResourceType.BROKER, ""), (ResourceType.BROKER, str(self.current.node_id))
        if any(resource in own for resource in changes.configs):
            before = self.current
            self._reload(image)
            keys = sorted(name for name in self.current.KEYS if self.current.as_text(name) != before.as_text(name))
            if keys:
                self._report.info(f"this broker's configuration changed: {', '.join(keys)}", keys=keys)

    def _reload(self, image: MetadataImage) -> None:
        cluster = image.config(ResourceType.BROKER, "")
        node = image.config(ResourceType.BROKER, str(self.current.node_id))
        self._properties = self._usable(self._properties._replace(cluster=cluster, node=node))
        self._describer = None
        self.current = self._properties.effective()
        for on_change in self._subscribers:
            on_change(self.current)

    def _usable(self, properties: BrokerProperties) -> BrokerProperties:
        """Leaves out what this broker cannot be configured with. The metadata hold it all the same: another broker may
        have judged it, which was started with other properties, or a controller that does not look at values."""
        try:
            properties.effective()
        except InvalidConfig as error:
            usable = properties.usable()
            left_out = sorted((properties.cluster.keys() - usable.cluster) | (properties.node.keys() - usable.node))
            self._report.error(
                f"configuration that this broker cannot have is left out ({', '.join(left_out)}): {error.message}",
                keys=left_out,
            )
            return usable
        return properties
