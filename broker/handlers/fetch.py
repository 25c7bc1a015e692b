"""Fetch (1), versions 4 to 18.

v5 log start offset, v7 sessions (KIP-227), v9 fencing by leader epoch (KIP-320), v11 rack id, v12 diverging epochs,
v13 topic ids (KIP-516), v15 replica state in a tag, v16 leader endpoints, v17 and v18 for followers only.

- Records are file slices of whole batches; at least one batch comes even if it is larger than what was asked for.
- With less than `min_bytes` to give, the reply waits for more or for `max_wait_ms`. An error is told at once, but for
  a topic that is not there: who asks for it again and again is held up as if it were empty.
- A consumer reads from the leader: rack ids change nothing until followers can be read. There are no followers yet:
  who says that it is one is refused.
"""

from collections.abc import Iterable, Sequence

from barnabas.broker.broker import Broker, RequestContext
from barnabas.broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchSession, Key, Wanted
from barnabas.broker.partition import NO_EPOCH, Partition
from barnabas.broker.promise import Promise
from barnabas.protocol.errors import (
    ErrorCode,
    FencedLeaderEpoch,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
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
from barnabas.replication.image import NO_LEADER
from barnabas.storage.seams import Timer

_NO_STORAGE_ERROR_UNTIL = 5
_TOPIC_IDS_SINCE = 13
_LEADERS_SINCE = 16
_READ_COMMITTED = 1
_NOT_URGENT = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def handle(broker: Broker, request: FetchRequest, context: RequestContext) -> FetchResponse | Promise[FetchResponse]:
    try:
        session, wanted = _session_of(broker, request, context.api_version >= _TOPIC_IDS_SINCE)
    except KafkaError as error:
        return FetchResponse(throttle_time_ms=0, error_code=error.code, responses=[])
    fetch = _Fetch(broker, request, context, session, wanted)
    return fetch.answer()


def _session_of(
    broker: Broker, request: FetchRequest, uses_topic_ids: bool
) -> tuple[FetchSession | None, Iterable[Wanted]]:
    """The session that the request starts or continues, if any, and the partitions to read."""
    wanted = _wanted(request, uses_topic_ids)
    sessions, now_ms = broker.fetch_sessions, broker.clock.now_ms()
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if request.session_id != NO_SESSION:
            sessions.remove(request.session_id)
        if request.session_epoch == FINAL_EPOCH:
            return None, wanted
        return sessions.create(wanted, uses_topic_ids=uses_topic_ids, now_ms=now_ms), wanted
    session = sessions.resume(request.session_id, request.session_epoch, uses_topic_ids=uses_topic_ids, now_ms=now_ms)
    session.update(wanted, _forgotten(request, uses_topic_ids))
    if not len(session):
        sessions.remove(session.id)
        return None, ()
    return session, list(session.wanted())


def _wanted(request: FetchRequest, uses_topic_ids: bool) -> list[Wanted]:
    """Each partition once: of one that is named twice the last mention counts."""
    wanted: dict[Key, Wanted] = {}
    for topic in request.topics:
        name = topic.topic_id if uses_topic_ids else topic.topic
        for partition in topic.partitions:
            key = (name, partition.partition)
            wanted[key] = Wanted(
                key,
                partition.fetch_offset,
                partition.partition_max_bytes,
                max(partition.current_leader_epoch, NO_EPOCH),
                partition.last_fetched_epoch,
            )
    return list(wanted.values())


def _forgotten(request: FetchRequest, uses_topic_ids: bool) -> Iterable[Key]:
    for topic in request.forgotten_topics_data:
        for partition in topic.partitions:
            yield (topic.topic_id if uses_topic_ids else topic.topic), partition


class _Fetch:
    """One Fetch while it is being answered: it reads, and if that is not enough it waits and reads again."""

    __slots__ = (
        "_broker", "_committed_only", "_context", "_max_bytes", "_missing_bytes", "_partitions", "_promise",
        "_replica_id", "_request", "_session", "_timer", "_uses_topic_ids", "_wanted",
    )  # fmt: skip

    def __init__(
        self,
        broker: Broker,
        request: FetchRequest,
        context: RequestContext,
        session: FetchSession | None,
        wanted: Iterable[Wanted],
    ) -> None:
        self._broker = broker
        self._request = request
        self._context = context
        self._uses_topic_ids = context.api_version >= _TOPIC_IDS_SINCE
        self._replica_id = max(request.replica_id, request.replica_state.replica_id)
        self._session = session
        self._wanted = wanted
        self._committed_only = request.isolation_level == _READ_COMMITTED
        self._max_bytes = min(request.max_bytes, broker.config.fetch_max_bytes)
        self._partitions: list[tuple[Partition, Wanted]] = []
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
        """What was read are whole batches. What counts is what is there, up to what each partition was asked for: who
        wants as much as a fetch may bring is not to wait because the last batch did not fit."""
        for partition, wanted in self._partitions:
            try:
                unread_bytes = partition.unread_bytes(wanted.fetch_offset, committed_only=self._committed_only)
            except KafkaStorageError:
                return 0  # the next fetch is told
            if unread_bytes is None:
                return 0
            min_bytes -= min(unread_bytes, max(wanted.max_bytes, 0))
        return min_bytes

    # Reading

    def _read(self) -> tuple[list[tuple[Key, PartitionData]], int, bool]:
        """What every partition has to give, how many bytes that is, and whether it cannot wait."""
        left = self._max_bytes
        size, urgent = 0, False
        found: list[tuple[Key, PartitionData]] = []
        self._partitions = []
        for wanted in self._wanted:
            data = self._read_partition(wanted, min(wanted.max_bytes, left), at_least_one=size == 0)
            records_size = data.records.size if data.records else 0  # type: ignore[union-attr]
            size += records_size
            left = max(0, left - records_size)
            urgent |= data.error_code not in _NOT_URGENT or data.diverging_epoch.epoch >= 0
            found.append((wanted.key, data))
        return found, size, urgent

    def _read_partition(self, wanted: Wanted, max_bytes: int, *, at_least_one: bool) -> PartitionData:
        try:
            partition = self._partition(wanted.key)
            if self._replica_id >= 0:
                raise NotLeaderOrFollower(f"broker {self._replica_id} is no follower of {partition.topic_partition}")
            partition.check_leader_epoch(wanted.current_leader_epoch)
            if wanted.last_fetched_epoch >= 0 and (diverging := _diverging_epoch(partition, wanted)) is not None:
                return self._data(partition, wanted, b"", diverging)
            records = partition.read(
                wanted.fetch_offset, max_bytes, committed_only=self._committed_only, at_least_one=at_least_one
            )
            data = self._data(partition, wanted, records or b"", None)
        except KafkaError as error:
            return self._refused(wanted, error)
        self._partitions.append((partition, wanted))
        return data

    def _partition(self, key: Key) -> Partition:
        name, index = key
        if self._uses_topic_ids:
            assert isinstance(name, bytes)
            topic = self._broker.image.topic_by_id(name)
            if topic is None:
                raise self._unknown(name)
            if self._session is not None:
                self._session.topic_names[name] = topic.name
            name = topic.name
        assert isinstance(name, str)
        return self._broker.replicas.partition(name, index)

    def _unknown(self, topic_id: Uuid) -> KafkaError:
        """A session knows what the topic was called: whether it is gone, or another has its name."""
        name = self._session.topic_names.get(topic_id) if self._session is not None else None
        if name is None:
            return UnknownTopicId("no topic has this id")
        if self._broker.image.topic(name) is None:
            return UnknownTopicOrPartition(f"{name} was deleted")
        return KafkaError(f"{name} was deleted and made again", ErrorCode.INCONSISTENT_TOPIC_ID)

    def _data(
        self, partition: Partition, wanted: Wanted, records: object, diverging: EpochEndOffset | None
    ) -> PartitionData:
        is_filtered = self._committed_only and diverging is None  # who has diverged gets nothing to filter
        data = PartitionData(
            partition_index=wanted.key[1],
            error_code=0,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log.log_start_offset,
            aborted_transactions=_aborted(partition, wanted.fetch_offset) if is_filtered else None,
            records=records,  # type: ignore[arg-type]
        )
        if diverging is not None:
            data.diverging_epoch = diverging
        return data

    def _refused(self, wanted: Wanted, error: KafkaError) -> PartitionData:
        data = PartitionData(
            partition_index=wanted.key[1],
            error_code=error.code,
            high_watermark=-1,
            aborted_transactions=() if isinstance(error, (UnknownTopicId, UnknownTopicOrPartition)) else None,
            records=b"",
        )
        if self._context.api_version <= _NO_STORAGE_ERROR_UNTIL and isinstance(error, KafkaStorageError):
            data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER  # those clients take the other for final
        if self._context.api_version >= _LEADERS_SINCE and isinstance(error, (NotLeaderOrFollower, FencedLeaderEpoch)):
            data.current_leader = self._current_leader(wanted.key)
        return data

    def _current_leader(self, key: Key) -> LeaderIdAndEpoch:
        image = self._broker.image
        topic = image.topic_by_id(key[0]) if isinstance(key[0], bytes) else image.topic(key[0])
        if topic is None or not 0 <= key[1] < len(topic.partitions):
            return LeaderIdAndEpoch()
        partition = topic.partitions[key[1]]
        return LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)

    # Waiting

    def _wait(self, missing_bytes: int) -> Promise[FetchResponse]:
        self._missing_bytes = missing_bytes
        self._promise = Promise(self._stop_waiting)
        for partition, _ in self._partitions:
            partition.fetch_waiters[self] = None
        self._timer = self._broker.clock.call_later(self._request.max_wait_ms, self._finish)
        return self._promise

    def on_bytes(self, size: int) -> None:
        self._missing_bytes -= size
        if self._missing_bytes <= 0 or size == 0:
            self._finish()

    def _finish(self) -> None:
        """Whatever goes wrong is this fetch's own affair: the one who calls may be in the middle of a Produce."""
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
            partition.fetch_waiters.pop(self, None)

    # Answering

    def _response(self, found: list[tuple[Key, PartitionData]]) -> FetchResponse:
        session = self._session
        if session is not None:
            told = [(key, data) for key, data in found if session.news(key, data)]
            found = found if self._request.session_epoch == INITIAL_EPOCH else told
        topics: dict[str | bytes, list[PartitionData]] = {}
        for (name, _), data in found:
            topics.setdefault(name, []).append(data)
        return FetchResponse(
            throttle_time_ms=0,
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
        """Where the leaders are that the answer names: a consumer need not ask for metadata (KIP-951)."""
        if leaders <= {NO_LEADER} or self._replica_id >= 0:
            return ()
        return [
            NodeEndpoint(node_id=node.broker_id, host=host, port=port, rack=node.rack)
            for node, host, port in self._broker.endpoints(self._context.connection)
            if node.broker_id in leaders
        ]


def _diverging_epoch(partition: Partition, wanted: Wanted) -> EpochEndOffset | None:
    """Where this log parts from what the fetcher has, if it does (KIP-595)."""
    epoch, end_offset = partition.end_offset_for_epoch(wanted.last_fetched_epoch)
    if epoch < 0:
        raise OffsetOutOfRange(f"epoch {wanted.last_fetched_epoch} is older than this log")
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None


def _aborted(partition: Partition, fetch_offset: int) -> list[AbortedTransaction]:
    found = partition.log.aborted_transactions(fetch_offset, partition.last_stable_offset)
    return [AbortedTransaction(producer_id=row.producer_id, first_offset=row.first_offset) for row in found]
