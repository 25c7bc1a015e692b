"""Sessions of brokers on a controller that decides: who is silent is fenced, and nobody else."""

from pathlib import Path

import pytest

from barnabas.broker.system.disk import OsFiles
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from tests.replication.clusters import registration
from tests.replication.quorums import Quorum


@pytest.fixture
def quorum(tmp_path: Path) -> Quorum:
    return Quorum(OsFiles(), str(tmp_path / "data")).lead()


def heartbeat(quorum: Quorum, broker_id: int, epoch: int) -> None:
    request = BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=epoch,
        current_metadata_offset=epoch,
        want_fence=False,
        want_shut_down=False,
    )
    answer = quorum.submit(request)
    quorum.run()
    assert not answer.value.is_fenced


def joined(quorum: Quorum, broker_id: int) -> int:
    """Registers a broker and lets it be active; returns its epoch."""
    registered = quorum.submit(registration(broker_id))
    quorum.run()
    epoch: int = registered.value.broker_epoch
    heartbeat(quorum, broker_id, epoch)
    return epoch


def test_a_silent_broker_is_fenced_and_the_others_are_not(quorum: Quorum) -> None:
    silent, speaking = joined(quorum, 2), joined(quorum, 3)
    for _ in range(5):
        quorum.clock.advance(2_000)
        quorum.run()
        heartbeat(quorum, 3, speaking)
    assert {broker_id: broker.fenced for broker_id, broker in quorum.image.brokers.items()} == {2: True, 3: False}
    heartbeat(quorum, 2, silent)
    assert not quorum.image.brokers[2].fenced


def test_a_controller_that_did_not_run_does_not_take_that_for_the_silence_of_others(quorum: Quorum) -> None:
    epoch = joined(quorum, 2)
    quorum.clock.jump(3_600_000)
    quorum.run()
    assert not quorum.image.brokers[2].fenced
    heartbeat(quorum, 2, epoch)
    for _ in range(5):
        quorum.clock.advance(1_900)
        quorum.run()
    assert quorum.image.brokers[2].fenced


def test_a_broker_that_is_known_to_be_dead_is_fenced_at_once(quorum: Quorum) -> None:
    joined(quorum, 2)
    quorum.controller.end_session(2)
    quorum.run()
    assert quorum.image.brokers[2].fenced
