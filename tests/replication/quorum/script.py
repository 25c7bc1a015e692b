"""Runs a script: lines of commands, `----`, and one line for each node.

    nodes 3 1               # three voters and an observer, all started; `static` for kraft.version 0
    run 100                 # milliseconds
    append 1 3              # node 1 appends three records; `leader` is the latest one
    kill 1, cut 1           # the process, the power
    start 1
    isolate 1, heal         # from all others
    resign 1
    snapshot 1              # and the log before it is deleted
    add 4, remove 1, wipe 4

Disks sync at once and the network takes no time, so that nothing but the quorum itself decides what comes next.
"""

from collections.abc import Callable
from typing import ClassVar

from tests.simulation.quorum.cluster import Cluster
from tests.simulation.quorum.node import Node
from tests.simulation.quorum.settings import Settings

RULE = "----"


def run_script(text: str) -> str:
    """Returns the script with the states that were found."""
    script = _Script()
    return "\n\n".join(script.step(step) for step in text.strip().split("\n\n")) + "\n"


class _Script:
    def __init__(self) -> None:
        self._cluster = Cluster(1, Settings())

    def step(self, text: str) -> str:
        commands = text.split(f"\n{RULE}")[0]
        for line in commands.split("\n"):
            if not line.startswith("#"):
                name, *arguments = line.split()
                self._commands[name](self, *arguments)
        return "\n".join([commands, RULE, *map(_line, self._cluster.nodes.values())])

    def nodes(self, voters: str, observers: str = "0", static: str = "") -> None:
        settings = Settings(
            voters=int(voters),
            observers=int(observers),
            kraft_version=0 if static else 1,
            latency_ms_max=0,
            sync_ms_max=0,
        )
        self._cluster = Cluster(1, settings)
        for node in self._cluster.nodes.values():
            node.start()

    def run(self, duration_ms: str) -> None:
        self._cluster.events.run_until(self._cluster.events.now_ms + int(duration_ms))

    def _node(self, node_id: str) -> Node:
        if node_id == "leader":
            return max(self._cluster.leaders(), key=lambda node: node.core.epoch)
        return self._cluster.nodes[int(node_id)]

    def append(self, node_id: str, count: str) -> None:
        self._node(node_id).append(tuple(range(1, int(count) + 1)))

    def kill(self, node_id: str) -> None:
        self._node(node_id).kill(power=False)

    def cut(self, node_id: str) -> None:
        self._node(node_id).kill(power=True)

    def start(self, node_id: str) -> None:
        self._node(node_id).start()

    def wipe(self, node_id: str) -> None:
        self._node(node_id).wipe()

    def isolate(self, node_id: str) -> None:
        self._cluster.network.cut_off(self._node(node_id).node_id, incoming=True, outgoing=True)

    def heal(self) -> None:
        self._cluster.network.heal()

    def resign(self, node_id: str) -> None:
        self._node(node_id).resign()

    def snapshot(self, node_id: str) -> None:
        self._node(node_id).take_snapshot(delete=True)

    def add(self, node_id: str) -> None:
        self._cluster.faults.add(self._node(node_id))

    def remove(self, node_id: str) -> None:
        for leader in self._cluster.leaders():
            self._cluster.faults.remove(leader, self._node(node_id).key)

    _commands: ClassVar[dict[str, Callable[..., None]]] = {
        "nodes": nodes,
        "run": run,
        "append": append,
        "kill": kill,
        "cut": cut,
        "start": start,
        "wipe": wipe,
        "isolate": isolate,
        "heal": heal,
        "resign": resign,
        "snapshot": snapshot,
        "add": add,
        "remove": remove,
    }


def _line(node: Node) -> str:
    """What a node is, and what it has."""
    if not node.is_up:
        return f"{node.node_id}: down"
    replica = node.core.replica
    log = replica.log
    leader = "" if replica.state.leader_id in (None, node.node_id) else f" of {replica.state.leader_id}"
    voters = ",".join(str(key.node_id) for key in replica.voters.keys) or "unknown"
    return (
        f"{node.node_id}: {replica.state.role.value}{leader} in {replica.epoch}, log {log.start_offset} to "
        f"{log.end_offset} of {log.end.epoch}, committed {replica.high_watermark}, voters {voters}"
    )
