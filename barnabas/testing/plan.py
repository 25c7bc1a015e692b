"""How a cluster for tests is laid out: as `barnabas start --brokers` does it, on free ports of 127.0.0.1.

The ports are chosen before anything starts, because the voters' addresses are on every disk. Until the cluster is gone
a socket stays bound to each of them: it does not listen, so a node that is down refuses connections, and nobody else is
given its port meanwhile.
"""

import socket
from collections.abc import Mapping

from barnabas.cluster.formatting import Formatter, InitialController, NodeFormat
from barnabas.cluster.layout import INTERNAL_HOST, ClusterLayout, Ports, voters_of
from barnabas.protocol.types import uuid_text

_DEFAULTS = {
    "listeners": f"PLAINTEXT://{INTERNAL_HOST}:0",
    "group.initial.rebalance.delay.ms": "0",  # a test has the consumers that it has
    "broker.heartbeat.interval.ms": "200",  # a clean stop waits for a heartbeat of every other broker
}


class ClusterPlan:
    def __init__(self, config: Mapping[str, str], data_dir: str, brokers: int) -> None:
        """Reserves the ports. `config` is what the nodes have in common."""
        self.voters = voters_of(brokers, None)
        self._reserved: list[socket.socket] = []
        ports = Ports(
            {node_id: self._reserve() for node_id in range(1, brokers + 1)},
            {node_id: self._reserve() for node_id in self.voters},
        )
        self.layout = ClusterLayout({**_DEFAULTS, **config}, data_dir, brokers, ports)

    def _reserve(self) -> int:
        reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._reserved.append(reserved)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the node itself binds the port as well
        reserved.bind((INTERNAL_HOST, 0))
        port: int = reserved.getsockname()[1]
        return port

    def release(self) -> None:
        for reserved in self._reserved:
            reserved.close()

    @property
    def node_of_port(self) -> dict[int, int]:
        ports = self.layout.ports
        return {port: node_id for nodes in (ports.clients, ports.controllers) for node_id, port in nodes.items()}

    def format(self, formatter: Formatter) -> None:
        """Writes on each disk whose it is and who votes."""
        cluster_id = uuid_text(formatter.new_id())
        controllers = tuple(
            InitialController(node_id, INTERNAL_HOST, port, formatter.new_id())
            for node_id, port in self.layout.ports.controllers.items()
        )
        for node_id in self.layout.node_ids:
            known = controllers if node_id in self.voters else ()
            formatter.format(NodeFormat(cluster_id, node_id, known), [self.layout.dir_of(node_id)])
