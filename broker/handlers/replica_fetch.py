"""Fetch of a follower: it acknowledges what it has, and reads to the end of the log.

The rules of Kafka, in its order: the leader epochs must agree; only a replica of the partition is served; an offset
below the log start is out of range, whatever its epoch; a log that parts from ours is told where, and nothing is noted
of it; a broker that has registered again since is refused, and nothing is noted either.

A partition that is throttled is left out while the quota of this broker's leaders is exceeded, unless the follower is
in sync. It stays dirty; a fetch that leaves out everything waits as if there were nothing, until the quota allows more.

`replica_sessions.py` says why it costs what has news. A fetch that waits is answered at the end of the turn in which
something was appended, with all that was appended in that turn.
"""

from collections.abc import Iterable

from barnabas.base.environment import Timer
from barnabas.base.promise import Promise
from barnabas.broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, forgotten
from barnabas.broker.handlers.current_leader import described_partition
from barnabas.broker.handlers.divergence import diverging_epoch
from barnabas.broker.node import Node
from barnabas.broker.replica_sessions import ReplicaSession, SessionPartition
from barnabas.broker.replicas.leader import LeaderPartition
from barnabas.broker.replicas.partition import NO_EPOCH, Isolation
from barnabas.protocol.errors import (
    FencedLeaderEpoch,
    KafkaError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from barnabas.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)

_NO_REPLICA = -1
_TOPIC_IDS_SINCE = 13
_LEADERS_SINCE = 16


def handle(node: Node, request: FetchRequest, api_version: int) -> FetchResponse | Promise[FetchResponse]:
    uses_topic_ids = api_version >= _TOPIC_IDS_SINCE
    try:
        session, named = _session_of(node, request, uses_topic_ids)
    except KafkaError as error:
        return FetchResponse(error_code=error.code, responses=[])
    return _ReplicaFetch(node, request, session, names_leaders=api_version >= _LEADERS_SINCE).answer(named)


def _session_of(
    node: Node, request: FetchRequest, uses_topic_ids: bool
) -> tuple[ReplicaSession, list[SessionPartition]]:
    """Returns the session that the request starts or continues, and the partitions that it names."""
    sessions, state = node.fetch_sessions.of_replicas, request.replica_state
    in_state = state.replica_id != _NO_REPLICA
    replica = (state.replica_id, state.replica_epoch) if in_state else (request.replica_id, -1)
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if request.session_id != NO_SESSION:
            sessions.remove(request.session_id, replica[0])
        is_kept = request.session_epoch == INITIAL_EPOCH
        session = sessions.create(*replica, node.clock.monotonic_ms()) if is_kept else ReplicaSession(0, *replica)
    else:
        session = sessions.resume(request.session_id, request.session_epoch, *replica)
        session.forget(forgotten(request, uses_topic_ids))
    if session.waiting is not None:
        session.waiting.overtaken()
    named = []
    for topic in request.topics:
        name = topic.topic_id if uses_topic_ids else topic.topic
        for asked in topic.partitions:
            if asked.current_leader_epoch < NO_EPOCH:
                asked.current_leader_epoch = NO_EPOCH
            named.append(session.ask((name, asked.partition), asked))
    return session, named


class _ReplicaFetch:
    """One Fetch of a follower while it is being answered."""

    __slots__ = (
        "_awaits_quota", "_is_diverging", "_is_woken", "_leaves_out", "_max_bytes",
        "_names_leaders", "_node", "_promise", "_refused", "_request", "_session", "_timer",
    )  # fmt: skip

    def __init__(self, node: Node, request: FetchRequest, session: ReplicaSession, *, names_leaders: bool) -> None:
        self._node = node
        self._names_leaders = names_leaders
        self._request = request
        self._session = session
        self._max_bytes = min(request.max_bytes, node.config.fetch_max_bytes)
        self._refused: dict[SessionPartition, PartitionData] = {}
        self._is_diverging = False
        self._promise: Promise[FetchResponse] | None = None
        self._timer: Timer | None = None
        self._is_woken = False
        self._leaves_out = False
        """Whether something is dirty that may not be sent for now."""
        self._awaits_quota = False

    @property
    def _is_whole(self) -> bool:
        """Returns whether the answer must name every partition."""
        return self._request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH)

    def answer(self, named: list[SessionPartition]) -> FetchResponse | Promise[FetchResponse]:
        session, request = self._session, self._request
        session.fetched_ms = self._node.clock.monotonic_ms()
        for each in (*named, *(each for each in session.lagging if each not in named)) if session.lagging else named:
            self._arrive(each)
        is_urgent = bool(self._refused) or self._is_diverging or not session.partitions
        if is_urgent or request.max_wait_ms <= 0 or self._has_enough():
            return self._respond()
        session.waiting = self
        self._promise = Promise(self._abandon)
        self._timer = self._node.clock.call_later(request.max_wait_ms, self._finish)
        if self._leaves_out:
            self._await_quota()
        return self._promise

    # ---- what the follower says

    def _arrive(self, each: SessionPartition) -> None:
        """Takes note of what the follower has, unless something is wrong with it."""
        session, asked = self._session, each.asked
        try:
            partition = self._unsurprising(each)
            if partition is None:
                partition = self._partition(each)
                if self._diverging_epoch(partition, asked) is not None:
                    session.dirty[each] = None
                    self._is_diverging = True
                    return
                if not partition.log.log_start_offset <= asked.fetch_offset <= partition.log.log_end_offset:
                    raise OffsetOutOfRange(f"{asked.fetch_offset} is not in {partition.topic_partition}")
            partition.follower_fetched(
                session.replica_id,
                session.replica_epoch,
                asked.fetch_offset,
                asked.log_start_offset,
                session.fetched_ms,
            )
        except KafkaError as error:
            self._refused[each] = self._refuse(each, error)
            session.lagging[each] = None
            return
        if session.replica_id in partition.in_sync.isr:
            if session.lagging:
                session.lagging.pop(each, None)
        else:
            session.lagging[each] = None
        if asked.fetch_offset < partition.log.log_end_offset:
            session.dirty[each] = None
        elif session.dirty:
            session.dirty.pop(each, None)

    def _unsurprising(self, each: SessionPartition) -> LeaderPartition | None:
        """Returns the partition if all is as nearly always: led here as before, and what is asked for lies in the log,
        in the epoch that goes on. It is one call for each partition of a fetch; `_partition` says what else may be."""
        partition, asked = each.partition, each.asked
        if partition is None or partition.is_detached:
            return None
        epoch, log = partition.leader_epoch, partition.log
        if (
            asked.last_fetched_epoch == epoch == asked.current_leader_epoch
            and log.log_start_offset <= asked.fetch_offset <= log.log_end_offset
            and self._session.replica_id in partition.in_sync.followers
        ):
            return partition
        return None

    def _partition(self, each: SessionPartition) -> LeaderPartition:
        """Returns the partition, if it is led here in the epoch that the follower knows."""
        partition, epoch = each.partition, each.asked.current_leader_epoch
        if partition is None or partition.is_detached:
            partition = self._enter(each)
        if epoch != partition.leader_epoch:
            partition.check_leader_epoch(epoch)
        if self._session.replica_id not in partition.in_sync.followers:
            # In an epoch that both know, this leader may only have yet to hear of it; otherwise nobody can tell.
            error = NotLeaderOrFollower if epoch == NO_EPOCH else UnknownLeaderEpoch
            raise error(f"broker {self._session.replica_id} is no replica of {partition.topic_partition}")
        return partition

    def _enter(self, each: SessionPartition) -> LeaderPartition:
        """Returns the partition that is led here now, of which the session hears from now on."""
        topic, index = each.key
        try:
            name = self._topic_name(topic) if isinstance(topic, bytes) else topic
            partition = self._node.replicas.partition(name, index, each.asked.current_leader_epoch)
        except KafkaError:
            each.leave()
            raise
        each.enter(partition)
        return partition

    def _topic_name(self, topic_id: bytes) -> str:
        topic = self._node.image.topic_by_id(topic_id)
        if topic is None:
            raise UnknownTopicId("no topic has this id")
        return topic.name

    @staticmethod
    def _diverging_epoch(partition: LeaderPartition, asked: FetchPartition) -> EpochEndOffset | None:
        epoch = asked.last_fetched_epoch
        return diverging_epoch(partition, asked.fetch_offset, epoch) if epoch >= 0 else None

    # ---- waiting

    def _has_enough(self) -> bool:
        """Returns whether what is dirty fills the answer, or cannot wait."""
        missing_bytes = min(self._request.min_bytes, self._max_bytes)
        self._leaves_out = False
        for each in self._session.dirty:
            partition, asked = each.partition, each.asked
            if partition is None or asked.current_leader_epoch not in (NO_EPOCH, partition.leader_epoch):
                return True
            if partition.log.config.throttled_leaders is not None and self._must_wait(partition):
                self._leaves_out = True
                continue
            if missing_bytes <= 1:
                return True
            try:
                unread_bytes = partition.unread_bytes(asked.fetch_offset, Isolation.LOG_END)
            except KafkaError:
                return True  # so the follower is told
            if unread_bytes is None:
                return True
            missing_bytes -= min(unread_bytes, max(asked.partition_max_bytes, 0))
        return missing_bytes <= 0

    def on_news(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._node.clock.call_soon(self._look)

    def _look(self) -> None:
        self._is_woken = False
        if self._session.waiting is not self:
            return
        if self._has_enough():
            self._finish()
        elif self._leaves_out:
            self._await_quota()

    def overtaken(self) -> None:
        self._finish()

    def _finish(self) -> None:
        assert self._promise is not None
        self._stop_waiting()
        try:
            response = self._respond()
        except Exception as error:
            return self._promise.fail(error)
        self._promise.resolve(response)

    def _abandon(self) -> None:
        self._stop_waiting()
        self._end_if_unkept()

    def _end_if_unkept(self) -> None:
        if self._session.id == NO_SESSION:
            self._session.forget(list(self._session.partitions))

    def _stop_waiting(self) -> None:
        assert self._timer is not None
        self._timer.cancel()
        if self._session.waiting is self:
            self._session.waiting = None
        if self._awaits_quota:
            self._node.throttles.leader.stop_waiting(self.on_news)

    # ---- throttled partitions

    def _is_throttled(self, partition: LeaderPartition) -> bool:
        throttled = partition.log.config.throttled_leaders
        return throttled is not None and throttled.include(partition.topic_partition.partition, self._node.node_id)

    def _must_wait(self, partition: LeaderPartition) -> bool:
        """Returns whether nothing is sent of a partition for now."""
        is_in_sync = self._session.replica_id in partition.in_sync.isr
        return not is_in_sync and self._is_throttled(partition) and self._node.throttles.leader.is_exceeded

    def _await_quota(self) -> None:
        self._awaits_quota = True
        self._node.throttles.leader.wait(self.on_news)

    # ---- answering

    def _respond(self) -> FetchResponse:
        session = self._session
        topics: dict[str | bytes, list[PartitionData]] = {}
        for each, data in self._found():
            # A follower that is told where to cut its log takes nothing else from the answer.
            is_taken = not data.error_code and data.diverging_epoch.epoch < 0
            each.high_watermark = data.high_watermark if is_taken else -1
            each.log_start_offset = data.log_start_offset
            each.told_ms = session.fetched_ms
            topics.setdefault(each.key[0], []).append(data)
        self._end_if_unkept()
        return FetchResponse(
            session_id=session.id,
            responses=[
                FetchableTopicResponse(topic_id=name, partitions=partitions)
                if isinstance(name, bytes)
                else FetchableTopicResponse(topic=name, partitions=partitions)
                for name, partitions in topics.items()
            ],
        )

    def _found(self) -> list[tuple[SessionPartition, PartitionData]]:
        """Returns what the answer says of each partition that has news."""
        session, left = self._session, self._max_bytes
        found = list(self._refused.items())
        size = 0
        for each in list(session.dirty):
            if each in self._refused:
                continue
            data = self._read(each, min(each.asked.partition_max_bytes, left), at_least_one=size == 0)
            if data is None:
                continue
            records_size = len(data.records) if data.records else 0  # type: ignore[arg-type]
            if records_size:
                size += records_size
                left = max(0, left - records_size)
                session.dirty[each] = session.dirty.pop(each)  # the others come first next time
            found.append((each, data))
        others: Iterable[SessionPartition]
        if self._is_whole:
            told = {each for each, _ in found}
            others = [each for each in session.partitions.values() if each not in told]
        else:
            others = session.sweep(self._node.clock.monotonic_ms())
        found += [(each, _offsets_of(each)) for each in others if each not in self._refused]
        return found

    def _read(self, each: SessionPartition, max_bytes: int, *, at_least_one: bool) -> PartitionData | None:
        """Returns the records of a dirty partition, or what is wrong; None if the answer is full."""
        asked = each.asked
        try:
            partition = self._unsurprising(each)
            if partition is None:
                partition = self._partition(each)
                if (diverging := self._diverging_epoch(partition, asked)) is not None:
                    data = _offsets_of(each)
                    data.diverging_epoch = diverging
                    return data
            may_be_throttled = partition.log.config.throttled_leaders is not None
            records = None
            if not (may_be_throttled and self._must_wait(partition)):
                records = partition.read_as_follower(asked.fetch_offset, max_bytes, at_least_one=at_least_one)
        except KafkaError as error:
            self._session.lagging[each] = None
            return self._refuse(each, error)
        if asked.fetch_offset >= partition.log.log_end_offset:
            self._session.dirty.pop(each, None)  # it was woken for something else
        if records is None and not each.has_news:
            return None
        data = _offsets_of(each)
        if records is not None:
            data.records = records
            if may_be_throttled and self._is_throttled(partition):
                self._node.throttles.leader.record(len(records))
        return data

    def _refuse(self, each: SessionPartition, error: KafkaError) -> PartitionData:
        data = PartitionData(
            partition_index=each.key[1],
            error_code=error.code,
            high_watermark=-1,
            aborted_transactions=() if isinstance(error, (UnknownTopicId, UnknownTopicOrPartition)) else None,
            records=b"",
        )
        if self._names_leaders and isinstance(error, (NotLeaderOrFollower, FencedLeaderEpoch)):
            described = described_partition(self._node.image, *each.key)
            if described is not None:
                data.current_leader = LeaderIdAndEpoch(leader_id=described.leader, leader_epoch=described.leader_epoch)
        return data


def _offsets_of(each: SessionPartition) -> PartitionData:
    assert each.partition is not None, "it would have been refused"
    log = each.partition.log
    return PartitionData(
        partition_index=each.key[1],
        error_code=0,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        aborted_transactions=None,
        records=b"",
    )
