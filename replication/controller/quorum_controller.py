"""The controller of a node: its part in the quorum and, while it leads, the requests that it decides.

Rules:
- Only the leader of the quorum decides, and only once a record of its own epoch is committed: then it has seen all that
  any leader before it has committed. It is *active* from then on.
- It decides on everything that is appended, committed or not: otherwise two requests could both create one topic.
- Answers leave in the order of the log, each after its image was published. A response that needs no records still
  waits for the records before it, because it follows from what they say.
- A leader that leads no more answers NOT_CONTROLLER to all who wait, whatever becomes of their records. Those are in
  the log: the next leader commits them or has them cut off.
- A full disk refuses an append and nothing has happened. Any other failure of the disk is final: no more decisions.
A node that is not a voter has one as well: it follows the log, and is never active.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.base.environment import Environment, Timer
from barnabas.base.promise import Promise, failed
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord
from barnabas.replication.controller.channel import ControllerRequestContext
from barnabas.replication.controller.cluster_control import first_records
from barnabas.replication.controller.controller import Controller
from barnabas.replication.controller.decision import refused
from barnabas.replication.metadata.batches import BATCH_BYTES_MAX
from barnabas.replication.metadata.image import MetadataImage
from barnabas.replication.metadata.log import MetadataLog
from barnabas.replication.metadata.snapshotter import SnapshotSettings, Snapshotter
from barnabas.replication.quorum.driver import QuorumDriver
from barnabas.replication.quorum.opening import ConfiguredVoters, open_quorum
from barnabas.replication.quorum.settings import Identity, QuorumConfig
from barnabas.storage.log import Log

if TYPE_CHECKING:
    from barnabas.replication.controller.partitions.leader_checks import LeaderChecks
    from barnabas.replication.quorum.interfaces import Peers

NOT_ACTIVE = -1
_LATE_MS = 1_000
"""A timer that is so late says that this process did not run, rather than that others are silent."""
_ABOUT_THE_QUORUM = frozenset((ApiKey.ADD_RAFT_VOTER, ApiKey.DESCRIBE_QUORUM, ApiKey.REMOVE_RAFT_VOTER))
"""What the quorum itself answers, where others ask its leader."""


class QuorumSettings(NamedTuple):
    me: Identity
    voters: ConfiguredVoters
    """Those that the configuration names; what is on the disk counts more."""
    quorum: QuorumConfig = QuorumConfig()
    snapshots: SnapshotSettings = SnapshotSettings()
    batch_bytes_max: int = BATCH_BYTES_MAX


class _Answer(NamedTuple):
    """An answer that waits until the log is committed up to an offset."""

    end_offset: int
    promise: Promise[None]


class QuorumController:
    def __init__(
        self,
        log: Log,
        settings: QuorumSettings,
        peers: "Peers",
        environment: Environment,
        controller: Controller,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        """Loads what is on the disk; writes nothing before `start`. `on_failure` is called when the metadata cannot be
        made durable: no broker can go on after that."""
        self._clock = environment.clock
        self._report = environment.report
        self._controller = controller
        self._on_failure = on_failure
        self._node_id = settings.me.key.node_id
        self.log = MetadataLog(log, batch_bytes_max=settings.batch_bytes_max)
        opened = open_quorum(self.log, settings.voters, settings.me.cluster_id, environment)
        self.loader = opened.loader
        self.driver = QuorumDriver(settings.me, settings.quorum, opened, peers, environment, self)
        self.snapshotter = Snapshotter(
            self.log, self.loader, environment, settings.snapshots, self.driver, self.loader.image.end_offset
        )
        self._answers: deque[_Answer] = deque()
        self._on_change: list[Callable[[], None]] = []
        self._fencing: Timer | None = None
        self._leader_checks: LeaderChecks | None = None
        """What this node looks at while it is active, and there is more than one broker."""
        self._checking_leaders: Timer | None = None
        self._activated_epoch = NOT_ACTIVE
        self.failure: Exception | None = None
        """Set for good when records were appended that may never have reached the disk."""

    def start(self) -> Promise[None]:
        """Joins the quorum. Returns a promise that is kept when requests of other nodes can be received."""
        return self.driver.start()

    # ---- leadership

    @property
    def active_epoch(self) -> int:
        """Returns the epoch in which this node decides; -1 while it does not. A leader that is deposed decides no more
        from that moment on, also while its disk is still taking note."""
        core = self.driver.core
        return self._activated_epoch if core.is_leader and core.epoch == self._activated_epoch else NOT_ACTIVE

    @property
    def is_active(self) -> bool:
        return self.active_epoch != NOT_ACTIVE

    @property
    def kraft_version(self) -> int:
        return self.driver.core.replica.history.kraft_version

    def on_change(self, heard: Callable[[], None]) -> None:
        """Calls `heard` whenever another node leads, or this one has become active."""
        self._on_change.append(heard)

    def on_leader_change(self, leader_id: int | None, epoch: int) -> None:
        if self._activated_epoch != NOT_ACTIVE and (leader_id, epoch) != (self._node_id, self._activated_epoch):
            self._deactivate()
        if leader_id is not None and leader_id != self._node_id:
            self._report.info(f"the controller is node {leader_id}, epoch {epoch}", controller=leader_id, epoch=epoch)
        self._tell_change()

    def _activate(self) -> None:
        self._activated_epoch = self.driver.core.epoch
        if self.loader.in_transaction:
            self.driver.abort_transaction()
        if not self.loader.appended_image.features:
            self.append(first_records(self._controller.settings.defaults.min_insync_replicas))
        image = self.loader.appended_image
        # The broker of this process registers again after each start, and does not wait for its own last session.
        others = [broker for broker in image.brokers.values() if broker.broker_id != self._node_id]
        unfenced = [broker.broker_id for broker in others if not broker.fenced]
        self._controller.sessions.begin(unfenced, now_ms=self._clock.monotonic_ms())
        self._look_later()
        if len(self.driver.core.replica.voters) > 1:
            epoch = self.active_epoch
            self._report.info(f"this node is the controller, epoch {epoch}", controller=self._node_id, epoch=epoch)
        self._tell_change()

    def _deactivate(self) -> None:
        self._activated_epoch = NOT_ACTIVE
        self._controller.sessions.clear()
        self._cancel_timers()
        self._fail_answers(not_controller())

    def _tell_change(self) -> None:
        for heard in self._on_change:
            heard()

    # ---- requests

    def submit(self, request: Any, context: ControllerRequestContext) -> Promise[Any]:
        """Decides on a request; returns a promise of its response, kept when the response is true."""
        if self.failure is not None:
            return failed(self.failure)
        self.driver.do_what_is_due()
        if not self.is_active:
            return failed(not_controller())
        if request.__api_key__ in _ABOUT_THE_QUORUM:
            return self.driver.receive(request)
        now_ms, image = self._clock.monotonic_ms(), self.loader.appended_image
        try:
            decision = self._controller.decide(request, context, image, now_ms=now_ms)
        except KafkaError as error:
            return failed(error)
        appended = self._append_and_tell(decision.records, image, request)
        self._look_later()
        return appended.map(lambda _: decision.response)

    def _append_and_tell(
        self, records: Sequence[MetadataRecord], image: MetadataImage, request: Any = None
    ) -> Promise[None]:
        """Appends what was decided on this image, and writes a line for people about partitions that it changes."""
        appended = self.append(records)
        if records and len(image.brokers) > 1:
            return appended.map(lambda _: self._tell(records, image, request))
        return appended

    def _tell(self, records: Sequence[MetadataRecord], image: MetadataImage, request: Any) -> None:
        from barnabas.replication.controller.partitions.news import is_news, partition_news  # a broker alone has none

        if not any(map(is_news, records)):
            return
        for line in partition_news(records, request, image):
            self._report.info(line.text, **line.fields)

    def append(self, records: Sequence[MetadataRecord]) -> Promise[None]:
        """Appends all records or none; returns a promise that is kept when they are committed and published."""
        if self.failure is not None:
            return failed(self.failure)
        if not self.is_active:
            return failed(not_controller())
        if not records:
            return self._answer_at(self.loader.appended_image.end_offset)
        try:
            end_offset = self.driver.append(records)
        except KafkaError as error:
            return failed(error)
        return self._answer_at(end_offset)

    def _answer_at(self, end_offset: int) -> Promise[None]:
        """Returns a promise that is kept when the log is committed up to this offset. The append itself may have ended
        this leadership, if a majority has been silent for too long: then another leader writes at that offset."""
        if self.failure is not None:
            return failed(self.failure)
        if not self.is_active:
            return failed(not_controller())
        promise: Promise[None] = Promise()
        if end_offset <= self.loader.image.end_offset:
            promise.resolve(None)
        else:
            self._answers.append(_Answer(end_offset, promise))
        return promise

    # ---- sessions of brokers

    def end_session(self, broker_id: int) -> None:
        """Fences a broker now: its process is known to be dead."""
        if self.is_active:
            self._controller.sessions.end(broker_id)
            self._check_sessions()

    def _check_sessions_later(self) -> None:
        """Keeps one timer, for the session that ends first. One that was prolonged is looked at again in its time."""
        due_ms = self._controller.sessions.next_deadline_ms()
        if due_ms is not None and self._fencing is None:
            now_ms = self._clock.monotonic_ms()
            due_ms = max(due_ms, now_ms)
            self._fencing = self._clock.call_later(due_ms - now_ms, self._check_sessions_at, due_ms)

    def _check_sessions_at(self, due_ms: int) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms - due_ms > _LATE_MS:
            self._controller.sessions.renew(now_ms=now_ms)
        self._check_sessions()

    def _check_sessions(self) -> None:
        self._cancel_fencing()
        while self.is_active:
            now_ms, image = self._clock.monotonic_ms(), self.loader.appended_image
            decision = self._controller.next_fencing(image, now_ms=now_ms)
            if decision is None:
                break
            self._append_and_tell(decision.records, image)
        self._check_sessions_later()

    def _cancel_fencing(self) -> None:
        if self._fencing is not None:
            self._fencing.cancel()
            self._fencing = None

    # ---- leaders of partitions

    def _look_later(self) -> None:
        """Keeps the timers that an active controller needs."""
        self._check_sessions_later()
        if self._checking_leaders is None and len(self.loader.appended_image.brokers) > 1:
            self._check_leaders_later()

    def _check_leaders_later(self) -> None:
        from barnabas.replication.controller.partitions.leader_checks import (
            LeaderChecks,
        )  # a broker alone has no choice

        now_ms = self._clock.monotonic_ms()
        if self._leader_checks is None:
            self._leader_checks = LeaderChecks(self._controller.settings, now_ms=now_ms)
        delay_ms = max(self._leader_checks.due_ms - now_ms, 0)
        self._checking_leaders = self._clock.call_later(delay_ms, self._check_leaders)

    def _check_leaders(self) -> None:
        self._checking_leaders = None
        assert self._leader_checks is not None
        if not self.is_active:
            return
        controller, image = self._controller, self.loader.appended_image
        now_ms = self._clock.monotonic_ms()
        records = self._leader_checks.check(image, controller.settings, controller.sessions, now_ms=now_ms)
        self._append_and_tell(records, image)
        self._look_later()

    def _cancel_timers(self) -> None:
        self._cancel_fencing()
        if self._checking_leaders is not None:
            self._checking_leaders.cancel()
            self._checking_leaders = None
        self._leader_checks = None

    # ---- commit

    def on_commit(self, high_watermark: int) -> None:
        while (image := self.loader.publish_next(high_watermark)) is not None:
            self._answer(image)
        core = self.driver.core
        if core.is_leader and not self.is_active and self.loader.image.epoch == core.epoch:
            self._clock.call_soon(self._activate_in_turn, core.epoch)
        self.snapshotter.schedule()

    def _activate_in_turn(self, epoch: int) -> None:
        """Activates after the quorum has done what it was about to do: from now on it is asked to append."""
        core = self.driver.core
        if core.is_leader and core.epoch == epoch and not self.is_active and self.failure is None:
            self._activate()

    def _answer(self, image: MetadataImage) -> None:
        while self._answers and self._answers[0].end_offset <= image.end_offset:
            self._answers.popleft().promise.resolve(None)

    def on_failure(self, error: Exception) -> None:
        """Ends all decisions: the appended image holds records that may never have reached the disk."""
        if self.failure is None:
            self.failure = error
            self.snapshotter.close()
            self._on_failure(error)
            self._fail_answers(error)

    def _fail_answers(self, error: Exception) -> None:
        answers, self._answers = self._answers, deque()
        for answer in answers:
            answer.promise.fail(error)

    def close(self) -> None:
        """Leaves no timer behind. The log itself is closed by the manager of all logs."""
        self.driver.close()
        self._cancel_timers()
        self.snapshotter.close()


def not_controller() -> KafkaError:
    return refused(ErrorCode.NOT_CONTROLLER, "This node is not the active controller.")
