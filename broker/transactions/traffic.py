"""What a broker does for transactions besides coordinating them: it verifies what is written in them, and ends them."""

from collections.abc import Callable

from barnabas.base.environment import Report
from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.broker.transactions.brokers import Brokers
from barnabas.broker.transactions.markers.sender import MarkerSender
from barnabas.broker.transactions.markers.writer import Groups, MarkerWriter
from barnabas.broker.transactions.verification import Coordinator, TransactionVerifier
from barnabas.broker.transactions.verified_appends import VerifiedAppends
from barnabas.replication.metadata.image import ImageChanges


class TransactionTraffic:
    def __init__(
        self,
        brokers: Brokers,
        replicas: ReplicaManager,
        report: Report,
        *,
        config: Callable[[], BrokerConfig],
        groups: Callable[[], Groups],
        coordinator: Callable[[], Coordinator],
    ) -> None:
        """Takes the coordinators of this broker, which may not be there so far."""
        self.verifier = TransactionVerifier(brokers, coordinator)
        self.appends = VerifiedAppends(self.verifier, brokers.clock, config)
        self.marker_writer = MarkerWriter(replicas, groups, brokers.clock)
        self.markers = MarkerSender(brokers, self.marker_writer, report)

    def apply(self, changes: ImageChanges) -> None:
        """Follows a committed image."""
        self.markers.apply(changes)

    def close(self) -> None:
        """Answers what waits for other brokers, and sends them nothing more."""
        self.verifier.close()
        self.markers.close()
