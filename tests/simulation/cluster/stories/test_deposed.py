"""A controller that learns from a request itself that it leads no more."""

from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.simulation.clients.client import Place, check
from tests.simulation.clients.script import Script
from tests.simulation.cluster.administrator import creatable
from tests.simulation.cluster.facts import Facts
from tests.simulation.cluster.replicas.claims import DataOracle
from tests.simulation.cluster.routing import ClusterClient
from tests.simulation.scenarios.cluster import SimulatedCluster
from tests.simulation.seeds import replayable
from tests.simulation.world import World

PROPERTIES = {"controller.quorum.fetch.timeout.ms": "1000", "controller.quorum.election.timeout.ms": "400"}


class Creator(ClusterClient):
    """Has a connection, and later creates a topic through it."""

    def prepare(self) -> None:
        self.facts = Facts()
        self.is_connected = False

    def script(self) -> Script[None]:
        link = self.link_to(self.broker)
        yield link.send(MetadataRequest(topics=[]), MetadataResponse)
        self.is_connected = True
        yield self.sleep(1_500)
        request = CreateTopicsRequest(topics=[creatable("created", 1, 1)], timeout_ms=30_000)
        response = yield link.send(request, CreateTopicsResponse, timeout_ms=30_000)
        check(response.topics[0].error_code)
        self.facts.created("created", response.topics[0].topic_id, 1)


def test_what_is_appended_when_a_leadership_ends_is_not_answered_by_what_the_next_leader_writes_there() -> None:
    """The controller stands still for longer than it may lead without a majority. When it goes on, the request comes
    first: the append is what ends its leadership, and its record is cut off later."""
    world = World(1)
    cluster = SimulatedCluster(world, 3, PROPERTIES)
    network = world.network
    with replayable(1, world.trace):
        cluster.start()
        cluster.wait_until_ready()
        former = cluster.controller
        assert former is not None
        others = [broker for broker in cluster.brokers if broker is not former]
        creator = Creator(Place(world, former.address, DataOracle([], set())), "creator")
        creator.start()
        world.scheduler.run_until_true(lambda: creator.is_connected, within_ms=1_000, what="it is connected")
        for other in others:
            network.cut(former.machine.name, other.machine.name)
            network.cut(other.machine.name, former.machine.name)
        world.scheduler.run_for(1_000)
        former.process.loop.pause()
        world.scheduler.run_for(3_000)
        former.process.loop.resume()
        world.scheduler.run_for(100)
        network.heal_all()
        world.scheduler.run_until_true(lambda: creator.has_ended, within_ms=20_000, what="the topic is created")
        (controller,) = [broker for broker in others if broker.is_controller]
        creator.facts.check(controller.machine.name, controller.server.node.quorum.loader.image)
