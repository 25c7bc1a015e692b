"""A follower with real logs in a simulated world, and a leader that answers what a test tells it to."""

from collections.abc import Callable
from typing import Any

from barnabas.base.network import Address, SocketOptions, Transport
from barnabas.base.promise import Promise
from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.fetchers.fetchers import Fetchers, Follower, Leader
from barnabas.broker.network.buffers import Buffers
from barnabas.broker.network.connection import Connection
from barnabas.broker.network.reply_queue import Reply
from barnabas.broker.network.session import Session
from barnabas.broker.replicas.follower import FollowerPartition
from barnabas.broker.replicas.throttles import Throttles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.batch_builder import build_batch
from barnabas.protocol.frame import decode_request_header, encode_response
from barnabas.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from barnabas.protocol.records import NewRecord
from barnabas.protocol.schema import decode_from
from barnabas.protocol.types import TopicPartition
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_manager import LogManager
from tests.simulation.world import World

PORT = 9092
FOLLOWER_ID = 2
BROKER_EPOCH = 77
SESSION_ID = 5
REQUESTS: dict[int, Any] = {
    ApiKey.API_VERSIONS: ApiVersionsRequest,
    ApiKey.FETCH: FetchRequest,
    ApiKey.LIST_OFFSETS: ListOffsetsRequest,
}
FLEXIBLE: dict[int, int | None] = {ApiKey.API_VERSIONS: 3, ApiKey.FETCH: 12, ApiKey.LIST_OFFSETS: 6}


def batch(offset: int, epoch: int = 1, count: int = 1) -> bytearray:
    """A batch as the leader's log holds it."""
    records = [NewRecord(b"key", b"value", (), 0)] * count
    return build_batch(records, base_offset=offset, partition_leader_epoch=epoch)


def topic_id_of(name: str) -> bytes:
    return name.encode().ljust(16, b"-")[:16]


class AskedFetch:
    """A Fetch that waits for the test to answer it."""

    def __init__(self, leader: "ScriptedLeader", request: FetchRequest, reply: Callable[[FetchResponse], None]) -> None:
        self.request = request
        self._leader = leader
        self._reply = reply
        self.is_answered = False

    @property
    def named(self) -> dict[tuple[str, int], int]:
        """The fetch offsets of the partitions that it names."""
        return {
            (self._leader.names[topic.topic_id], each.partition): each.fetch_offset
            for topic in self.request.topics
            for each in topic.partitions
        }

    def answer(self, *partitions: tuple[str, PartitionData], session_id: int = SESSION_ID, error_code: int = 0) -> None:
        self.is_answered = True
        responses = [FetchableTopicResponse(topic_id=topic_id_of(name), partitions=[data]) for name, data in partitions]
        self._reply(FetchResponse(session_id=session_id, error_code=error_code, responses=responses))


def answer(
    *batches: bytearray,
    index: int = 0,
    error_code: int = 0,
    high_watermark: int = 0,
    log_start_offset: int = 0,
    diverging: tuple[int, int] = (-1, -1),
) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=error_code,
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
        diverging_epoch=EpochEndOffset(epoch=diverging[0], end_offset=diverging[1]),
        aborted_transactions=None,
        records=b"".join(batches),
    )


class ScriptedLeader:
    def __init__(self, world: World, name: str) -> None:
        process = world.machine(name).start()
        self.leader = Leader(1, Address(name, PORT))
        self.fetches: list[AskedFetch] = []
        self.connections: list[Connection] = []
        self.offsets: tuple[int, int] = (0, 0)
        """What ListOffsets is answered with: where the log begins and ends."""
        self.list_offsets_error = 0
        self.names: dict[bytes, str] = {}
        self._clock = process.environment.clock
        self._buffers = Buffers()
        process.environment.network.bind(name, PORT, SocketOptions(backlog=16)).accept(self._accept)

    def _accept(self, transport: Transport) -> None:
        self.connections.append(
            Connection(
                transport,
                listener="PLAINTEXT",
                clock=self._clock,
                buffers=self._buffers,
                dispatch=self._dispatch,
                max_frame_bytes=1 << 20,
                on_close=lambda connection, _reason: self.connections.remove(connection),
            )
        )

    def _dispatch(self, frame: memoryview, session: Session) -> Promise[Reply] | Reply:
        header, position = decode_request_header(frame, FLEXIBLE)
        request, _ = decode_from(REQUESTS[header.api_key], header.api_version, frame, position)
        promise: Promise[Reply] = Promise()

        def reply(response: Any) -> None:
            promise.resolve(encode_response(response, header.api_version, header.correlation_id))

        if isinstance(request, FetchRequest):
            assert header.api_version == 18
            self.fetches.append(AskedFetch(self, request, reply))
        elif isinstance(request, ListOffsetsRequest):
            reply(self._offsets(request))
        else:
            keys = [
                ApiVersion(api_key=key, min_version=kind.__versions__[0], max_version=kind.__versions__[-1])
                for key, kind in REQUESTS.items()
            ]
            reply(ApiVersionsResponse(error_code=0, api_keys=keys))
        return promise

    def _offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        assert request.replica_id == FOLLOWER_ID
        (topic,) = request.topics
        (asked,) = topic.partitions
        found = ListOffsetsPartitionResponse(
            partition_index=asked.partition_index,
            error_code=self.list_offsets_error,
            offset=self.offsets[0 if asked.timestamp == -2 else 1],
        )
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=topic.name, partitions=[found])])


class Scene:
    """One follower, and one or more leaders."""

    def __init__(self, seed: int = 1, **properties: str) -> None:
        self.world = World(seed)
        self.process = self.world.machine("follower").start()
        self.leader = ScriptedLeader(self.world, "leader")
        config = BrokerConfig.parse({name.replace("_", "."): value for name, value in properties.items()})
        self.throttle = Throttles(self.process.environment.clock, config).follower
        self.fetchers = Fetchers(
            Follower(FOLLOWER_ID, lambda: BROKER_EPOCH, lambda: config, self.throttle),
            self.process.environment,
            Buffers(),
        )
        self.logs = LogManager(["/data"], self.process.environment)
        self.logs.open()

    def partition(self, name: str, index: int = 0, leader_epoch: int = 1, **config: object) -> FollowerPartition:
        topic_partition, topic_id = TopicPartition(name, index), topic_id_of(name)
        self.leader.names[topic_id] = name
        log = self.logs.create(topic_partition, topic_id, LogConfig(**config))
        return FollowerPartition(topic_partition, topic_id, log, leader_epoch, leader_id=2)

    def follow(self, *partitions: FollowerPartition) -> None:
        for partition in partitions:
            self.fetchers.follow(partition, self.leader.leader)

    def next_fetch(self, *, within_ms: float = 200) -> AskedFetch:
        """The oldest fetch that is not answered."""
        self.world.scheduler.run_until_true(
            lambda: any(not each.is_answered for each in self.leader.fetches), within_ms=within_ms, what="a fetch comes"
        )
        return next(each for each in self.leader.fetches if not each.is_answered)

    def establish(self, *partitions: FollowerPartition) -> AskedFetch:
        """Follows, and answers the request for a session. Returns the fetch that comes next."""
        self.follow(*partitions)
        self.next_fetch().answer(
            *((each.topic_partition.topic, answer(index=each.topic_partition.partition)) for each in partitions)
        )
        return self.next_fetch()

    def run(self, duration_ms: float = 20) -> None:
        self.world.scheduler.run_for(duration_ms)

    @property
    def waiting(self) -> list[AskedFetch]:
        return [each for each in self.leader.fetches if not each.is_answered]


def filled(scene: Scene, name: str, *epochs: int) -> FollowerPartition:
    """A partition with a record of each of these epochs."""
    partition = scene.partition(name)
    for offset, epoch in enumerate(epochs):
        partition.append(memoryview(batch(offset, epoch)), 0)
    return partition
