"""After the faults all is well within a bounded time, in virtual time, although some brokers may stay broken:

- one controller is active and every broker that is well is unfenced, after 5 s and the timeouts by which a dead one is
  known to be dead;
- every partition of such a broker has a leader 2 s later;
- records and changes of the metadata are answered within 2 s, through every such broker;
- everything that was acknowledged is read, by groups as well where no broker stays broken;
- in the last 10 s nothing moves: no controller, no leader epoch, no session.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.types import TopicPartition
from barnabas.replication.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from tests.simulation.clients.client import Failed, SimulatedClient
from tests.simulation.clients.script import Script
from tests.simulation.cluster.administrator import Administrator
from tests.simulation.cluster.clients import ClusterProducer
from tests.simulation.cluster.facts import Facts
from tests.simulation.cluster.leftovers import nobody_waits
from tests.simulation.cluster.replicas.history import batches_of, checksums_are_true
from tests.simulation.cluster.routing import ClusterClient
from tests.simulation.scenarios.brokers import SimulatedBroker
from tests.simulation.scheduler import MS

if TYPE_CHECKING:
    from tests.simulation.cluster.scenario import ManyBrokers


_STILL_HEARD_MS = 6_000
_STILL_MISLED_MS = 60_000
"""A client that one that is cut off has told that it leads waits for its answer in vain, and may be told so again."""
_LOOKS_EVERY_MS = 10


class Probe(Administrator):
    """Creates a topic through one broker, and says when that is done."""

    def script(self) -> Script[None]:
        try:
            yield from self._create()
        except Failed as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:  # the broker has asked twice
                raise


class ProbeProducer(ClusterProducer):
    """Gets a producer id and one batch through."""

    def script(self) -> Script[None]:
        yield from self._init_producer_id()
        self._produce()
        yield from self.drain()


def _needed(image: MetadataImage, topic: str, partition: PartitionImage) -> int:
    """Returns how many replicas the topic wants in sync; never more than there are."""
    return min(int(image.config(ResourceType.TOPIC, topic)["min.insync.replicas"]), len(partition.replicas))


def _moves(partition: PartitionImage) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)


class Liveness:
    def __init__(self, scenario: "ManyBrokers") -> None:
        self._scenario = scenario

    def check(self, well: list[SimulatedBroker]) -> None:
        scenario, settings = self._scenario, self._scenario.settings
        names, mended_us = ", ".join(broker.machine.name for broker in well), scenario.scheduler.now_us
        is_all = len(well) == len(scenario.cluster.brokers)
        for reader in scenario.readers:
            reader.addresses = [broker.address for broker in well]
        sessions_ms = settings.session_timeout_ms + settings.fetch_timeout_ms + settings.election_timeout_ms
        self._within(
            5_000 + sessions_ms, lambda: self._is_controlled(well), f"L1: one controller, and {names} are unfenced"
        )
        # A connection that was cut without a word is taken for a good one until a heartbeat has got no answer.
        scenario.scheduler.run_until(max(scenario.scheduler.now_us, mended_us + 5_000 * MS))
        self._within(2_000, lambda: self._is_led(well), f"L2: everything on {names} is led")
        # One that stays broken is in sync until it is fenced, or has not fetched for too long.
        patience_ms = 0 if is_all else settings.session_timeout_ms + _STILL_HEARD_MS + 2 * settings.lag_time_max_ms
        self._within(
            15_000 + patience_ms, lambda: not self._lagging(well), f"L3, L6: in sync is who is alive of {names}"
        )
        if is_all:
            scenario.claims.all_is_mended()
        self._stop_writing(well)
        self._probe(well)
        drained_ms = 20_000 if is_all else _STILL_MISLED_MS
        self._within(drained_ms, lambda: self._is_drained(well), f"L4: everything is acknowledged by {names}")
        self._within(
            30_000, lambda: self._is_read(well), f"I11: everything is read from {names}"
        )  # who asks may ask the dead
        if is_all:
            self._within(60_000, self._is_consumed, "L5: groups have no lag")
            if scenario.transactions is not None:
                scenario.transactions.end(scenario.place, self._within)
            self._all_leave()
        self._nothing_moves(well)
        self._replicas_are_equal(well)
        if is_all and all(producer.has_ended for producer in scenario.producers):
            nobody_waits(well)  # a change of min.insync.replicas forgets who is eligible: nobody may be left to lead

    def _stop_writing(self, well: list[SimulatedBroker]) -> None:
        scenario = self._scenario
        for client in scenario.producers:
            client.stop()
        if scenario.transactions is not None:
            scenario.transactions.stop()
        scenario.administrator.stop()
        if (recreator := scenario.recreator) is not None:
            recreator.addresses = [broker.address for broker in well]
            recreator.live_on([broker.node_id for broker in well])
            self._within(20_000, lambda: recreator.is_idle, "L6: a topic is created again")

    def _all_leave(self) -> None:
        clients: list[ClusterClient] = [*self._scenario.readers, *self._scenario.members, self._scenario.administrator]
        if self._scenario.recreator is not None:
            clients.append(self._scenario.recreator)
        for client in clients:
            client.stop()
        self._within(30_000, lambda: all(client.has_ended for client in clients), "I23: all clients have left")

    def _within(self, within_ms: float, condition: Callable[[], bool], what: str) -> None:
        scheduler = self._scenario.scheduler
        scheduler.run_until_true(condition, within_ms=within_ms, what=what, looks_every_ms=_LOOKS_EVERY_MS)

    def _image(self, well: list[SimulatedBroker]) -> MetadataImage | None:
        """Returns what the controller has published, if there is one."""
        active = [broker for broker in well if broker.is_controller]
        return active[0].server.node.quorum.loader.image if len(active) == 1 else None

    def _is_controlled(self, well: list[SimulatedBroker]) -> bool:
        image = self._image(well)
        unfenced = {} if image is None else image.brokers
        return all(
            broker.is_ready and broker.node_id in unfenced and not unfenced[broker.node_id].fenced for broker in well
        )

    def _is_led(self, well: list[SimulatedBroker]) -> bool:
        image = self._image(well)
        alive = {broker.node_id for broker in well}
        return image is not None and all(
            partition.leader != NO_LEADER
            for topic in image.topics.values()
            for partition in topic.partitions
            if alive.intersection((*partition.isr, *partition.eligible_leader_replicas))
        )

    def _lagging(self, well: list[SimulatedBroker]) -> list[str]:
        """Returns the partitions whose in-sync replicas are not those that are alive, or that still move to such."""
        image = self._image(well)
        if image is None:
            return ["all: there is no controller"]
        alive = {broker.node_id for broker in well}
        return [
            f"{topic.name}-{index}: {partition}"
            for topic in image.topics.values()
            for index, partition in enumerate(topic.partitions)
            if partition.leader != NO_LEADER
            if alive.intersection(partition.replicas) != set(partition.isr)
            or (_moves(partition) and alive.issuperset(partition.replicas))
            if alive.intersection((*partition.isr, *partition.eligible_leader_replicas))
        ]

    def _served(self, well: list[SimulatedBroker]) -> list[TopicPartition]:
        """Returns the partitions that have a leader and enough replicas."""
        image = self._image(well)
        assert image is not None, "there is not one controller"
        alive = {broker.node_id for broker in well}
        found = ((name, image.partition(*name)) for name in self._scenario.claims.by_partition)
        return [
            name
            for name, partition in found
            if partition is not None
            if partition.leader in alive
            and len(alive.intersection(partition.isr)) >= _needed(image, name.topic, partition)
        ]

    def _probe(self, well: list[SimulatedBroker]) -> None:
        """Clients that have seen nothing of the faults are served at once."""
        scenario = self._scenario
        probes: list[SimulatedClient] = []
        read = {reader.partition for reader in scenario.readers}
        served = [partition for partition in self._served(well) if partition in read]
        for number, broker in enumerate(well):
            place = scenario.place._replace(addresses=[broker.address])
            probes.append(Probe(place, f"probe-{broker.node_id}", facts=Facts(), interval_ms=0))
            if served:
                target = served[number % len(served)]
                place = scenario.place_of(target)._replace(addresses=[broker.address])
                name = f"probe-producer-{broker.node_id}"
                probes.append(ProbeProducer(place, name, target=target, interval_ms=0))
        for client in probes:
            client.start()
        self._within(2_000, lambda: all(client.has_ended for client in probes), "L4: new clients are served by all")

    def _is_drained(self, well: list[SimulatedBroker]) -> bool:
        served = self._served(well)
        return all(producer.has_ended for producer in self._scenario.producers if producer.target in served)

    def _is_read(self, well: list[SimulatedBroker]) -> bool:
        served = self._served(well)
        return all(
            oracle.is_all_read()
            for oracle in self._scenario.claims.oracles
            if not oracle.is_suspended and all(partition in served for partition in oracle.partitions)
        )

    def _is_consumed(self) -> bool:
        oracle = self._scenario.grouped
        if oracle is None or oracle.losses:
            return True
        return all(
            oracle.covered.get((group, partition), 0) == len(model.read)
            for partition, model in oracle.partitions.items()
            for group in {member.group: None for member in self._scenario.members}
        )

    def _nothing_moves(self, well: list[SimulatedBroker]) -> None:
        """A broker that stays broken is fenced first. One that only hears nothing is heard for a while."""
        scenario = self._scenario
        scenario.scheduler.run_for(scenario.settings.session_timeout_ms + _STILL_HEARD_MS)
        before, fenced = self._standing(well), len(scenario.oracle.fenced)
        scenario.scheduler.run_for(10_000)
        after = self._standing(well)
        moved = [f"{what}: {before[what]}, {after[what]}" for what in before if before[what] != after.get(what)]
        assert not moved, f"L7: epochs move: {moved}"
        assert len(scenario.oracle.fenced) == fenced, f"L7: brokers are fenced: {scenario.oracle.fenced[fenced:]}"

    def _replicas_are_equal(self, well: list[SimulatedBroker]) -> None:
        """Compares all logs that are in sync, batch by batch, up to what is committed."""
        image = self._image(well)
        assert image is not None, "there is not one controller"
        for name in self._scenario.claims.by_partition:
            described = image.partition(*name)
            assert described is not None, f"there is no {name}"
            logs = [
                log
                for broker in well
                if broker.node_id in described.isr
                if (log := broker.server.node.logs.opened(name)) is not None
            ]
            high_watermark = min((log.high_watermark for log in logs), default=0)
            for log in logs:
                checksums_are_true(log, high_watermark)
            contents = [list(batches_of(log, 0, high_watermark)) for log in logs]
            assert all(content == contents[0] for content in contents), f"I9: replicas of {name} differ: {contents}"

    def _standing(self, well: list[SimulatedBroker]) -> dict[str, int]:
        """Returns the epochs of the controller and of the leaders."""
        image = self._image(well)
        assert image is not None, "there is not one controller"
        epochs = {
            f"{topic.name}-{index}": partition.leader_epoch
            for topic in image.topics.values()
            for index, partition in enumerate(topic.partitions)
        }
        return epochs | {"controller": max(self._scenario.oracle.controllers)}
