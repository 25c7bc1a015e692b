import pytest

from barnabas.broker.lifecycle import NOT_REGISTERED, BrokerLifecycle
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import BrokerRegistrationResponse
from barnabas.replication.metadata.image import empty_image
from tests.broker.test_producer_ids import SlowController
from tests.replication.clusters import registration

REFUSAL = KafkaError("this is another cluster", ErrorCode.INCONSISTENT_CLUSTER_ID)


def test_a_broker_registers_and_says_how_far_it_has_come() -> None:
    controller, image = SlowController(), empty_image("a cluster")._replace(end_offset=42)
    lifecycle = BrokerLifecycle(1, controller, lambda: image)
    active = lifecycle.start(registration(1))
    assert lifecycle.broker_epoch == NOT_REGISTERED
    controller.asked[0].resolve(BrokerRegistrationResponse(error_code=0, broker_epoch=41))
    heartbeat = controller.requests[1]
    assert (heartbeat.broker_epoch, heartbeat.current_metadata_offset, heartbeat.want_fence) == (41, 41, False)
    assert (lifecycle.broker_epoch, active.done) == (41, False)
    controller.asked[1].resolve(BrokerHeartbeatResponse(error_code=0, is_fenced=False, should_shut_down=False))
    assert active.done
    assert active.error is None


@pytest.mark.parametrize("step", [0, 1])
def test_a_broker_that_is_refused_does_not_become_active(step: int) -> None:
    controller = SlowController()
    active = BrokerLifecycle(1, controller, lambda: empty_image("a cluster")).start(registration(1))
    if step == 1:
        controller.asked[0].resolve(BrokerRegistrationResponse(error_code=0, broker_epoch=41))
    controller.asked[step].fail(REFUSAL)
    assert active.error is REFUSAL
