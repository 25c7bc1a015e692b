"""Where the brokers of one machine listen, who votes, and what each is configured with. Nothing is touched here."""

from collections.abc import Mapping, Sequence

from barnabas.base.network import Address
from barnabas.commands.start import first_for_clients, with_advertised_port
from barnabas.options import Failure, UsageError
from barnabas.protocol.named_tuple import NamedTuple

INTERNAL_HOST = "127.0.0.1"
CONTROLLER_LISTENER = "CONTROLLER"
INTERNAL_PORTS_ABOVE = 10_000
"""By how much the controllers' ports are above those for clients."""
_PORT_MAX = 65_535

OWN_KEYS = ("node.id", "broker.id", "process.roles", "log.dir", "metadata.log.dir", "controller.listener.names")
"""Keys of which each broker of a cluster gets a value of its own, whatever the file says."""


def voters_of(brokers: int, controllers: int | None) -> tuple[int, ...]:
    """Returns the nodes that vote: one, or three. Raises UsageError for a number that makes no sense."""
    count = (3 if brokers >= 3 else 1) if controllers is None else controllers
    if count == 2:
        raise UsageError("--controllers 2: two are worse than one, since both must be there to agree; take 1 or 3")
    if count > brokers:
        raise UsageError(f"--controllers {count}: there are only {brokers} brokers")
    return tuple(range(1, count + 1))


class Ports(NamedTuple):
    """The ports by node; 0 is one that is still to be picked."""

    clients: Mapping[int, int]
    controllers: Mapping[int, int]

    @property
    def are_picked(self) -> bool:
        return 0 in (*self.clients.values(), *self.controllers.values())


def ports_of(port: int, internal_port: int | None, brokers: int, voters: Sequence[int]) -> Ports:
    """Returns consecutive ports for clients, and for controllers those so much above them."""
    if internal_port is None:
        internal_port = port + INTERNAL_PORTS_ABOVE if port else 0
    clients = {node_id: port and port + node_id - 1 for node_id in range(1, brokers + 1)}
    controllers = {node_id: internal_port and internal_port + node_id - 1 for node_id in voters}
    if max(clients.values()) > _PORT_MAX:
        raise UsageError(f"--port {port}: there are no {brokers} ports from there on")
    if max(controllers.values()) > _PORT_MAX:
        raise UsageError(f"there is no port {max(controllers.values())} for controllers; choose with --internal-port")
    if both := sorted(set(clients.values()) & set(controllers.values()) - {0}):
        raise UsageError(f"port {both[0]} cannot be both for clients and for controllers; choose another")
    return Ports(clients, controllers)


def with_picked(ports: Ports, picked: Sequence[int]) -> Ports:
    """Returns the ports with each 0 replaced by the next that was picked."""
    rest = iter(picked)
    return Ports(
        {node_id: port or next(rest) for node_id, port in ports.clients.items()},
        {node_id: port or next(rest) for node_id, port in ports.controllers.items()},
    )


class ClusterLayout(NamedTuple):
    properties: Mapping[str, str]
    """What the user has configured."""
    data_dir: str
    brokers: int
    ports: Ports

    @property
    def node_ids(self) -> range:
        return range(1, self.brokers + 1)

    @property
    def client_host(self) -> str:
        """Returns the host of the listener for clients as it is configured; empty is every interface."""
        return first_for_clients(self.properties)[2].strip("[]")

    def client_address(self, node_id: int) -> Address:
        return Address(self.client_host or "0.0.0.0", self.ports.clients[node_id])

    def dir_of(self, node_id: int) -> str:
        return f"{self.data_dir}/{node_id}"

    def properties_of(self, node_id: int) -> dict[str, str]:
        """Returns the properties of one broker."""
        _, name, host, _ = first_for_clients(self.properties)
        properties = {**default_replication(self.brokers), **self.properties}
        controllers = self.properties.get("controller.listener.names", CONTROLLER_LISTENER)
        for key in OWN_KEYS:
            properties.pop(key, None)
        port, controller_port = self.ports.clients[node_id], self.ports.controllers.get(node_id)
        listeners = f"{name}://{host}:{port}"
        if controller_port is not None:
            listeners += f",{CONTROLLER_LISTENER}://{INTERNAL_HOST}:{controller_port}"
        bootstrap = (f"{INTERNAL_HOST}:{port}" for port in self.ports.controllers.values())
        if properties.get("advertised.listeners"):
            advertised = _without(with_advertised_port(self.properties, port), controllers)
            if advertised:
                properties["advertised.listeners"] = advertised
            else:
                del properties["advertised.listeners"]
        return properties | {
            "node.id": str(node_id),
            "process.roles": "broker" if controller_port is None else "broker,controller",
            "log.dirs": self.dir_of(node_id),
            "listeners": listeners,
            "controller.listener.names": CONTROLLER_LISTENER,
            "controller.quorum.bootstrap.servers": ",".join(bootstrap),
            "controller.quorum.auto.join.enable": "true",
        }


def _without(listeners: str, names: str) -> str:
    """Returns the listeners but those of these names: controllers find each other at addresses of our own."""
    dropped = {name.strip().upper() for name in names.split(",")}
    entries = (entry.strip() for entry in listeners.split(","))
    return ",".join(entry for entry in entries if entry.partition("://")[0].upper() not in dropped)


def default_replication(brokers: int) -> dict[str, str]:
    """Returns what those get who say nothing about replicas: three of everything, or as many as there are brokers. From
    three brokers on, a record is acknowledged once two have it, and any one of them may be missing."""
    factor, min_isr = str(min(3, brokers)), "2" if brokers >= 3 else "1"
    return {
        "default.replication.factor": factor,
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": min_isr,
        "min.insync.replicas": min_isr,
    }


def check_properties(properties: Mapping[str, str]) -> None:
    """Raises Failure if the user has configured what only the supervisor can decide."""
    if properties.get("controller.quorum.voters", "").strip():
        raise Failure(
            "controller.quorum.voters is set, and the brokers of --brokers vote among themselves",
            "remove it, or start each node by itself with --config",
        )
    names = [entry.partition("://")[0].strip() for entry in properties.get("listeners", "").split(",")]
    internal = {properties.get("controller.listener.names", CONTROLLER_LISTENER).upper(), CONTROLLER_LISTENER}
    if len([name for name in names if name.upper() not in internal]) > 1:
        raise Failure("--brokers knows one listener for clients, and listeners has more", "start each node by itself")


def data_dir_of(properties: Mapping[str, str]) -> str:
    data_dir = properties.get("log.dirs", properties.get("log.dir", "./data")).strip()
    if "," in data_dir:
        raise Failure(f"--brokers keeps all data below one directory, and log.dirs has several ({data_dir})")
    return data_dir.rstrip("/") or "/"
