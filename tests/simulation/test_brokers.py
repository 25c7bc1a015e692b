"""Several brokers on one simulated network ask each other through the request client, and connections break."""

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.base.promise import Promise
from barnabas.broker.network.buffers import Buffers
from barnabas.broker.network.peer_client import PeerClient, PeerSettings
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.simulation.clients.script import Script, run_script
from tests.simulation.net.streams import End
from tests.simulation.scenarios.brokers import SimulatedBroker
from tests.simulation.seeds import chosen_seeds, replayable
from tests.simulation.world import World

INTERVAL_MS = 250
QUESTIONS: list[tuple[Any, type[Any]]] = [
    (ApiVersionsRequest(client_software_name="simulated", client_software_version="1"), ApiVersionsResponse),
    (MetadataRequest(topics=[]), MetadataResponse),
    (DescribeClusterRequest(include_cluster_authorized_operations=False), DescribeClusterResponse),
]


class Conversation:
    """What one broker asks another, question after question."""

    def __init__(self, asking: SimulatedBroker, asked: SimulatedBroker) -> None:
        self.asking = asking
        self.asked = asked
        self.answers = 0
        self.failures = 0
        self.answered_ms = 0
        self.client = PeerClient(
            asked.address,
            asking.process.environment,
            Buffers(),
            client_id=asking.machine.name,
            settings=PeerSettings(timeout_ms=2_000),
        )
        run_script(self.script())

    def script(self) -> Script[None]:
        clock = self.asking.process.environment.clock
        number = 0
        while True:
            request, response_class = QUESTIONS[number % len(QUESTIONS)]
            number += 1
            try:
                response = yield self.client.send(request, response_class)
            except KafkaError:
                self.failures += 1
            else:
                self.check(response)
                self.answers += 1
                self.answered_ms = clock.monotonic_ms()
            pause: Promise[None] = Promise()
            clock.call_later(INTERVAL_MS, pause.resolve, None)
            yield pause

    def check(self, response: Any) -> None:
        assert not response.error_code
        if not isinstance(response, ApiVersionsResponse):
            (broker,) = response.brokers
            node_id = broker.broker_id if isinstance(response, DescribeClusterResponse) else broker.node_id
            assert f"broker-{node_id}" == self.asked.machine.name, "another broker answered"
            assert (broker.host, broker.port) == self.asked.address


class Cluster:
    def __init__(self, seed: int, size: int) -> None:
        self.world = World(seed)
        self.random = self.world.random("cluster", "faults")
        self.brokers = [SimulatedBroker(self.world, node_id) for node_id in range(1, size + 1)]
        for broker in self.brokers:
            broker.start()
        for broker in self.brokers:
            broker.wait_until_ready()
        self.conversations = [
            Conversation(asking, asked) for asking in self.brokers for asked in self.brokers if asking is not asked
        ]

    def faults(self) -> Iterator[str]:
        """Breaks something, and names it."""
        network, random = self.world.network, self.random
        while True:
            if random.random() < 0.5 and network.connections:
                connection = network.connections[random.choice(list(network.connections))]
                random.choice((connection.to_server, connection.to_client)).cut(
                    random.choice(list(End)), random.randrange(300)
                )
                yield "connection"
            else:
                source, target = random.sample(self.brokers, 2)
                network.cut(source.machine.name, target.machine.name)
                yield "path"


def run(seed: int, *, seconds: int = 60) -> Cluster:
    cluster = Cluster(seed, 3)
    with replayable(seed, cluster.world.trace):
        faults = cluster.faults()
        for _ in range(seconds // 3):
            next(faults)
            cluster.world.scheduler.run_for(2_000)
            if cluster.random.random() < 0.7:
                cluster.world.network.heal_all()
            cluster.world.scheduler.run_for(1_000)
        cluster.world.network.heal_all()
        cluster.world.scheduler.run_for(10_000)
        now_ms = cluster.world.scheduler.now_us // 1_000
        for conversation in cluster.conversations:
            assert conversation.answered_ms >= now_ms - 4 * INTERVAL_MS, f"{conversation.asking.address} hears nothing"
    return cluster


@pytest.mark.parametrize("seed", chosen_seeds(range(5)))
def test_three_brokers_answer_each_other_and_find_back_to_each_other_after_cuts(seed: int) -> None:
    cluster = run(seed)
    assert all(conversation.answers > 60 for conversation in cluster.conversations)
    assert any(conversation.failures for conversation in cluster.conversations)


def test_three_brokers_tell_the_same_story_twice() -> None:
    assert run(7, seconds=15).world.trace.hash() == run(7, seconds=15).world.trace.hash()


def test_a_broker_that_comes_back_is_asked_again() -> None:
    cluster = Cluster(1, 3)
    first, *_ = cluster.brokers
    others = [conversation for conversation in cluster.conversations if conversation.asking is not first]
    for how in (first.kill, first.cut_power):
        how()
        cluster.world.scheduler.run_for(5_000)
        first.start()
        cluster.world.scheduler.run_for(15_000)
        now_ms = cluster.world.scheduler.now_us // 1_000
        assert all(conversation.answered_ms >= now_ms - 4 * INTERVAL_MS for conversation in others)


def test_a_broker_that_is_stopped_while_it_starts_is_never_ready() -> None:
    stopped = 0
    for delay_ms in range(0, 40):
        world = World(delay_ms)
        with replayable(delay_ms, world.trace):
            broker = SimulatedBroker(world, 1)
            broker.start()
            world.scheduler.run_for(delay_ms / 4)
            if not broker.is_ready:
                stopped += 1
                broker.stop()
                world.scheduler.run_for(20_000)
                assert not broker.is_running
                assert not broker.is_ready
    assert stopped > 5
