"""Fetch (1), versions 4 to 18.

v5 log start offset, v7 sessions (KIP-227), v9 fencing by leader epoch (KIP-320), v11 rack id, v12 diverging epochs,
v13 topic ids (KIP-516), v15 replica state in a tag, v16 leader endpoints, v17 and v18 for followers only.

- Records are file slices of whole batches; at least one batch comes even if it is larger than what was asked for.
- With less than `min_bytes` to give, the reply waits for more or for `max_wait_ms`. An error is answered at once,
  except for a topic that is not there: a client that asks for it again and again waits as if the topic were empty.
- A consumer reads any replica since v11, below the high watermark that is known there (KIP-392). Where
  `replica.selector.class` is rack-aware, the leader names the one in the consumer's rack.
- A follower, known by its replica id, acknowledges by fetching: see `replica_fetch.py`.
- Replica -2 is a tool that compares replicas: it reads any of them, up to the end of the log.
"""

from collections.abc import Iterable, Sequence

from barnabas.base.environment import Timer
from barnabas.base.files import FileSlice
from barnabas.base.promise import Promise
from barnabas.broker.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    Key,
    PartitionFetch,
    forgotten,
)
from barnabas.broker.handlers.current_leader import described_partition
from barnabas.broker.network.session import ListenerType
from barnabas.broker.node import Node
from barnabas.broker.replicas.leader import LeaderPartition
from barnabas.broker.replicas.partition import NO_EPOCH, Isolation, Partition
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import (
    ErrorCode,
    FencedLeaderEpoch,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from barnabas.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from barnabas.protocol.types import Uuid
from barnabas.replication.metadata.image import NO_LEADER

_NO_STORAGE_ERROR_UNTIL = 5
_FOLLOWERS_SINCE = 11
_TOPIC_IDS_SINCE = 13
_LEADERS_SINCE = 16
_READ_COMMITTED = 1
_CONSUMER = -1
_DEBUGGING = -2
_NOT_URGENT = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def handle(node: Node, request: FetchRequest, context: RequestContext) -> FetchResponse | Promise[FetchResponse]:
    if context.listener_type is ListenerType.CONTROLLER:
        return node.quorum.driver.receive(request)  # another node follows the metadata
    replica_id = request.replica_state.replica_id if request.replica_id == _CONSUMER else request.replica_id
    if replica_id >= 0:
        from barnabas.broker.handlers import replica_fetch  # a broker without followers needs none of it

        return replica_fetch.handle(node, request, context.api_version)
    try:
        session, asked = _session_of(node, request, context.api_version >= _TOPIC_IDS_SINCE)
    except KafkaError as error:
        return FetchResponse(error_code=error.code, responses=[])
    isolation = Isolation.LOG_END if replica_id == _DEBUGGING else _isolation_of(request)
    fetch = _Fetch(node, request, context, session, asked, isolation)
    return fetch.answer()


def _isolation_of(request: FetchRequest) -> Isolation:
    is_committed_only = request.isolation_level == _READ_COMMITTED
    return Isolation.LAST_STABLE_OFFSET if is_committed_only else Isolation.HIGH_WATERMARK


def _session_of(
    node: Node, request: FetchRequest, uses_topic_ids: bool
) -> tuple[FetchSession | None, Iterable[PartitionFetch]]:
    """Returns the session that the request starts or continues, if any, and the partitions to read."""
    asked = _asked(request, uses_topic_ids)
    sessions, now_ms = node.fetch_sessions, node.clock.now_ms()
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if request.session_id != NO_SESSION:
            sessions.remove(request.session_id)
        if request.session_epoch == FINAL_EPOCH:
            return None, asked
        return sessions.create(asked, uses_topic_ids=uses_topic_ids, now_ms=now_ms), asked
    session = sessions.resume(request.session_id, request.session_epoch, uses_topic_ids=uses_topic_ids, now_ms=now_ms)
    session.update(asked, forgotten(request, uses_topic_ids))
    if not len(session):
        sessions.remove(session.id)
        return None, ()
    return session, list(session.asked())


def _asked(request: FetchRequest, uses_topic_ids: bool) -> list[PartitionFetch]:
    """Returns each partition once: if one is named twice, the last mention counts."""
    asked: dict[Key, PartitionFetch] = {}
    for topic in request.topics:
        name = topic.topic_id if uses_topic_ids else topic.topic
        for partition in topic.partitions:
            key = (name, partition.partition)
            asked[key] = PartitionFetch(
                key,
                partition.fetch_offset,
                partition.partition_max_bytes,
                max(partition.current_leader_epoch, NO_EPOCH),
                partition.last_fetched_epoch,
            )
    return list(asked.values())


class _Fetch:
    """One Fetch while it is being answered: it reads, and if that is not enough it waits and reads again."""

    __slots__ = (
        "_asked", "_context", "_isolation", "_max_bytes", "_missing_bytes", "_node", "_partitions", "_promise",
        "_rack_id", "_request", "_session", "_timer", "_uses_topic_ids",
    )  # fmt: skip

    def __init__(
        self,
        node: Node,
        request: FetchRequest,
        context: RequestContext,
        session: FetchSession | None,
        asked: Iterable[PartitionFetch],
        isolation: Isolation,
    ) -> None:
        self._node = node
        self._request = request
        self._context = context
        self._uses_topic_ids = context.api_version >= _TOPIC_IDS_SINCE
        self._session = session
        self._asked = asked
        self._isolation = isolation
        self._max_bytes = min(request.max_bytes, node.config.fetch_max_bytes)
        self._rack_id = request.rack_id if node.config.replica_selector_class is not None else ""
        """The consumer's rack, if it decides which replica is read."""
        self._partitions: list[tuple[Partition, PartitionFetch]] = []
        self._missing_bytes = 0
        self._promise: Promise[FetchResponse] | None = None
        self._timer: Timer | None = None

    def answer(self) -> FetchResponse | Promise[FetchResponse]:
        found, size, urgent = self._read()
        request = self._request
        min_bytes = min(request.min_bytes, self._max_bytes)
        if urgent or size >= min_bytes or request.max_wait_ms <= 0 or not self._partitions:
            return self._response(found)
        missing_bytes = self._missing_of(min_bytes) if size else min_bytes
        return self._wait(missing_bytes) if missing_bytes > 0 else self._response(found)

    def _missing_of(self, min_bytes: int) -> int:
        """Returns how many bytes the fetch still has to wait for. Everything that is there counts, up to the limit of
        each partition, even if fewer whole batches fit: a fetch that asks for as much as its limits allow would
        otherwise always wait."""
        for partition, asked in self._partitions:
            try:
                unread_bytes = partition.unread_bytes(asked.fetch_offset, self._isolation)
            except KafkaStorageError:
                return 0  # the next fetch is answered with the error
            if unread_bytes is None:
                return 0
            min_bytes -= min(unread_bytes, max(asked.max_bytes, 0))
        return min_bytes

    # ---- reading

    def _read(self) -> tuple[list[tuple[Key, PartitionData]], int, bool]:
        """Returns what every partition has to give, how many bytes that is, and whether it cannot wait."""
        left = self._max_bytes
        size, urgent = 0, False
        found: list[tuple[Key, PartitionData]] = []
        self._partitions = []
        for asked in self._asked:
            data = self._read_partition(asked, min(asked.max_bytes, left), at_least_one=size == 0)
            records_size = data.records.size if data.records else 0  # type: ignore[union-attr]
            size += records_size
            left = max(0, left - records_size)
            urgent |= data.error_code not in _NOT_URGENT or data.diverging_epoch.epoch >= 0
            urgent |= data.preferred_read_replica >= 0
            found.append((asked.key, data))
        return found, size, urgent

    def _read_partition(self, asked: PartitionFetch, max_bytes: int, *, at_least_one: bool) -> PartitionData:
        try:
            if self._isolation is Isolation.LOG_END:
                return self._read_replica(asked, max_bytes, at_least_one=at_least_one)
            name, index = self._name(asked.key), asked.key[1]
            try:
                partition: Partition = self._node.replicas.partition(name, index, asked.current_leader_epoch)
            except NotLeaderOrFollower:
                if self._context.api_version < _FOLLOWERS_SINCE:
                    raise
                partition = self._node.replicas.follower(name, index)
            partition.check_leader_epoch(asked.current_leader_epoch)
            if self._rack_id and (preferred := self._preferred_replica(partition, asked)) is not None:
                data = self._data(partition, asked, b"", None)
                data.preferred_read_replica = preferred
                return data
            if asked.last_fetched_epoch >= 0 and (diverging := _diverging_epoch(partition, asked)) is not None:
                return self._data(partition, asked, b"", diverging)
            records = partition.read(asked.fetch_offset, max_bytes, self._isolation, at_least_one=at_least_one)
            data = self._data(partition, asked, records or b"", None)
        except KafkaError as error:
            return self._refused(asked, error)
        self._partitions.append((partition, asked))
        return data

    def _preferred_replica(self, partition: Partition, asked: PartitionFetch) -> int | None:
        from barnabas.broker.handlers.preferred_replica import preferred_replica

        if not isinstance(partition, LeaderPartition):
            return None
        listener = self._context.session.listener
        return preferred_replica(
            self._node, partition, rack_id=self._rack_id, fetch_offset=asked.fetch_offset, listener=listener
        )

    def _read_replica(self, asked: PartitionFetch, max_bytes: int, *, at_least_one: bool) -> PartitionData:
        """Reads whatever is here. Only the leader knows when there is more, so nobody waits for a follower."""
        replica = self._node.replicas.replica(self._name(asked.key), asked.key[1], asked.current_leader_epoch)
        replica.check_leader_epoch(asked.current_leader_epoch)
        records = replica.read(asked.fetch_offset, max_bytes, self._isolation, at_least_one=at_least_one)
        if isinstance(replica, LeaderPartition):
            self._partitions.append((replica, asked))
        return self._data(replica, asked, records or b"", None)

    def _name(self, key: Key) -> str:
        name = key[0]
        if self._uses_topic_ids:
            assert isinstance(name, bytes)
            topic = self._node.image.topic_by_id(name)
            if topic is None:
                raise self._unknown(name)
            if self._session is not None:
                self._session.topic_names[name] = topic.name
            name = topic.name
        assert isinstance(name, str)
        return name

    def _unknown(self, topic_id: Uuid) -> KafkaError:
        """Returns the error for an unknown id. A session knows the topic's name, which another may have by now."""
        name = self._session.topic_names.get(topic_id) if self._session is not None else None
        if name is None:
            return UnknownTopicId("no topic has this id")
        if self._node.image.topic(name) is None:
            return UnknownTopicOrPartition(f"{name} was deleted")
        return KafkaError(f"{name} was deleted and created again", ErrorCode.INCONSISTENT_TOPIC_ID)

    def _data(
        self, partition: Partition, asked: PartitionFetch, records: FileSlice | bytes, diverging: EpochEndOffset | None
    ) -> PartitionData:
        log = partition.log
        is_filtered = self._isolation is Isolation.LAST_STABLE_OFFSET and diverging is None
        data = PartitionData(
            partition_index=asked.key[1],
            error_code=0,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=_aborted(partition, asked.fetch_offset, records) if is_filtered else None,
            records=records,
        )
        if diverging is not None:
            data.diverging_epoch = diverging
        return data

    def _refused(self, asked: PartitionFetch, error: KafkaError) -> PartitionData:
        data = PartitionData(
            partition_index=asked.key[1],
            error_code=error.code,
            high_watermark=-1,
            aborted_transactions=() if isinstance(error, (UnknownTopicId, UnknownTopicOrPartition)) else None,
            records=b"",
        )
        if self._context.api_version <= _NO_STORAGE_ERROR_UNTIL and isinstance(error, KafkaStorageError):
            data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER  # those clients do not retry the other
        if self._context.api_version >= _LEADERS_SINCE and isinstance(error, (NotLeaderOrFollower, FencedLeaderEpoch)):
            data.current_leader = self._current_leader(asked.key)
        return data

    def _current_leader(self, key: Key) -> LeaderIdAndEpoch:
        partition = described_partition(self._node.image, *key)
        if partition is None:
            return LeaderIdAndEpoch()
        return LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)

    # ---- waiting

    def _wait(self, missing_bytes: int) -> Promise[FetchResponse]:
        self._missing_bytes = missing_bytes
        self._promise = Promise(self._stop_waiting)
        for partition, _ in self._partitions:
            partition.wait(self, self._isolation)
        self._timer = self._node.clock.call_later(self._request.max_wait_ms, self._finish)
        return self._promise

    def on_bytes(self, size: int) -> None:
        self._missing_bytes -= size
        if self._missing_bytes <= 0 or size == 0:
            self._finish()

    def _finish(self) -> None:
        """Answers the fetch. An error fails only this fetch: the caller may be in the middle of a Produce."""
        assert self._promise is not None
        self._stop_waiting()
        try:
            found, _, _ = self._read()
            response = self._response(found)
        except Exception as error:
            return self._promise.fail(error)
        self._promise.resolve(response)

    def _stop_waiting(self) -> None:
        assert self._timer is not None
        self._timer.cancel()
        for partition, _ in self._partitions:
            partition.stop_waiting(self)

    # ---- answering

    def _response(self, found: list[tuple[Key, PartitionData]]) -> FetchResponse:
        session = self._session
        if session is not None:
            news = [(key, data) for key, data in found if session.news(key, data)]
            found = found if self._request.session_epoch == INITIAL_EPOCH else news
        topics: dict[str | bytes, list[PartitionData]] = {}
        for (name, _), data in found:
            topics.setdefault(name, []).append(data)
        return FetchResponse(
            session_id=session.id if session is not None else NO_SESSION,
            responses=[
                FetchableTopicResponse(topic_id=name, partitions=partitions)
                if isinstance(name, bytes)
                else FetchableTopicResponse(topic=name, partitions=partitions)
                for name, partitions in topics.items()
            ],
            node_endpoints=self._endpoints({data.current_leader.leader_id for _, data in found}),
        )

    def _endpoints(self, leaders: set[int]) -> Sequence[NodeEndpoint]:
        """Returns the addresses of the leaders in the answer: a consumer need not ask for metadata (KIP-951)."""
        if leaders <= {NO_LEADER}:
            return ()
        return [
            NodeEndpoint(node_id=registered.broker_id, host=host, port=port, rack=registered.rack)
            for registered, host, port in self._node.endpoints(self._context.session)
            if registered.broker_id in leaders
        ]


def _diverging_epoch(partition: Partition, asked: PartitionFetch) -> EpochEndOffset | None:
    from barnabas.broker.handlers.divergence import diverging_epoch  # consumers hardly ever ask

    return diverging_epoch(partition, asked.fetch_offset, asked.last_fetched_epoch)


def _aborted(partition: Partition, fetch_offset: int, records: FileSlice | bytes) -> list[AbortedTransaction]:
    """Returns the aborted transactions that reach into the records of the answer. Kafka orders them by their markers,
    but there are clients that expect them in the order in which they began."""
    if not isinstance(records, FileSlice):
        return []
    found = partition.log.aborted_in(fetch_offset, records)
    return [AbortedTransaction(producer_id=row.producer_id, first_offset=row.first_offset) for row in found]
