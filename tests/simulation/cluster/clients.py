"""Producers, readers and members of groups in a cluster, which follow the leaders of their partitions."""

from barnabas.base.network import Address
from barnabas.broker.network.peer_client import PeerClient
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.types import TopicPartition
from tests.simulation.clients.classic_member import ClassicMember
from tests.simulation.clients.client import Failed, Place, check
from tests.simulation.clients.consumer_member import ConsumerMember
from tests.simulation.clients.fetching import MAX_WAIT_MS, Fetched, fetch
from tests.simulation.clients.members import Member
from tests.simulation.clients.producer import IdempotentProducer
from tests.simulation.clients.script import Script
from tests.simulation.cluster.replicas.claims import DataOracle
from tests.simulation.cluster.routing import ELSEWHERE, ClusterClient, LeaderLink

TRY_AGAIN = ELSEWHERE | {ErrorCode.KAFKA_STORAGE_ERROR}


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


class EasyProducer(ClusterProducer):
    """Is content when the leader has its records: nothing is promised of them but their order."""

    acks = 1


class PatientProducer(ClusterProducer):
    """Waits for each answer before it sends more. A topic that was created again takes any sequence number from a
    producer that it does not know: if two were under way, the second could be taken and the first refused."""

    max_in_flight = 1


class ClusterReader(ClusterClient):
    """Reads one partition from its start, as long as there is something to claim about it."""

    oracle: DataOracle

    def __init__(self, place: Place, name: str, partition: TopicPartition) -> None:
        super().__init__(place, name)
        self.place = place
        self.partition = partition

    def script(self) -> Script[None]:
        link = LeaderLink(self, self.partition)
        while not self.is_stopping:
            if self.oracle.is_suspended:
                yield self.sleep(500)
            else:
                yield from self._read(link)

    def _read(self, link: LeaderLink) -> Script[None]:
        position, losses = len(self.oracle.partitions[self.partition].read), self.oracle.power_cuts
        try:
            answers = yield from fetch(link, {self.partition: position}, min_bytes=4_000, max_wait_ms=1_000)  # type: ignore[arg-type]
        except KafkaError:
            yield self.back_off()
            return
        for partition, code, records, topic_id in answers:
            is_past = losses < self.oracle.power_cuts or topic_id in self.oracle.past_ids
            if is_past or code in TRY_AGAIN:
                yield self.back_off()
                return
            assert not code, f"I14: {self.name} at {position} of {partition}: {code.name}"
            for offset, value in records:
                self.oracle.record_read(partition, offset, value)


class NearReader(ClusterReader):
    """Reads one partition from any replica (KIP-392): what it reads is committed, and is what others read."""

    def script(self) -> Script[None]:
        position, losses = 0, self.oracle.power_cuts
        while not self.is_stopping:
            if self.oracle.is_suspended or losses < self.oracle.power_cuts:
                position, losses = 0, self.oracle.power_cuts
                yield self.sleep(500)
                continue
            link = self.kept_link_to(self.any_broker())
            try:
                answers = yield from fetch(link, {self.partition: position}, min_bytes=1, max_wait_ms=200)
            except KafkaError:
                answers = []
            if losses == self.oracle.power_cuts and answers and not answers[0].code:
                for offset, value in answers[0].records:
                    self.oracle.read_nearby(self.partition, offset, value)
                    position = offset + 1
            else:
                yield self.back_off()


class ClusterMember(Member, ClusterClient):
    """A member of a group. Any broker says who coordinates the group."""

    oracle: DataOracle

    def prepare(self) -> None:
        super().prepare()
        self._leaders: dict[TopicPartition, LeaderLink] = {}

    def link(self) -> LeaderLink:  # type: ignore[override]
        return LeaderLink(self, TopicPartition(self.topics[0], 0))

    def fetch(self, positions: dict[TopicPartition, int]) -> Script[list[Fetched]]:
        """Asks the leader of each partition, one after the other."""
        fetched: list[Fetched] = []
        for partition, position in positions.items():
            link = self._leaders.get(partition) or self._leaders.setdefault(partition, LeaderLink(self, partition))
            try:
                fetched += yield from fetch(link, {partition: position}, max_wait_ms=MAX_WAIT_MS // len(positions))  # type: ignore[arg-type]
            except KafkaError:
                yield self.back_off()
        return fetched

    def _group_is_gone(self) -> None:
        assert self.oracle.losses, f"I19: {self.group} is gone, though nothing may be lost"

    def find_coordinator(self) -> Script[None]:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group])
        response = yield self.ask_anybody(request, FindCoordinatorResponse, max_version=4)
        (found,) = response.coordinators
        check(found.error_code)
        address = Address(found.host, found.port)
        if not isinstance(self.coordinator, PeerClient) or self.coordinator.address != address:
            self.coordinator.close()
            self.coordinator = self.link_to(address)


class ClusterClassicMember(ClusterMember, ClassicMember):
    def _after(self, error: Failed) -> Script[None]:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            self._group_is_gone()
            self.member_id = ""
            yield self.back_off()
        else:
            yield from super()._after(error)


class ClusterConsumerMember(ClusterMember, ConsumerMember):
    def _after(self, error: Failed) -> None:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            self._group_is_gone()
            self.epoch, self.positions = 0, {}
        else:
            super()._after(error)
