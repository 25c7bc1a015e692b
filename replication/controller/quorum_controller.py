"""The controller at work: takes requests, has them decided, appends the records and answers when they are committed.

Rules:
- Only the leader of the quorum decides, on everything that is appended, committed or not: otherwise two requests could
  both create one topic.
- Answers leave in the order of the log, each after its image was published. A response that needs no records still
  waits for the records before it, because it follows from what they say.
- A leader that resigns answers NOT_CONTROLLER to all who wait, whatever becomes of their records. Those are in the log:
  the next leader commits them or has them cut off.
- Each leadership begins with a LeaderChange, the first batch of a new epoch.
- A full disk refuses an append and nothing has happened. Any other failure of the disk is final: no more decisions.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from barnabas.base.environment import Environment
from barnabas.base.promise import Promise, failed
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord
from barnabas.replication.controller.channel import ControllerRequestContext
from barnabas.replication.controller.cluster_control import bootstrap_records
from barnabas.replication.controller.controller import Controller
from barnabas.replication.controller.decision import refused
from barnabas.replication.metadata.batches import BATCH_BYTES_MAX, QuorumVoter, leader_change_batch
from barnabas.replication.metadata.commit_rule import UNKNOWN, CommitRule
from barnabas.replication.metadata.image import MetadataImage
from barnabas.replication.metadata.image_delta import MetadataDelta
from barnabas.replication.metadata.loader import MetadataLoader
from barnabas.replication.metadata.log import MetadataLog
from barnabas.replication.metadata.snapshots import SnapshotId, latest_image, remove_parts
from barnabas.replication.metadata.snapshotter import SNAPSHOTS_KEPT, SnapshotSettings, Snapshotter
from barnabas.storage.log import Log


class QuorumSettings(NamedTuple):
    node_id: int
    cluster_id: str
    voters: tuple[QuorumVoter, ...]
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
        environment: Environment,
        controller: Controller,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        """Loads what is on the disk; writes nothing before `become_leader`. `on_failure` is called when the metadata
        cannot be made durable: no broker can go on after that."""
        self._settings = settings
        self._environment = environment
        self._controller = controller
        self._on_failure = on_failure
        self.log = MetadataLog(log, batch_bytes_max=settings.batch_bytes_max)
        self.loader = self._loaded()
        self.snapshotter = Snapshotter(
            self.log, self.loader, environment, settings.snapshots, self, self.loader.image.end_offset
        )
        self._answers: deque[_Answer] = deque()
        self._commit_rule: CommitRule | None = None
        """The rule of this node's leadership; None while it does not lead."""
        self.epoch = -1
        """The leader epoch of its latest leadership."""
        self.failure: Exception | None = None
        """Set for good when records were appended that may never have reached the disk."""
        self._recover()

    def _loaded(self) -> MetadataLoader:
        files, path = self._environment.files, self.log.path
        remove_parts(files, path)
        return MetadataLoader(latest_image(files, path, self._settings.cluster_id, self._environment.report))

    def _recover(self) -> None:
        """Replays the log after the snapshot. With a single voter all that is found there counts as committed."""
        assert len(self._settings.voters) == 1, "with more voters the leader says what is committed"
        loader = self.loader
        loader.load(self.log.batches_from(loader.image.end_offset))
        if loader.in_transaction:
            self.log.found_open_transaction()
        loader.publish_next(self.log.log_end_offset)
        loader.forget_controller()

    # ---- snapshots

    def voters_at(self, end_offset: int) -> Sequence[QuorumVoter]:
        return self._settings.voters

    def on_snapshots(self, kept: Sequence[SnapshotId]) -> None:
        """Deletes the log before the older snapshot: should the newer one be lost, that one and the log serve."""
        if len(kept) == SNAPSHOTS_KEPT:
            self.log.delete_before(kept[0].end_offset)

    # ---- leadership

    @property
    def is_leader(self) -> bool:
        return self._commit_rule is not None

    def become_leader(self) -> Promise[None]:
        """Begins a new epoch; returns a promise that is kept when that is committed. Requests need not wait for it:
        their records come after it in the log."""
        assert not self.is_leader, "this node leads already"
        loader, settings, now_ms = self.loader, self._settings, self._environment.clock.now_ms()
        image = loader.appended_image
        self.epoch = max(image.epoch, self.log.latest_epoch, 0) + 1
        try:
            self.log.pad_to(image.end_offset, epoch=image.epoch, now_ms=now_ms, report=self._environment.report)
            start_offset = self.log.log_end_offset
            change = leader_change_batch(settings.node_id, settings.voters, now_ms=now_ms)
            self.log.append_batch(change, epoch=self.epoch, now_ms=now_ms)
            self.log.abort_open_transaction(epoch=self.epoch, now_ms=now_ms)
        except KafkaError as error:
            return failed(error)
        self._commit_rule = CommitRule((voter.node_id for voter in settings.voters), start_offset)
        leads = self._appended(loader.replayed(()), now_ms)
        if not image.features:
            self.append(bootstrap_records())
        return leads

    def resign(self) -> None:
        """Stops leading: nothing more is decided here, and nothing that was decided is answered as done."""
        self._commit_rule = None
        self._fail_answers(not_controller())

    # ---- requests

    def submit(self, request: Any, context: ControllerRequestContext) -> Promise[Any]:
        """Decides on a request; returns a promise of its response, kept when the response is true."""
        if self.failure is not None:
            return failed(self.failure)
        if not self.is_leader:
            return failed(not_controller())
        try:
            decision = self._controller.decide(request, context, self.loader.appended_image)
        except KafkaError as error:
            return failed(error)
        return self.append(decision.records).map(lambda _: decision.response)

    def append(self, records: Sequence[MetadataRecord]) -> Promise[None]:
        """Appends all records or none; returns a promise that is kept when they are committed and published."""
        if self.failure is not None:
            return failed(self.failure)
        if not self.is_leader:
            return failed(not_controller())
        if not records:
            return self._answer_at(self.loader.appended_image.end_offset)
        delta = self.loader.replayed(records)  # first: what cannot be replayed must not be in the log
        now_ms = self._environment.clock.now_ms()
        try:
            self.log.append(records, epoch=self.epoch, now_ms=now_ms)
        except KafkaError as error:
            return failed(error)
        return self._appended(delta, now_ms)

    def _appended(self, delta: MetadataDelta, now_ms: int) -> Promise[None]:
        end_offset, epoch, node_id = self.log.log_end_offset, self.epoch, self._settings.node_id
        self.loader.append(delta, end_offset=end_offset, epoch=epoch, now_ms=now_ms, controller_id=node_id)
        answer = self._answer_at(end_offset)
        self.log.flush().when_done(lambda flushed: self._flushed(flushed, epoch))
        return answer

    def _answer_at(self, end_offset: int) -> Promise[None]:
        promise: Promise[None] = Promise()
        if end_offset <= self.loader.image.end_offset:
            promise.resolve(None)
        else:
            self._answers.append(_Answer(end_offset, promise))
        return promise

    # ---- commit

    def _flushed(self, flushed: Promise[int], epoch: int) -> None:
        if flushed.error is not None:
            self._fail(flushed.error)
        elif self._commit_rule is not None and self.epoch == epoch:
            high_watermark = self._commit_rule.durable(self._settings.node_id, flushed.value)
            if high_watermark != UNKNOWN:
                self._commit(high_watermark)

    def _commit(self, high_watermark: int) -> None:
        self.log.advance_high_watermark(high_watermark)
        while (image := self.loader.publish_next(high_watermark)) is not None:
            self._answer(image)
        self.snapshotter.schedule()

    def _answer(self, image: MetadataImage) -> None:
        while self._answers and self._answers[0].end_offset <= image.end_offset:
            self._answers.popleft().promise.resolve(None)

    def _fail(self, error: Exception) -> None:
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
        self.snapshotter.close()


def not_controller() -> KafkaError:
    return refused(ErrorCode.NOT_CONTROLLER, "This node is not the active controller.")
