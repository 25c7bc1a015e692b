"""Whom a test kills next: a leader, a follower, the controller, or the controller that leads as well.

The supervisor starts a broker at once again if it has lived for a minute. So of those that are eligible the one is
killed that has lived longest, and not before its minute is over: kills go round over the brokers.
"""

import time
from collections.abc import Callable

from barnabas.client.client import Client
from barnabas.commands.cluster.leaders import move_leaders
from barnabas.protocol.types import TopicPartition
from tests.processes.senders import PARTITIONS, TOPIC
from tests.processes.test_cluster import RunningCluster
from tests.processes.test_cluster_kills import eventually, kill, quorum

LASTING_S = 61.0
"""A minute, and the time that the supervisor takes to start a broker."""


def leaders_of(running: RunningCluster) -> list[int]:
    with Client(running.addresses, timeout_s=10) as client:
        leaders: list[int] = [partition.leader_id for partition in client.topic(TOPIC).partitions]
    assert min(leaders) > 0
    return leaders


def controller_of(running: RunningCluster) -> int:
    controller: int = quorum(running.addresses[0]).leader_id
    assert controller > 0
    return controller


def followers_of(running: RunningCluster, index: int) -> set[int]:
    """Returns those that neither lead this partition nor are the controller."""
    return {1, 2, 3} - {leaders_of(running)[index], controller_of(running)}


def leading_controller_of(running: RunningCluster, index: int) -> int:
    """Returns the controller. If it leads nothing, it is given this partition: a broker that was killed leads nothing
    for minutes."""
    controller = controller_of(running)
    if controller not in leaders_of(running):
        with Client(running.addresses, timeout_s=10) as client:
            move_leaders(client, {TopicPartition(TOPIC, index): controller})
    assert controller in leaders_of(running)
    assert controller == controller_of(running)
    return controller


ELIGIBLE: dict[str, Callable[[RunningCluster, int], set[int]]] = {
    "leader": lambda running, _index: set(leaders_of(running)),
    "follower": followers_of,
    "controller": lambda running, _index: {controller_of(running)},
    "controller and leader": lambda running, index: {leading_controller_of(running, index)},
}


class Victims:
    def __init__(self, running: RunningCluster, kind: str) -> None:
        self._running = running
        self._kind = kind
        self._killed_at: dict[int, float] = {}
        self._count = 0

    def kill_next(self) -> tuple[int, float]:
        """Kills one that the supervisor will start at once again. Returns which, and when it was."""
        victim = self._next()
        while (left_s := self._killed_at.get(victim, -LASTING_S) + LASTING_S - time.monotonic()) > 0:
            time.sleep(left_s)
            victim = self._next()  # whoever leads by now
        kill(self._running, victim)
        self._killed_at[victim] = time.monotonic()
        self._count += 1
        return victim, self._killed_at[victim]

    def _next(self) -> int:
        eligible: set[int] = eventually(lambda: ELIGIBLE[self._kind](self._running, self._count % PARTITIONS))
        return min(eligible, key=lambda node_id: self._killed_at.get(node_id, 0.0))
