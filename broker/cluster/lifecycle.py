"""A broker's place in its cluster: it registers at each start, reports to the controller, and takes its leave.

Rules:
- The controller is asked until it answers. Only what no repetition can change, such as another cluster's id, or
  `initial.broker.registration.timeout.ms` ends a start.
- A broker asks to be unfenced when it has applied the metadata up to its own registration: then it knows all that was
  decided before it came.
- Afterwards it reports every `broker.heartbeat.interval.ms`, and at once when there is another controller.
- A log dir that has failed is reported at once, and in every heartbeat from then on.
- A stop asks the controller first, so that leaders move while this broker still serves. It asks on until it may go, or
  for `CONTROLLED_SHUTDOWN_MS`. A broker without any other has nobody to hand over to, and goes; and so, soon, does the
  last one of a cluster that is stopped as a whole, because nobody can be the controller any more.
"""

from collections.abc import Callable, Iterable

from barnabas.base.environment import Clock, Report, Timer
from barnabas.base.promise import Promise, resolved
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import Uuid
from barnabas.replication.controller.channel import ControllerChannel, own_context
from barnabas.replication.metadata.image import MetadataImage

NOT_REGISTERED = -1
CONTROLLED_SHUTDOWN_MS = 5_000
_STARTING_MS = 10
_STOPPING_MS = 50
_IN_VAIN_MS = 500
_RETRY_MS = 100
_FINAL = frozenset(
    (
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.INVALID_REGISTRATION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNSUPPORTED_VERSION,
    )
)


class LifecycleSettings(NamedTuple):
    heartbeat_interval_ms: int = 2_000
    registration_timeout_ms: int = 60_000


class BrokerLifecycle:
    def __init__(
        self,
        node_id: int,
        controller: ControllerChannel,
        clock: Clock,
        report: Report,
        image: Callable[[], MetadataImage],
        settings: LifecycleSettings = LifecycleSettings(),  # noqa: B008 - a value
    ) -> None:
        """Takes `image`, which returns the metadata that this broker has applied."""
        self.node_id = node_id
        self.broker_epoch = NOT_REGISTERED
        self._controller = controller
        self._clock = clock
        self._report = report
        self._image = image
        self._settings = settings
        self._registration: BrokerRegistrationRequest | None = None
        self._timer: Timer | None = None
        self._is_waiting = False
        """Whether a heartbeat is under way."""
        self._is_ready = False
        """Whether this broker wants to be unfenced."""
        self._is_closed = False
        self._active: Promise[None] | None = None
        self._may_go: list[Promise[None]] = []
        """Those who wait for leave; empty if nobody has asked for it."""
        self._has_left = False
        self._offline_log_dirs: dict[Uuid, bool] = {}
        """The log dirs that have failed, and whether the controller has heard of it."""
        self._in_vain_since_ms: int | None = None

    # ---- registration

    def register(self, request: BrokerRegistrationRequest) -> Promise[None]:
        """Registers the broker; returns a promise that is kept when it has a broker epoch."""
        self._registration = request
        registered: Promise[None] = Promise()
        self._register(registered, self._clock.monotonic_ms() + self._settings.registration_timeout_ms)
        return registered

    def _register(self, registered: Promise[None], deadline_ms: int) -> None:
        if self._is_closed:
            return
        assert self._registration is not None

        def answered(answer: Promise[BrokerRegistrationResponse]) -> None:
            if answer.error is None:
                self.broker_epoch = answer.value.broker_epoch
                return registered.resolve(None)
            is_final = not isinstance(answer.error, KafkaError) or answer.error.code in _FINAL
            if is_final or self._clock.monotonic_ms() >= deadline_ms:
                return registered.fail(answer.error)
            self._clock.call_later(_RETRY_MS, self._register, registered, deadline_ms)

        request = self._registration
        self._controller.submit(request, own_context(request)).when_done(answered)

    # ---- heartbeats

    def activate(self) -> Promise[None]:
        """Asks to be unfenced; returns a promise that is kept when the cluster counts this broker among the active."""
        self._is_ready = True
        self._active = Promise()
        active = self._active
        self.heartbeat()
        return active

    def heartbeat(self) -> None:
        """Reports now, unless a report is under way."""
        if self._is_closed or self._is_waiting or self.broker_epoch == NOT_REGISTERED or not self._is_ready:
            return
        self._cancel_timer()
        self._is_waiting = True
        offline = tuple(self._offline_log_dirs)
        request = BrokerHeartbeatRequest(
            broker_id=self.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._image().end_offset - 1,
            want_fence=False,
            want_shut_down=bool(self._may_go),
            offline_log_dirs=offline,
        )
        answered = self._controller.submit(request, own_context(request))
        answered.when_done(lambda answer: self._on_heartbeat(answer, offline))

    def _on_heartbeat(self, answer: Promise[BrokerHeartbeatResponse], offline: Iterable[Uuid]) -> None:
        self._is_waiting = False
        if self._is_closed:
            return
        if answer.error is not None:
            return self._refused(answer.error)
        response = answer.value
        self._offline_log_dirs.update(dict.fromkeys(offline, True))
        if self._active is not None and not response.is_fenced:
            active, self._active = self._active, None
            active.resolve(None)
        if self._may_go and response.should_shut_down:
            return self._go()
        self._heartbeat_later(self._pause_ms)

    @property
    def _pause_ms(self) -> int:
        if not all(self._offline_log_dirs.values()):
            return 0
        if self._may_go:
            return _STOPPING_MS
        return _STARTING_MS if self._active is not None else self._settings.heartbeat_interval_ms

    def _heartbeat_later(self, delay_ms: int) -> None:
        self._cancel_timer()
        if not self._is_closed:
            self._timer = self._clock.call_when_awake(delay_ms, self.heartbeat)

    def _refused(self, error: Exception) -> None:
        if not isinstance(error, KafkaError):
            if self._active is not None:
                active, self._active = self._active, None
                active.fail(error)
            return
        if error.code == ErrorCode.STALE_BROKER_EPOCH and self._is_unknown():
            self._report.warning("the cluster does not know this broker any more: registering again")
            self._register_again()
            return
        self._heartbeat_later(min(_RETRY_MS, self._pause_ms or _RETRY_MS))

    def _register_again(self) -> None:
        """Registers a broker that runs, until it is known again: it serves clients, and has nobody to give up for."""
        assert self._registration is not None
        self.broker_epoch = NOT_REGISTERED

        def answered(registered: Promise[None]) -> None:
            if registered.error is None:
                self._heartbeat_later(_STARTING_MS)
            elif not self._is_closed:
                self._report.warning(f"the cluster does not take this broker again so far: {registered.error}")
                self._cancel_timer()
                self._timer = self._clock.call_later(_RETRY_MS, self._register_again)

        self.register(self._registration).when_done(answered)

    def _is_unknown(self) -> bool:
        """Returns whether the metadata hold no registration of this broker. An older image may hold one so far."""
        return self.node_id not in self._image().brokers

    # ---- log dirs

    def log_dir_failed(self, directory: Uuid) -> None:
        """Tells the controller that a log dir of this broker has failed."""
        self._offline_log_dirs.setdefault(directory, False)
        self.heartbeat()

    def has_told_of(self, directory: Uuid) -> bool:
        """Returns whether the controller knows that this log dir has failed."""
        return self._offline_log_dirs.get(directory, False)

    # ---- leave

    def leave(self, is_in_vain: Callable[[], bool] = lambda: False) -> Promise[None]:
        """Asks for leave; returns a promise that is kept when this broker may go. It may be asked for again: those who
        hand over before they stop do. `is_in_vain` says whether no controller can answer any more."""
        if self._may_go:
            if self._has_left:
                return resolved(None)
            self._may_go.append(Promise())
            return self._may_go[-1]
        others = [broker for broker in self._image().active_brokers if broker.broker_id != self.node_id]
        if not others or self.broker_epoch == NOT_REGISTERED or not self._is_ready:
            return resolved(None)
        may_go: Promise[None] = Promise()
        self._may_go.append(may_go)
        self._give_up_at(self._clock.monotonic_ms() + CONTROLLED_SHUTDOWN_MS, is_in_vain)
        self.heartbeat()
        return may_go

    def _give_up_at(self, deadline_ms: int, is_in_vain: Callable[[], bool]) -> None:
        """Looks again and again whether there is still anybody to wait for."""
        if self._has_left:
            return
        now_ms = self._clock.monotonic_ms()
        if not is_in_vain():
            self._in_vain_since_ms = None
        elif self._in_vain_since_ms is None:
            self._in_vain_since_ms = now_ms
        if self._in_vain_since_ms is not None and now_ms - self._in_vain_since_ms >= _IN_VAIN_MS:
            self._give_up_leave("too few controllers are left to give leave: stopping without")
        elif now_ms >= deadline_ms:
            self._give_up_leave(f"no leave from the controller within {CONTROLLED_SHUTDOWN_MS} ms: stopping without")
        else:
            pause_ms = min(_STOPPING_MS, deadline_ms - now_ms)
            self._clock.call_later(pause_ms, self._give_up_at, deadline_ms, is_in_vain)

    def _give_up_leave(self, why: str) -> None:
        self._report.warning(why)
        self._go()

    def _go(self) -> None:
        self.close()
        self._has_left = True
        for may_go in self._may_go:
            may_go.resolve(None)

    def close(self) -> None:
        """Reports no more."""
        self._is_closed = True
        self._cancel_timer()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
