"""Fetches from one leader, over one connection, everything that this broker follows there.

Rules:
- One Fetch is under way at a time. The next leaves in the turn in which its answer was appended: it acknowledges what
  came, and the producers behind it are waiting.
- A partition that is new, or may be tried again, does not wait until the leader has something to say: a second Fetch
  overtakes the one that waits there. Their answers come in order.
- A fetch names what changed. What has no news costs nothing, on either side.
- An answer counts for a partition only if its offset and its epoch are still what was asked.
- Where a topic is flushed record by record, the next Fetch waits for the disk: to ask for an offset is to have all
  before it.
- What is throttled is left out while the quota is exceeded: see `throttled_partitions.py`.
- What goes wrong with a partition concerns that partition: it is left out for a while, or until the metadata change.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from barnabas.base.environment import Environment, Timer, report_bug
from barnabas.base.promise import Promise
from barnabas.broker.fetchers.fetchers import Follower, Leader
from barnabas.broker.fetchers.followed_partition import NOT_ASKED, FollowedPartition, State
from barnabas.broker.fetchers.offset_reset import OffsetReset
from barnabas.broker.fetchers.throttled_partitions import ThrottledPartitions
from barnabas.broker.network.buffers import Buffers
from barnabas.broker.network.peer_client import PeerClient, PeerSettings, PeerUnavailable
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData, ReplicaState
from barnabas.protocol.types import TopicPartition
from barnabas.replication.follower.answers import Verdict, judge, next_backoff_ms
from barnabas.replication.follower.fetch_session import INITIAL_EPOCH, FetchPosition, FollowerSession, Key

if TYPE_CHECKING:
    from barnabas.broker.replicas.follower import FollowerPartition

_SILENCE_MS = 10_000
"""How long an answer may be overdue before its connection counts as dead; replica.socket.timeout.ms if that is less."""
_UNDER_WAY_MAX = 2


class LeaderFetcher:
    def __init__(
        self,
        leader: Leader,
        follower: Follower,
        environment: Environment,
        buffers: Buffers,
        on_empty: Callable[["LeaderFetcher"], None],
    ) -> None:
        """Takes `on_empty`, which is called when nothing is followed here any more."""
        self.leader = leader
        self._follower = follower
        self._clock = environment.clock
        self._report = environment.report
        self._on_empty = on_empty
        settings = PeerSettings(
            connection_setup_timeout_ms=2_000, reconnect_backoff_ms=20, reconnect_backoff_max_ms=250
        )
        self._client = PeerClient(
            leader.address, environment, buffers, client_id=f"broker-{follower.node_id}-fetcher", settings=settings
        )
        self._session = FollowerSession(follower.config().replica_fetch_max_bytes)
        self._followed: dict[TopicPartition, FollowedPartition] = {}
        self._by_key: dict[Key, FollowedPartition] = {}
        self._flushing: dict[FollowedPartition, None] = {}
        self._throttled = ThrottledPartitions(follower, self._session, self._ask)
        self._under_way = 0
        self._requests = 0
        self._is_scheduled = False
        self._pause: Timer | None = None
        """Runs after a request that failed."""
        self._backoff_ms = 0
        self._is_closed = False

    # ---- what is followed

    def follow(self, partition: "FollowerPartition") -> None:
        name, leader_epoch = partition.topic_partition, partition.leader_epoch
        known = self._followed.get(name)
        if known is not None and known.partition is partition and known.leader_epoch == leader_epoch:
            if known.state is State.BACKING_OFF:
                self._try_again(known)
            return
        self.stop(name)
        followed = FollowedPartition(partition, leader_epoch)
        self._followed[name] = self._by_key[followed.key] = followed
        self._end_pause()
        self._ask(followed)

    def stop(self, topic_partition: TopicPartition) -> None:
        followed = self._followed.pop(topic_partition, None)
        if followed is None:
            return
        followed.state = State.STOPPED
        del self._by_key[followed.key]
        self._session.forget(followed.key)
        self._flushing.pop(followed, None)
        self._fetch_soon()

    def close(self) -> None:
        self._is_closed = True
        for followed in self._followed.values():
            followed.state = State.STOPPED
        self._throttled.close()
        self._client.close()

    # ---- asking

    def _ask(self, followed: FollowedPartition) -> None:
        """Asks for what follows the end of the log, as soon as all of that is durable."""
        if not followed.is_durable:
            return self._flush(followed)
        followed.state = State.FETCHING
        if self._session.ask(followed.key, followed.position()):
            followed.asked_in = self._requests + 1
        if followed.partition.log.config.throttled_followers is not None:
            self._throttled.ask(followed)
        self._fetch_soon()

    def _flush(self, followed: FollowedPartition) -> None:
        followed.state = State.FLUSHING
        self._flushing[followed] = None
        followed.partition.log.flush().when_done(lambda flushed: self._flushed(followed, flushed.error))

    def _flushed(self, followed: FollowedPartition, error: Exception | None) -> None:
        self._flushing.pop(followed, None)
        if followed.state is State.FLUSHING:
            if error is not None:
                self._stop(followed, f"it could not be flushed: {error}")
            else:
                self._ask(followed)
        self._fetch()

    def _try_again(self, followed: FollowedPartition) -> None:
        if followed.state is State.BACKING_OFF and not self._is_closed:
            self._ask(followed)

    def _fetch_soon(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._clock.call_soon(self._fetch_scheduled)

    def _fetch_scheduled(self) -> None:
        self._is_scheduled = False
        self._fetch()

    def _fetch(self) -> None:
        """Sends the next request, unless it has to wait for something."""
        if self._is_closed or self._pause is not None or self._flushing:
            return
        if not self._followed:
            return self._on_empty(self)
        if self._throttled.asked:
            self._throttled.leave_out()
        session = self._session
        if not len(session) or self._under_way >= _UNDER_WAY_MAX:
            return
        if self._under_way and not (session.is_established and session.has_changes):
            return
        self._send(session.next_request())

    def _send(self, request: FetchRequest) -> None:
        follower, config = self._follower, self._follower.config()
        self._requests += 1
        number = self._requests
        if request.session_epoch == INITIAL_EPOCH:  # it names those, too, that were asked for before
            for topic in request.topics:
                for partition in topic.partitions:
                    self._by_key[topic.topic_id, partition.partition].asked_in = number
        request.replica_id = follower.node_id
        request.replica_state = ReplicaState(replica_id=follower.node_id, replica_epoch=follower.broker_epoch())
        # A new session is answered at once: partitions that come a moment later need not wait behind it.
        request.max_wait_ms = 0 if request.session_epoch == INITIAL_EPOCH else config.replica_fetch_wait_max_ms
        request.min_bytes = config.replica_fetch_min_bytes
        request.max_bytes = config.replica_fetch_response_max_bytes
        self._under_way += 1
        timeout_ms = min(config.replica_socket_timeout_ms, request.max_wait_ms + _SILENCE_MS)
        answer = self._client.send(request, FetchResponse, timeout_ms=timeout_ms)
        answer.when_done(lambda answered: self._answered(request, number, answered))

    # ---- answers

    def _answered(self, request: FetchRequest, number: int, answer: Promise[FetchResponse]) -> None:
        self._under_way -= 1
        if self._is_closed:
            return
        if answer.error is not None:
            return self._failed(answer.error)
        if not self._session.accept(request, answer.value):
            return self._failed(KafkaError("no such session", ErrorCode(answer.value.error_code)))
        self._backoff_ms = 0
        self._take(answer.value, number)
        self._fetch()

    def _failed(self, error: Exception) -> None:
        """Starts a new session: at once after something that worked, otherwise after a pause."""
        if not isinstance(error, KafkaError):
            report_bug(self._report, error)
        self._session.lost()
        if isinstance(error, PeerUnavailable) and not error.was_sent:
            return self._fetch_soon()  # the client itself pauses between attempts to connect
        pause_ms, self._backoff_ms = self._backoff_ms, next_backoff_ms(self._backoff_ms, self._backoff_max_ms)
        if self._pause is None:
            self._pause = self._clock.call_later(pause_ms, self._end_pause)

    def _end_pause(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
            self._fetch_soon()

    def _take(self, response: FetchResponse, number: int) -> None:
        failed: list[FollowedPartition] = []
        by_key, now_ms = self._by_key, self._clock.now_ms()
        for topic in response.responses:
            topic_id = topic.topic_id
            for data in topic.partitions:
                followed = by_key.get((topic_id, data.partition_index))
                if followed is not None and (asked := self._still_asked(followed, number)) is not None:
                    self._take_partition(followed, asked, data, failed, now_ms)
        if failed:
            self._back_off(failed)

    def _still_asked(self, followed: FollowedPartition, number: int) -> FetchPosition | None:
        """Returns what an answer to this request is about, unless the partition stands elsewhere by now."""
        if followed.state is not State.FETCHING or not NOT_ASKED < followed.asked_in <= number:
            return None
        asked = self._session.position_of(followed.key)
        if asked is None or asked.fetch_offset != followed.partition.log.log_end_offset:
            return None
        return asked

    def _take_partition(
        self,
        followed: FollowedPartition,
        asked: FetchPosition,
        data: PartitionData,
        failed: list[FollowedPartition],
        now_ms: int,
    ) -> None:
        """Does what the answer asks for. Whatever happens here, the other partitions go on."""
        try:
            verdict = judge(asked, data)
            if verdict is Verdict.APPEND:
                followed.append(data, now_ms)
                if followed.partition.log.config.throttled_followers is not None:
                    self._throttled.appended(followed, data)
            elif verdict is Verdict.TRUNCATE:
                self._truncate(followed, data)
            elif verdict is Verdict.RESET:
                return self._reset(followed)
            elif verdict is Verdict.STOP:
                return self._stop(followed, "its leader has a later epoch")
            else:
                failed.append(followed)
                return
        except KafkaError as error:
            if followed.is_lost:
                return self._stop(followed, error.message)
            if not followed.backoff_ms:  # once, and not at every attempt: a full disk is no place for a flood of lines
                name = str(followed.partition.topic_partition)
                text = f"{name}: what broker {self.leader.broker_id} sent is not stored: {error}"
                self._report.warning(text, topic_partition=name)
            failed.append(followed)
            return
        except Exception as error:
            report_bug(self._report, error)
            return self._stop(followed, repr(error))
        followed.backoff_ms = 0
        self._ask_on(followed)

    def _ask_on(self, followed: FollowedPartition) -> None:
        """Asks for what follows; the request itself leaves when the whole answer is taken."""
        if not followed.is_durable:
            self._flush(followed)
        elif self._session.ask(followed.key, followed.position()):
            followed.asked_in = self._requests + 1

    def _truncate(self, followed: FollowedPartition, data: PartitionData) -> None:
        log, name = followed.partition.log, str(followed.partition.topic_partition)
        end_offset, high_watermark = log.log_end_offset, log.high_watermark
        offset = followed.truncate(data)
        text = f"{name}: cut from offset {end_offset} to {offset}, where it parts from its leader's log"
        if offset < high_watermark:
            self._report.warning(f"{text}; {high_watermark} was its high watermark", topic_partition=name)
        else:
            self._report.info(text, topic_partition=name)

    # ---- partitions in trouble

    @property
    def _backoff_max_ms(self) -> int:
        return self._follower.config().replica_fetch_backoff_ms

    def _back_off(self, failed: Iterable[FollowedPartition]) -> None:
        """Leaves partitions out for a while. Those that pause equally long share a timer."""
        by_pause: dict[int, list[FollowedPartition]] = {}
        for followed in failed:
            followed.state = State.BACKING_OFF
            followed.backoff_ms = next_backoff_ms(followed.backoff_ms, self._backoff_max_ms)
            self._session.forget(followed.key)
            by_pause.setdefault(followed.backoff_ms, []).append(followed)
        for pause_ms, together in by_pause.items():
            self._clock.call_later(pause_ms, self._try_all_again, together)

    def _try_all_again(self, together: list[FollowedPartition]) -> None:
        for followed in together:
            self._try_again(followed)

    def _stop(self, followed: FollowedPartition, why: str) -> None:
        followed.state = State.STOPPED
        self._session.forget(followed.key)
        name = str(followed.partition.topic_partition)
        self._report.info(f"{name} is not followed for now: {why}", topic_partition=name)

    def _reset(self, followed: FollowedPartition) -> None:
        """Asks where the leader's log begins and ends. The next Fetch follows these requests on the same connection."""
        followed.state = State.RESETTING
        self._session.forget(followed.key)
        OffsetReset(self._client, self._follower, followed).run().when_done(
            lambda reset: self._was_reset(followed, reset)
        )

    def _was_reset(self, followed: FollowedPartition, reset: Promise[tuple[int, int]]) -> None:
        if followed.state is not State.RESETTING:
            return
        try:
            if reset.error is not None:
                raise reset.error
            before = followed.partition.log.log_end_offset
            is_changed = followed.reset(*reset.value)
        except KafkaError as error:
            if followed.is_lost:
                return self._stop(followed, error.message)
            if error.code == ErrorCode.FENCED_LEADER_EPOCH:
                return self._stop(followed, "its leader has a later epoch")
            return self._back_off([followed])
        if not is_changed:
            return self._back_off([followed])  # the leader has moved on since; or it will say the same again
        after = followed.partition.log.log_end_offset
        name = str(followed.partition.topic_partition)
        text = f"{name}: begins anew at offset {after}: its leader has no offset {before}"
        self._report.warning(text, topic_partition=name)
        self._ask(followed)
