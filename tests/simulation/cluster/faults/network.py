"""What goes wrong between brokers, and between them and clients."""

from itertools import combinations
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.net.streams import Connection, End
from tests.simulation.scenarios.brokers import SimulatedBroker

if TYPE_CHECKING:
    from tests.simulation.cluster.faults.cluster_faults import ClusterFaults


def isolate(faults: "ClusterFaults", random: Random) -> None:
    broker = faults.victim(random) or faults.cluster.brokers[0]
    faults.world.network.isolate(broker.machine.name)
    _heal_later(faults, random)


def cut_one_way(faults: "ClusterFaults", random: Random) -> None:
    if len(names := _names(faults)) > 1:
        faults.world.network.cut(*random.sample(names, 2))
        _heal_later(faults, random)


def cut_both_ways(faults: "ClusterFaults", random: Random) -> None:
    """Cuts a broker off from another. One that the plan names is cut off from the controller."""
    names, one, controller = _names(faults), faults.victim(random) if faults.hits else None, faults.cluster.controller
    if one is not None and controller not in (None, one):
        names = [one.machine.name, controller.machine.name]
    if len(names) > 1:
        _cut_between(faults, *random.sample(names, 2))
        _heal_later(faults, random)


def split(faults: "ClusterFaults", random: Random) -> None:
    names = _names(faults)
    here = random.sample(names, random.randrange(len(names)) or 1)
    for one in here:
        for other in names:
            if other not in here:
                _cut_between(faults, one, other)
    _heal_later(faults, random)


def make_a_ring(faults: "ClusterFaults", random: Random) -> None:
    """Leaves each broker its two neighbours: all see a majority of five, and no two see the same. Of three each hears
    only the one before it."""
    names = _names(faults)
    random.shuffle(names)
    count = len(names)
    for one, other in combinations(range(count), 2):
        if other - one not in (1, count - 1):
            _cut_between(faults, names[one], names[other])
        elif count == 3:
            faults.world.network.cut(*((names[other], names[one]) if other - one == 1 else (names[one], names[other])))
    _heal_later(faults, random)


def refuse_connects(faults: "ClusterFaults", random: Random) -> None:
    """Lets nobody connect to a broker. What stands goes on."""
    if (broker := faults.victim(random)) is not None:
        faults.tell("network", "refuses connections to {}", broker.machine.name)
        for name in _others(faults, broker):
            faults.world.network.refuse(name, broker.machine.name)
        _heal_later(faults, random)


def slow_connects(faults: "ClusterFaults", random: Random) -> None:
    if (broker := faults.victim(random)) is not None:
        connect_ms = random.choice((100, 700, 3_000))
        faults.tell("network", "takes {} ms for connections to {}", connect_ms, broker.machine.name)
        for name in _others(faults, broker):
            faults.world.network.slow_down(name, broker.machine.name, connect_ms=connect_ms)
        _heal_later(faults, random)


def slow_node(faults: "ClusterFaults", random: Random) -> None:
    """Lets everything that a broker sends and receives take its time."""
    if (broker := faults.victim(random)) is not None:
        slower_ms, network = random.choice((10, 50, 200)), faults.world.network
        faults.tell("network", "takes {} ms more to {} and from there", slower_ms, broker.machine.name)
        for name in _others(faults, broker):
            network.slow_down(name, broker.machine.name, slower_ms=slower_ms)
            network.slow_down(broker.machine.name, name, slower_ms=slower_ms)
        _heal_later(faults, random)


def _others(faults: "ClusterFaults", broker: SimulatedBroker) -> list[str]:
    return [name for name in faults.world.network.hosts if name != broker.machine.name]


def heal(faults: "ClusterFaults", _random: Random) -> None:
    faults.heal_network()


def _heal_later(faults: "ClusterFaults", random: Random) -> None:
    if random.random() < 0.7:
        faults.later(random.choice((200, 2_000, 8_000)), random, faults.heal_network)


def _names(faults: "ClusterFaults") -> list[str]:
    return [broker.machine.name for broker in faults.cluster.brokers]


def _cut_between(faults: "ClusterFaults", one: str, other: str) -> None:
    faults.world.network.cut(one, other)
    faults.world.network.cut(other, one)


# ---- single connections


def cut_connection(faults: "ClusterFaults", random: Random) -> None:
    if (connection := _connection(faults, random)) is not None:
        stream = random.choice((connection.to_server, connection.to_client))
        end, after_bytes = random.choice(list(End)), random.choice((0, 1, 3, 50, random.randrange(2_000)))
        faults.tell("network", "cuts {} by {} after {} bytes", repr(connection), end.value, after_bytes)
        stream.cut(end, after_bytes)


def stall(faults: "ClusterFaults", random: Random) -> None:
    if (connection := _connection(faults, random)) is not None:
        stream = random.choice((connection.to_server, connection.to_client))
        duration_ms = random.choice((50, 1_000, 4_000))
        faults.tell("network", "stalls {} for {} ms", repr(connection), duration_ms)
        stream.stall(duration_ms)


def _connection(faults: "ClusterFaults", random: Random) -> Connection | None:
    """Returns one of those that stand, of the broker that the plan names if it names one."""
    connections = list(faults.world.network.connections.values())
    if faults.hits:
        broker = faults.victim(random)
        connections = [each for each in connections if broker is not None and broker.machine.name in each.machines]
    return random.choice(connections) if connections else None
