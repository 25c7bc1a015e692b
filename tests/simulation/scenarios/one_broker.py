"""A broker with producers and groups, and everything that can happen to them."""

import gc
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from barnabas.base.promise import Promise
from barnabas.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.protocol.types import TopicPartition
from tests.simulation.clients.classic_member import ClassicMember
from tests.simulation.clients.client import Place, SimulatedClient, check
from tests.simulation.clients.consumer_member import ConsumerMember
from tests.simulation.clients.producer import IdempotentProducer
from tests.simulation.clients.reader import Reader
from tests.simulation.clients.script import Script
from tests.simulation.scenarios.brokers import SimulatedBroker
from tests.simulation.scenarios.faults import KINDS, Faults, Target, draw_plan
from tests.simulation.scenarios.oracle import Oracle
from tests.simulation.scheduler import MS, random_of
from tests.simulation.world import World

FLUSHED = "flushed"
"""flush.messages=1: nothing that was acknowledged is lost, whatever happens."""
DEFAULT = "default"
"""Survives a kill; a power cut may take what the system had not written."""
PARTITIONS = 3
MAINTENANCE = ("barnabas.storage.", "barnabas.base.deadlines.")
PROPERTIES = {
    "log.flush.interval.messages": "1",
    "connections.max.idle.ms": "30000",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "500",
    "group.consumer.heartbeat.interval.ms": "2000",
    "group.consumer.session.timeout.ms": "10000",
    "group.consumer.min.session.timeout.ms": "10000",
    "group.consumer.min.heartbeat.interval.ms": "2000",
}


class Settings(NamedTuple):
    producers: int = 20
    interval_ms: float = 3_000
    """Between two batches of a producer, on average."""
    members: int = 2
    """Of each of the two groups."""
    duration_ms: int = 600_000
    faults: int = 60
    kinds: Sequence[str] = tuple(KINDS)


def short(seed: int, seconds: int) -> Settings:
    """A small run, in which each kind of fault may happen or not."""
    random = random_of(seed, "scenario", "settings")
    return Settings(
        producers=random.choice((3, 6, 10)),
        interval_ms=random.choice((300, 1_000, 3_000)),
        members=random.choice((1, 2, 3)),
        duration_ms=seconds * 1_000,
        faults=seconds // 5,
        kinds=[kind for kind in KINDS if random.random() < 0.5],
    )


class Administrator(SimulatedClient):
    """Creates the topics."""

    def script(self) -> Script[None]:
        topics = [
            _topic(FLUSHED, {"flush.messages": "1"}),
            _topic(DEFAULT, {"flush.messages": str(2**63 - 1)}),
        ]
        response = yield self.link().send(CreateTopicsRequest(topics=topics, timeout_ms=5_000), CreateTopicsResponse)
        for topic in response.topics:
            check(topic.error_code)


def _topic(name: str, configs: dict[str, str]) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=PARTITIONS,
        replication_factor=1,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )


def unsettled_promises() -> int:
    gc.collect()
    return sum(isinstance(found, Promise) and not found.done for found in gc.get_objects())


class OneBroker:
    def __init__(self, seed: int, settings: Settings = Settings()) -> None:  # noqa: B008 - a value
        self.settings = settings
        self.world = world = World(seed)
        self.scheduler = world.scheduler
        self.broker = SimulatedBroker(world, 1, PROPERTIES)
        partitions = [TopicPartition(topic, index) for topic in (FLUSHED, DEFAULT) for index in range(PARTITIONS)]
        self.oracle = Oracle(partitions, flushed_topics=[FLUSHED])
        self.place = place = Place(world, self.broker.address, self.oracle)
        self.producers = [
            IdempotentProducer(
                place,
                f"producer-{number}",
                target=partitions[number % len(partitions)],
                interval_ms=settings.interval_ms,
            )
            for number in range(settings.producers)
        ]
        self.members = [
            kind(
                place,
                f"{group}-{number}",
                group=group,
                topics=[FLUSHED, DEFAULT],
            )
            for kind, group in ((ClassicMember, "classic"), (ConsumerMember, "consumer"))
            for number in range(settings.members)
        ]
        self.reader = Reader(place, "reader")
        self.clients: list[SimulatedClient] = [*self.producers, *self.members, self.reader]
        plan = draw_plan(
            world.random("faults", "plan"),
            settings.kinds,
            count=settings.faults if settings.kinds else 0,
            between_ms=(2_000, settings.duration_ms),
        )
        self.faults = Faults(Target(world, self.broker, self.members, self.oracle), plan)

    def run(self) -> "OneBroker":
        self.faults.start()
        self.broker.wait_until_ready()
        administrator = Administrator(self.place, "administrator")
        administrator.start()
        self.scheduler.run_until_true(lambda: administrator.has_ended, within_ms=5_000, what="topics are created")
        for client in self.clients:
            client.start()
        self.scheduler.run_until(self.settings.duration_ms * MS)
        self.calm_down()
        return self

    def calm_down(self) -> None:
        """After the faults all is well within a bounded time: everything is written, read and processed. Then all
        leave."""
        self.faults.end()
        for client in self.producers:
            client.stop()
        self._within(30_000, lambda: all(client.has_ended for client in self.producers), "producers are done")
        self._within(10_000, self.oracle.is_all_read, "acknowledged records are read")
        self._within(60_000, self._is_consumed, "groups have no lag")
        for member in (*self.members, self.reader):
            member.stop()
        self._within(30_000, lambda: all(client.has_ended for client in self.clients), "all clients have left")
        self.scheduler.run_for(60_000)
        self.nothing_is_left()

    def nothing_is_left(self) -> None:
        """After quiet nobody waits for anything: no connection, no promise, no timer that a new broker has not, but for
        those by which logs are looked after."""
        assert not self.world.network.connections
        assert self.broker.process.is_quiet
        timers, waiting = self.broker.process.loop.pending_timers(), unsettled_promises()
        self.broker.stop(lambda: self.faults.start())
        self.scheduler.run_for(60_000)
        more = Counter(timers) - Counter(self.broker.process.loop.pending_timers())
        left = [name for name in more if not name.startswith(MAINTENANCE)]
        assert not left, f"timers that a new broker has not: {left}"
        assert waiting <= unsettled_promises(), f"{waiting} promises, of which a new broker has not all"

    def _within(self, within_ms: float, condition: Callable[[], bool], what: str) -> None:
        self.scheduler.run_until_true(condition, within_ms=within_ms, what=what)

    def _is_consumed(self) -> bool:
        return all(
            self.oracle.covered.get((group, partition), 0) == len(model.read)
            for partition, model in self.oracle.partitions.items()
            if partition.topic == FLUSHED
            for group in ("classic", "consumer")
        )
