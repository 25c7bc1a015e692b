"""What is left in brokers when all clients have gone: nobody waits, and no connection stands (I23)."""

from collections.abc import Sequence

from tests.simulation.scenarios.brokers import SimulatedBroker

_STAY = ("broker-", "messenger")
"""Brokers know each other, and one client never leaves."""
_FOR_CLIENTS = ("barnabas.broker.handlers.", "barnabas.broker.groups.", "barnabas.broker.node.")
_FOR_ALL = frozenset(
    {
        "barnabas.broker.handlers.replica_fetch._ReplicaFetch._finish",
        "barnabas.broker.groups.coordinator.GroupCoordinator._expire",
    }
)


def nobody_waits(brokers: Sequence[SimulatedBroker]) -> None:
    for broker in brokers:
        no_connection_is_left(broker)
        no_request_is_left(broker)
        no_timer_is_left(broker)


def no_connection_is_left(broker: SimulatedBroker) -> None:
    """I23: a client that has closed its connection is forgotten, if the broker has been told."""
    told = [transport for transport in broker.process.network.transports if not transport.incoming.is_cut]
    clients = [transport.outgoing.connection.ends[0].local[0] for transport in told]
    left = [name for name in clients if not name.startswith(_STAY)]
    assert not left, f"I23: {broker.machine.name} has connections with {left}"


def no_request_is_left(broker: SimulatedBroker) -> None:
    """I23: everything was answered, or its connection closed."""
    node = broker.server.node
    for name, leader in node.replicas._leaders.items():
        appends = any(each.waiting for each in (leader._acknowledging, leader._flushing, leader._deleting))
        assert not appends, f"I23: somebody waits for {name} to be written on {broker.machine.name}"
        assert not leader._waiters, f"I23: somebody waits for records of {name} on {broker.machine.name}"
    assert not node.quorum._answers, f"I23: somebody waits for the controller on {broker.machine.name}"


def no_timer_is_left(broker: SimulatedBroker) -> None:
    """I23: nothing is to be done that only a client has asked for."""
    left = [name for name in broker.process.loop.pending_timers() if name.startswith(_FOR_CLIENTS)]
    left = [name for name in left if name not in _FOR_ALL]
    assert not left, f"I23: {broker.machine.name} has timers {left}"
