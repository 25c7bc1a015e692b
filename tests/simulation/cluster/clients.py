"""Producers, readers and members of groups in a cluster, which follow the leaders of their partitions."""

from barnabas.base.network import Address
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.simulation.clients.classic_member import ClassicMember
from tests.simulation.clients.client import check
from tests.simulation.clients.consumer_member import ConsumerMember
from tests.simulation.clients.members import Member
from tests.simulation.clients.producer import IdempotentProducer
from tests.simulation.clients.reader import Reader
from tests.simulation.clients.script import Script
from tests.simulation.cluster.routing import ClusterClient, LeaderLink


class ClusterProducer(IdempotentProducer, ClusterClient):
    """Asks any broker for its producer id, and then writes to the leader of its partition."""

    def link(self) -> LeaderLink:  # type: ignore[override]
        return LeaderLink(self, self.target)

    def _init_producer_id(self) -> Script[None]:
        while self._producer_id < 0:
            self._link = self.link_to(self.any_broker())  # any gives ids
            yield from self._try_init_producer_id()
            self._link.close()
        self._link = self.link()  # type: ignore[assignment]


class ClusterReader(Reader, ClusterClient):
    """Reads partitions that have one leader."""

    def link(self) -> LeaderLink:  # type: ignore[override]
        return LeaderLink(self, next(iter(self.oracle.partitions)))


class ClusterMember(Member, ClusterClient):
    """A member of a group whose topics have one leader. Any broker says who coordinates the group."""

    def link(self) -> LeaderLink:  # type: ignore[override]
        return LeaderLink(
            self, next(partition for partition in self.oracle.partitions if partition.topic in self.topics)
        )

    def find_coordinator(self) -> Script[None]:
        asked = self.link_to(self.any_broker())
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group])
        response = yield asked.send(request, FindCoordinatorResponse, max_version=4)
        asked.close()
        (found,) = response.coordinators
        check(found.error_code)
        self.coordinator.close()
        self.coordinator = self.link_to(Address(found.host, found.port))


class ClusterClassicMember(ClusterMember, ClassicMember):
    pass


class ClusterConsumerMember(ClusterMember, ConsumerMember):
    pass
