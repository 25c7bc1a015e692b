"""How clients find their way in a cluster: any broker tells who leads a partition, and only the leader serves it."""

from collections import deque
from typing import Any, NamedTuple

from barnabas.base.network import Address
from barnabas.base.promise import Promise
from barnabas.broker.network.peer_client import PeerClient, PeerSettings, PeerUnavailable
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.types import ZERO_UUID, TopicPartition, Uuid
from tests.simulation.clients.client import SimulatedClient

SETTINGS = PeerSettings(timeout_ms=5_000, connection_setup_timeout_ms=1_500, reconnect_backoff_max_ms=200)
ELSEWHERE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
_BY_TOPIC_ID = 13
"""The first version of Produce and of Fetch in which topics have no names."""


class Leader(NamedTuple):
    """Who leads a partition, as a broker has told."""

    address: Address | None = None
    epoch: int = -1
    topic_id: Uuid = ZERO_UUID


NOBODY = Leader()
METADATA_MAX_AGE_MS = 5_000
"""Then a client asks again who leads: one that is cut off from its cluster may not know that it was deposed."""


class _Waiting(NamedTuple):
    """A request that waits until its leader is known."""

    promise: Promise[Any]
    request: Any
    response_class: type[Any]
    options: dict[str, Any]


class LeaderLink:
    """Like a PeerClient, but of whoever leads a partition. What goes wrong makes it ask again for the next request.

    Topics are named by their ids: what was meant for a topic that is deleted does not reach the next one of that name.
    """

    def __init__(self, client: "ClusterClient", partition: TopicPartition, produce_version: int = _BY_TOPIC_ID) -> None:
        self._client = client
        self._partition = partition
        self._versions = {FetchRequest: _BY_TOPIC_ID, ProduceRequest: produce_version}
        self._leader: PeerClient | None = None
        self._told_leader = NOBODY
        self._told_ms = 0
        self._is_asking = False
        self._is_closed = False
        self._waiting: deque[_Waiting] = deque()

    def send(self, request: Any, response_class: type[Any], **options: Any) -> Promise[Any]:
        promise: Promise[Any] = Promise()
        waiting = _Waiting(promise, request, response_class, options)
        if self._leader is not None and self._client.clock.monotonic_ms() < self._told_ms + METADATA_MAX_AGE_MS:
            self._forward(self._leader, waiting)
        else:
            self._waiting.append(waiting)
            if not self._is_asking:
                self._ask()
        return promise

    def close(self) -> None:
        self._is_closed = True
        if self._leader is not None:
            self._leader.close()
        self._fail_waiting("is not to be found any more")

    def _forward(self, leader: PeerClient, waiting: _Waiting) -> None:
        def answered(answer: Promise[Any]) -> None:
            if (answer.error is not None or _is_elsewhere(answer.value)) and self._leader is leader:
                self._leader = None
            if answer.error is not None:
                waiting.promise.fail(answer.error)
            else:
                waiting.promise.resolve(self._named(answer.value))

        request, options = waiting.request, waiting.options
        if isinstance(request, FetchRequest | ProduceRequest):
            self._address(request)
            options = options | {"max_version": self._versions[type(request)]}
        leader.send(request, waiting.response_class, **options).when_done(answered)

    def _address(self, request: FetchRequest | ProduceRequest) -> None:
        """Says which topic is meant, and who is taken for the leader: one that was is a follower now, and may have
        less."""
        if isinstance(request, ProduceRequest):
            for produced in request.topic_data:
                produced.topic_id = self._told_leader.topic_id
            return
        for topic in request.topics:
            topic.topic_id = self._told_leader.topic_id
            for partition in topic.partitions:
                partition.current_leader_epoch = self._told_leader.epoch

    def _named(self, response: Any) -> Any:
        """Gives the only topic in a response its name."""
        if isinstance(response, FetchResponse):
            for topic in response.responses:
                topic.topic = self._partition.topic
        return response

    def _ask(self) -> None:
        self._is_asking = True
        topic = MetadataRequestTopic(name=self._partition.topic)
        request = MetadataRequest(topics=[topic], allow_auto_topic_creation=False)
        self._client.ask_anybody(request, MetadataResponse, max_version=12).when_done(self._told)

    def _told(self, answer: Promise[MetadataResponse]) -> None:
        self._is_asking = False
        told = NOBODY if answer.error is not None else leader_in(answer.value, self._partition)
        self._told_leader = self._client.newest(self._partition, told)
        if (address := self._told_leader.address) is None:
            return self._fail_waiting("is led by nobody")
        if self._is_closed:
            return
        self._told_ms = self._client.clock.monotonic_ms()
        leader = self._leader
        if leader is None or leader.address != address:
            leader = self._leader = self._client.link_to(address)
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            self._forward(leader, each)

    def _fail_waiting(self, why: str) -> None:
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            each.promise.fail(PeerUnavailable(f"{self._partition} {why}", was_sent=False))


def leader_in(response: MetadataResponse, partition: TopicPartition) -> Leader:
    brokers = {broker.node_id: Address(broker.host, broker.port) for broker in response.brokers}
    for topic in response.topics:
        for described in topic.partitions:
            if (topic.name, described.partition_index) == partition:
                return Leader(brokers.get(described.leader_id), described.leader_epoch, topic.topic_id)
    return NOBODY


def _is_elsewhere(response: Any) -> bool:
    if isinstance(response, ProduceResponse):
        return any(each.error_code in ELSEWHERE for topic in response.responses for each in topic.partition_responses)
    if isinstance(response, FetchResponse):
        return any(each.error_code in ELSEWHERE for topic in response.responses for each in topic.partitions)
    return False


class ClusterClient(SimulatedClient):
    """A client that knows all addresses of a cluster."""

    def start(self) -> None:
        self._kept: dict[Address, PeerClient] = {}
        self._newest: dict[TopicPartition, Leader] = {}
        super().start()

    def newest(self, partition: TopicPartition, told: Leader) -> Leader:
        """Returns what a broker has told, unless another has told of a later leader of this topic (KIP-320)."""
        known = self._newest.get(partition, NOBODY)
        if known.topic_id == told.topic_id and told.epoch < known.epoch:
            return NOBODY
        if told is not NOBODY:
            self._newest[partition] = told
        return told

    def ask_anybody(self, request: Any, response_class: type[Any], **options: Any) -> Promise[Any]:
        """Asks a broker what all of them know. Its connection is kept for the next question, unless it breaks."""
        address = self.any_broker()
        link = self.kept_link_to(address)

        promise: Promise[Any] = Promise()

        def answered(answer: Promise[Any]) -> None:
            if answer.error is None:
                return promise.resolve(answer.value)
            if self._kept.get(address) is link:
                self._kept.pop(address).close()
            promise.fail(answer.error)

        link.send(request, response_class, **options).when_done(answered)
        return promise

    def kept_link_to(self, address: Address) -> PeerClient:
        return self._kept.get(address) or self._kept.setdefault(address, self.link_to(address))

    def any_broker(self) -> Address:
        return self.random.choice(list(self.addresses))

    def link_to(self, address: Address) -> PeerClient:
        return self._kept_until_the_end(
            PeerClient(address, self.process.environment, self._buffers, client_id=self.name, settings=SETTINGS)
        )
