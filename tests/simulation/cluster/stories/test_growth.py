"""A broker that was alone becomes the first of three, and its quorum grows with it."""

from barnabas.replication.quorum.voters import VoterSet
from tests.simulation.scenarios.brokers import SimulatedBroker
from tests.simulation.scenarios.cluster import CONTROLLER_PORT, SimulatedCluster, format_disk, node_properties
from tests.simulation.world import World

ALONE = {"listeners": "PLAINTEXT://:9092", "advertised.listeners": "PLAINTEXT://broker-1:9092"}
JOINS = {"controller.quorum.auto.join.enable": "true"}


def voters_of(broker: SimulatedBroker) -> VoterSet:
    return broker.server.node.quorum.driver.core.replica.voters


def restarted(broker: SimulatedBroker, properties: dict[str, str]) -> None:
    stopped: list[bool] = []
    broker.stop(then=lambda: stopped.append(True))
    broker.world.scheduler.run_until_true(lambda: bool(stopped), within_ms=10_000, what="it has stopped")
    broker.properties |= properties
    broker.start()
    broker.wait_until_ready()


def test_a_broker_that_was_alone_becomes_the_first_of_three_voters() -> None:
    world = World(1)
    first = SimulatedBroker(world, 1, ALONE)
    first.start()
    first.wait_until_ready()
    cluster_id = first.server.node.image.cluster_id
    restarted(first, node_properties(1, [1]))
    others = []
    for node_id in (2, 3):
        broker = SimulatedBroker(world, node_id, node_properties(node_id, [1, 2, 3]) | JOINS)
        format_disk(broker, bytes([node_id]) * 16, ())
        broker.start()
        others.append(broker)
    world.scheduler.run_until_true(lambda: len(voters_of(first)) == 3, within_ms=10_000, what="all three vote")
    assert {broker.server.node.image.cluster_id for broker in others} == {cluster_id}
    addresses = {node.key.node_id: node.addresses[0][1:] for node in voters_of(first)}
    assert addresses == {node_id: (f"broker-{node_id}", CONTROLLER_PORT) for node_id in (1, 2, 3)}
    first.kill()
    world.scheduler.run_until_true(
        lambda: any(broker.is_controller for broker in others), within_ms=2_000, what="another leads"
    )


def test_a_voter_that_lost_its_disk_votes_again_with_a_new_one() -> None:
    world = World(2)
    cluster = SimulatedCluster(world, 3, JOINS)
    cluster.start()
    cluster.wait_until_ready()
    wiped = next(broker for broker in cluster.brokers if not broker.is_controller)
    wiped.kill()
    wiped.machine.files.rmtree("/data")
    format_disk(wiped, b"\x99" * 16, ())
    wiped.start()
    world.scheduler.run_until_true(
        lambda: (
            wiped.is_running
            and wiped.is_ready
            and voters_of(wiped).get(wiped.node_id) is not None
            and wiped.server.node.quorum.driver.core.replica.is_voter
        ),
        within_ms=20_000,
        what="the new disk votes",
    )
    leader = cluster.controller
    assert leader is not None
    assert len(voters_of(leader)) == 3
