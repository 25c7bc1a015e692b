"""The coordinators of one broker: of groups, and of transactions.

Each is created, and its modules are imported, when a client first asks for it, or when what it coordinates is found
here: a broker without groups or transactions knows nothing of them.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.base.environment import Environment
from barnabas.broker.config.dynamic_config import DynamicConfig
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.replication.metadata.image import (
    GROUP_METADATA_TOPIC,
    TRANSACTION_STATE_TOPIC,
    ImageChanges,
    MetadataImage,
    TopicImage,
)

if TYPE_CHECKING:
    from barnabas.broker.groups.coordinator import GroupCoordinator
    from barnabas.broker.producer_ids import ProducerIds
    from barnabas.broker.transactions.brokers import Brokers
    from barnabas.broker.transactions.coordinator import TransactionCoordinator
    from barnabas.broker.transactions.traffic import TransactionTraffic


class Coordinators:
    def __init__(
        self,
        replicas: ReplicaManager,
        environment: Environment,
        configuration: DynamicConfig,
        image: Callable[[], MetadataImage],
        producer_ids: "Callable[[], ProducerIds]",
        brokers: "Callable[[], Brokers]",
    ) -> None:
        self._replicas = replicas
        self._environment = environment
        self._configuration = configuration
        self._image = image
        self._producer_ids = producer_ids
        self._brokers = brokers
        self._groups: GroupCoordinator | None = None
        self._transactions: TransactionCoordinator | None = None
        self._traffic: TransactionTraffic | None = None

    @property
    def groups(self) -> "GroupCoordinator":
        if self._groups is None:
            from barnabas.broker.groups.coordinator import GroupCoordinator

            self._groups = GroupCoordinator(
                replicas=self._replicas,
                environment=self._environment,
                config=lambda: self._configuration.current,
                image=self._image,
            )
        return self._groups

    @property
    def transactions(self) -> "TransactionCoordinator":
        if self._transactions is None:
            from barnabas.broker.transactions.coordinator import TransactionCoordinator

            self._transactions = TransactionCoordinator(
                replicas=self._replicas,
                environment=self._environment,
                configuration=self._configuration,
                image=self._image,
                producer_ids=self._producer_ids(),
                markers=self.traffic.markers,
            )
        return self._transactions

    @property
    def traffic(self) -> "TransactionTraffic":
        if self._traffic is None:
            from barnabas.broker.transactions.traffic import TransactionTraffic

            self._traffic = TransactionTraffic(
                self._brokers(),
                self._replicas,
                self._environment.report,
                config=lambda: self._configuration.current,
                groups=lambda: self.groups,
                coordinator=lambda: self.transactions,
            )
        return self._traffic

    def start(self) -> None:
        """Loads the groups and transactions that are stored here: sessions and transactions go on, or end."""
        image = self._image()
        if image.topic(GROUP_METADATA_TOPIC) is not None:
            self.groups.start()
        if image.topic(TRANSACTION_STATE_TOPIC) is not None:
            self.transactions.start()

    def stop(self) -> None:
        """Answers everybody who waits for a coordinator."""
        if self._groups is not None:
            self._groups.stop()
        if self._transactions is not None:
            self._transactions.stop()
        self.close()

    def close(self) -> None:
        """Gives up connections to other brokers; a second call does nothing."""
        if self._traffic is not None:
            self._traffic.close()

    def apply(self, changes: ImageChanges) -> None:
        """Follows a committed image."""
        if self._groups is not None or self._gains(GROUP_METADATA_TOPIC, changes):
            self.groups.apply(changes)
        if self._transactions is not None or self._gains(TRANSACTION_STATE_TOPIC, changes):
            self.transactions.apply(changes)
        if self._traffic is not None:
            self._traffic.apply(changes)

    def _gains(self, topic: str, changes: ImageChanges) -> bool:
        """Returns whether what another broker has coordinated is coordinated here from now on: it does not wait to be
        asked for, because sessions and transactions may have to end."""
        return any(
            after is not None and after.name == topic and self._leads_any(after) for _, after in changes.changed_topics
        )

    def _leads_any(self, topic: TopicImage) -> bool:
        node_id = self._configuration.current.node_id
        return any(partition.leader == node_id for partition in topic.partitions)
