import pytest

from barnabas.base.promise import Promise
from barnabas.broker.cluster.lifecycle import (
    CONTROLLED_SHUTDOWN_MS,
    NOT_REGISTERED,
    BrokerLifecycle,
    LifecycleSettings,
)
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import BrokerRegistrationResponse
from barnabas.replication.metadata.image import MetadataImage
from tests.broker.slow_controller import SlowController
from tests.fakes import FakeClock, FakeReport
from tests.replication.clusters import cluster, registration, uuid

SETTINGS = LifecycleSettings(heartbeat_interval_ms=2_000, registration_timeout_ms=60_000)


class Lifecycle:
    """A broker's lifecycle under a controller that answers when a test does."""

    def __init__(self, *others: int) -> None:
        self.image: MetadataImage = cluster(1, *others)._replace(end_offset=42)
        self.controller = SlowController()
        self.clock = FakeClock()
        self.report = FakeReport()
        self.broker = BrokerLifecycle(1, self.controller, self.clock, self.report, lambda: self.image, SETTINGS)

    def registered(self) -> "Lifecycle":
        registered = self.broker.register(registration(1))
        self.answer(BrokerRegistrationResponse(error_code=0, broker_epoch=41))
        assert registered.done
        return self

    def active(self) -> "Lifecycle":
        active = self.registered().broker.activate()
        self.beat()
        assert active.done
        return self

    def answer(self, response: object) -> None:
        self.controller.asked[-1].resolve(response)

    def beat(self, *, is_fenced: bool = False, should_shut_down: bool = False) -> None:
        self.answer(BrokerHeartbeatResponse(error_code=0, is_fenced=is_fenced, should_shut_down=should_shut_down))

    def refuse(self, code: ErrorCode) -> None:
        self.controller.asked[-1].fail(KafkaError("no", code))

    @property
    def requests(self) -> int:
        return len(self.controller.requests)


def test_a_broker_registers_and_says_how_far_it_has_come() -> None:
    life = Lifecycle()
    life.broker.register(registration(1))
    assert life.broker.broker_epoch == NOT_REGISTERED
    life.answer(BrokerRegistrationResponse(error_code=0, broker_epoch=41))
    active = life.broker.activate()
    heartbeat = life.controller.requests[1]
    assert (heartbeat.broker_epoch, heartbeat.current_metadata_offset, heartbeat.want_fence) == (41, 41, False)
    assert (life.broker.broker_epoch, active.done) == (41, False)
    life.beat()
    assert (active.done, active.error) == (True, None)


@pytest.mark.parametrize("code", [ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.INVALID_REGISTRATION])
def test_a_refusal_that_no_repetition_can_change_ends_the_start(code: ErrorCode) -> None:
    life = Lifecycle()
    registered = life.broker.register(registration(1))
    life.refuse(code)
    assert isinstance(registered.error, KafkaError)


def test_a_broker_whose_predecessor_has_a_session_asks_until_that_ends_or_its_time_is_over() -> None:
    life = Lifecycle()
    registered = life.broker.register(registration(1))
    for _ in range(3):
        life.refuse(ErrorCode.DUPLICATE_BROKER_REGISTRATION)
        life.clock.advance(100)
    assert (life.requests, registered.done) == (4, False)
    life.clock.advance(SETTINGS.registration_timeout_ms)
    life.refuse(ErrorCode.DUPLICATE_BROKER_REGISTRATION)
    assert isinstance(registered.error, KafkaError)


def test_a_broker_that_is_fenced_asks_again_soon_and_then_reports_at_intervals() -> None:
    life = Lifecycle().registered()
    active = life.broker.activate()
    life.beat(is_fenced=True)
    life.clock.advance(10)
    assert (life.requests, active.done) == (3, False)
    life.beat()
    assert active.done
    life.clock.advance(1_999)
    assert life.requests == 3
    life.clock.advance(1)
    assert life.requests == 4


def test_another_controller_hears_of_the_broker_at_once() -> None:
    life = Lifecycle().active()
    life.broker.heartbeat()
    assert life.requests == 3
    life.broker.heartbeat()
    assert life.requests == 3, "one report is under way"


def test_a_report_that_fails_is_repeated() -> None:
    life = Lifecycle().active()
    life.clock.advance(2_000)
    life.refuse(ErrorCode.REQUEST_TIMED_OUT)
    life.clock.advance(100)
    assert life.requests == 4


def test_a_broker_that_was_unregistered_registers_again() -> None:
    life = Lifecycle().active()
    life.image = life.image._replace(brokers={})
    life.clock.advance(2_000)
    life.refuse(ErrorCode.STALE_BROKER_EPOCH)
    life.answer(BrokerRegistrationResponse(error_code=0, broker_epoch=77))
    life.clock.advance(10)
    assert (life.controller.requests[-1].broker_epoch, life.broker.broker_epoch) == (77, 77)
    assert life.report.having("registering again")


def test_a_broker_that_runs_registers_until_it_is_known_again() -> None:
    life = Lifecycle().active()
    life.image = life.image._replace(brokers={})
    life.clock.advance(2_000)
    life.refuse(ErrorCode.STALE_BROKER_EPOCH)
    life.refuse(ErrorCode.INVALID_REGISTRATION)
    assert life.report.having("does not take this broker again")
    life.clock.advance(10_000)
    life.answer(BrokerRegistrationResponse(error_code=0, broker_epoch=77))
    life.clock.advance(10)
    assert life.controller.requests[-1].broker_epoch == 77


# ---- leave


def is_waiting(promise: Promise[None]) -> bool:
    return not promise.done


def test_a_broker_without_another_goes_without_leave() -> None:
    assert Lifecycle().active().broker.leave().done


def test_a_broker_that_never_registered_goes_without_leave() -> None:
    assert Lifecycle(2).broker.leave().done


def test_a_broker_goes_when_it_may() -> None:
    life = Lifecycle(2).active()
    may_go: Promise[None] = life.broker.leave()
    assert life.controller.requests[-1].want_shut_down
    life.beat()
    life.clock.advance(50)
    assert is_waiting(may_go)
    life.beat(should_shut_down=True)
    assert may_go.done
    requests = life.requests
    life.clock.advance(60_000)
    assert life.requests == requests, "it reports no more"


def test_a_broker_that_gets_no_leave_goes_all_the_same() -> None:
    life = Lifecycle(2).active()
    may_go = life.broker.leave()
    life.clock.advance(CONTROLLED_SHUTDOWN_MS - 1)
    assert is_waiting(may_go)
    life.clock.advance(1)
    assert may_go.done
    assert life.report.having("no leave")


def test_a_broker_whom_no_controller_can_let_go_any_more_does_not_wait_long() -> None:
    life, in_vain = Lifecycle(2).active(), False
    may_go = life.broker.leave(lambda: in_vain)
    life.clock.advance(1_000)
    in_vain = True
    life.clock.advance(300)
    in_vain = False  # they have come back
    life.clock.advance(300)
    in_vain = True
    life.clock.advance(450)
    assert is_waiting(may_go)
    life.clock.advance(100)
    assert may_go.done
    assert life.report.having("too few controllers")
    life.clock.advance(CONTROLLED_SHUTDOWN_MS)
    assert not life.report.having("no leave")


# ---- log dirs


def test_a_log_dir_that_failed_is_reported_at_once_and_in_every_heartbeat_from_then_on() -> None:
    life = Lifecycle(2).active()
    life.broker.log_dir_failed(uuid(7))
    assert life.controller.requests[-1].offline_log_dirs == (uuid(7),)
    assert not life.broker.has_told_of(uuid(7))
    life.beat()
    assert life.broker.has_told_of(uuid(7))
    life.clock.advance(SETTINGS.heartbeat_interval_ms)
    assert life.controller.requests[-1].offline_log_dirs == (uuid(7),)


def test_a_log_dir_that_fails_while_a_heartbeat_is_under_way_does_not_wait_for_the_one_after() -> None:
    life = Lifecycle(2).active()
    life.broker.heartbeat()
    requests = life.requests
    life.broker.log_dir_failed(uuid(7))
    assert life.requests == requests
    life.beat()  # it did not say so
    assert not life.broker.has_told_of(uuid(7))
    life.clock.advance(0)
    assert life.controller.requests[-1].offline_log_dirs == (uuid(7),)


def test_a_report_of_a_failed_log_dir_that_was_refused_is_sent_again_after_a_moment() -> None:
    life = Lifecycle(2).active()
    life.broker.log_dir_failed(uuid(7))
    requests = life.requests
    life.refuse(ErrorCode.REQUEST_TIMED_OUT)
    life.clock.advance(99)
    assert (life.requests, life.broker.has_told_of(uuid(7))) == (requests, False)
    life.clock.advance(1)
    assert life.controller.requests[-1].offline_log_dirs == (uuid(7),)


def test_a_log_dir_that_fails_before_the_broker_is_ready_is_in_its_first_heartbeat() -> None:
    life = Lifecycle(2).registered()
    life.broker.log_dir_failed(uuid(7))
    assert life.requests == 1
    life.broker.activate()
    assert life.controller.requests[-1].offline_log_dirs == (uuid(7),)
