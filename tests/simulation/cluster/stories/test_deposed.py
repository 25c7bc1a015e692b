"""A controller that learns from a request itself that it leads no more."""

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.types import ZERO_UUID
from tests.simulation.clients.client import Place, check
from tests.simulation.clients.script import Script
from tests.simulation.cluster.administrator import creatable
from tests.simulation.cluster.facts import Facts
from tests.simulation.cluster.replicas.claims import DataOracle
from tests.simulation.cluster.routing import ClusterClient
from tests.simulation.scenarios.brokers import SimulatedBroker
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


class Deleter(ClusterClient):
    """Has a connection, and later deletes a topic through it that was created meanwhile."""

    def prepare(self) -> None:
        self.former = self.link_to(self.broker)
        self.topic_id = ZERO_UUID
        self.error_code = -1

    def script(self) -> Script[None]:
        yield self.former.send(MetadataRequest(topics=[]), MetadataResponse)
        while self.topic_id == ZERO_UUID:
            yield self.sleep(10)
        topics = [DeleteTopicState(name=None, topic_id=self.topic_id)]
        request = DeleteTopicsRequest(topics=topics, timeout_ms=10_000)
        response = yield self.former.send(request, DeleteTopicsResponse, timeout_ms=10_000)
        self.error_code = response.responses[0].error_code


def _cut_off(world: World, broker: SimulatedBroker, others: list[SimulatedBroker]) -> None:
    for other in others:
        world.network.cut(broker.machine.name, other.machine.name)
        world.network.cut(other.machine.name, broker.machine.name)


def test_a_controller_that_stood_still_does_not_say_that_it_knows_no_topic_of_its_successor() -> None:
    """When it goes on, the request is handled before the timer by which it would notice. Seed 5 of clusters."""
    world = World(2)
    cluster = SimulatedCluster(world, 3, PROPERTIES)
    with replayable(2, world.trace):
        cluster.start()
        cluster.wait_until_ready()
        former = cluster.controller
        assert former is not None
        others = [broker for broker in cluster.brokers if broker is not former]
        deleter = Deleter(Place(world, former.address, DataOracle([], set())), "deleter")
        deleter.start()
        world.scheduler.run_for(500)
        former.process.loop.pause()
        _cut_off(world, former, others)
        creator = Creator(Place(world, others[0].address, DataOracle([], set())), "creator")
        creator.start()
        world.scheduler.run_until_true(lambda: creator.has_ended, within_ms=20_000, what="the topic is created")
        deleter.topic_id = creator.facts.topics[0].topic_id
        world.scheduler.run_for(100)
        former.process.loop.resume()
        world.scheduler.run_for(100)
        world.network.heal_all()
        world.scheduler.run_until_true(lambda: deleter.has_ended, within_ms=20_000, what="the topic is deleted")
        assert deleter.error_code == ErrorCode.NONE


def test_what_is_appended_when_a_leadership_ends_is_not_answered_by_what_the_next_leader_writes_there() -> None:
    """The controller stands still for longer than it may lead without a majority. When it goes on, the request comes
    first."""
    world = World(1)
    cluster = SimulatedCluster(world, 3, PROPERTIES)
    with replayable(1, world.trace):
        cluster.start()
        cluster.wait_until_ready()
        former = cluster.controller
        assert former is not None
        others = [broker for broker in cluster.brokers if broker is not former]
        creator = Creator(Place(world, former.address, DataOracle([], set())), "creator")
        creator.start()
        world.scheduler.run_until_true(lambda: creator.is_connected, within_ms=1_000, what="it is connected")
        _cut_off(world, former, others)
        world.scheduler.run_for(1_000)
        former.process.loop.pause()
        world.scheduler.run_for(3_000)
        former.process.loop.resume()
        world.scheduler.run_for(100)
        world.network.heal_all()
        world.scheduler.run_until_true(lambda: creator.has_ended, within_ms=20_000, what="the topic is created")
        (controller,) = [broker for broker in others if broker.is_controller]
        creator.facts.check(controller.machine.name, controller.server.node.quorum.loader.image)
