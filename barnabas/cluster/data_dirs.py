"""The data of the brokers of one machine: a directory for each node, and a file that says what they were made with.

`cluster.properties` is written before the first directory is formatted, so that a start which was interrupted goes on
with the same cluster id and the same voters. Once a voter's directory was there, the same id is never given to another:
a voter is a disk, and an empty one has forgotten what the first one promised (KIP-853).
"""

from collections.abc import Iterable

from barnabas.base.environment import Report
from barnabas.base.files import Files, make_durable_dir, replace_file
from barnabas.base.properties import parse_properties
from barnabas.cluster.formatting import Formatter, InitialController, NodeFormat, parse_controllers
from barnabas.cluster.layout import INTERNAL_HOST, ClusterLayout
from barnabas.options import Failure
from barnabas.protocol.errors import InvalidConfig
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import uuid_text
from barnabas.storage.metadata_files import META_PROPERTIES

CLUSTER_PROPERTIES = "cluster.properties"


class Agreement(NamedTuple):
    """What the brokers of a data dir were made with."""

    cluster_id: str
    controllers: tuple[InitialController, ...]
    formatted: frozenset[int] = frozenset()
    """The nodes whose directory was there at some time."""
    joined: frozenset[int] = frozenset()
    """The controllers that the quorum did not begin with: they join it by themselves."""

    @property
    def ports(self) -> dict[int, int]:
        return {controller.node_id: controller.port for controller in self.controllers}

    @property
    def initial(self) -> tuple[InitialController, ...]:
        return tuple(controller for controller in self.controllers if controller.node_id not in self.joined)

    def to_bytes(self) -> bytes:
        lines = (
            "version=1",
            f"cluster.id={self.cluster_id}",
            f"controllers={','.join(map(str, self.controllers))}",
            f"formatted={_text(self.formatted)}",
            f"joined={_text(self.joined)}",
        )
        return ("\n".join(lines) + "\n").encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Agreement":
        """Raises ValueError if the file does not say what it should."""
        try:
            values = parse_properties(data.decode())
            formatted, joined = (_node_ids(values[key]) for key in ("formatted", "joined"))
            return cls(values["cluster.id"], parse_controllers(values["controllers"]), formatted, joined)
        except (KeyError, InvalidConfig) as error:
            raise ValueError(f"{error!r}") from None


def _text(node_ids: Iterable[int]) -> str:
    return ",".join(map(str, sorted(node_ids)))


def _node_ids(text: str) -> frozenset[int]:
    return frozenset(int(node_id) for node_id in text.split(",") if node_id)


class ClusterDirs:
    def __init__(self, data_dir: str, files: Files, formatter: Formatter) -> None:
        self._data_dir = data_dir
        self._path = f"{data_dir}/{CLUSTER_PROPERTIES}"
        self._files = files
        self._formatter = formatter

    def examine(self, brokers: int) -> Agreement | None:
        """Returns what was agreed; None if nothing was so far. Raises Failure if the data is not that of so few
        brokers, or of a broker alone."""
        if not self._files.exists(self._data_dir):
            return None
        self._refuse_a_single_broker()
        self._refuse_more_nodes(brokers)
        if not self._files.exists(self._path):
            return None
        try:
            return Agreement.from_bytes(self._files.read_bytes(self._path))
        except ValueError as error:
            raise Failure(f"{self._path} cannot be read: {error}", "restore it") from None

    def _refuse_a_single_broker(self) -> None:
        data = self._data_dir
        if self._files.exists(f"{data}/{META_PROPERTIES}"):
            raise Failure(
                f"{data} holds the data of a single broker, and those of a cluster are in {data}/1, {data}/2 …",
                f"move it to where node 1 has it: mv {data} {data}.single && mkdir {data} && mv {data}.single {data}/1",
            )

    def _refuse_more_nodes(self, brokers: int) -> None:
        names = (name for name in self._files.listdir(self._data_dir) if name.isdecimal() and not name.startswith("0"))
        more = sorted(
            int(name) for name in names if int(name) > brokers and self._formatter.read(f"{self._data_dir}/{name}")
        )
        if not more:
            return
        dirs = " ".join(f"{self._data_dir}/{node_id}" for node_id in more)
        nodes = ", ".join(map(str, more))
        raise Failure(
            f"--brokers {brokers} is too few: there is data of node {nodes} in {dirs}",
            f"start with --brokers {more[-1]}; to give a node up, move what it has to others, stop it, "
            f"`barnabas cluster unregister {more[-1]}`, and remove its directory",
        )

    @property
    def is_alone(self) -> bool:
        """Returns whether the data of node 1 is that of a broker that was alone, with a quorum of its own."""
        path = f"{self._data_dir}/1"
        return not self._files.exists(self._path) and self._formatter.read(path) is not None

    def agree(self, cluster_id: str, controller_ports: dict[int, int]) -> Agreement:
        """Decides what a new cluster is made with, and writes it down. A broker that was alone keeps its id, and is the
        only voter at first: it is named with the directory that it has."""
        make_durable_dir(self._files, self._data_dir)
        found = self._formatter.read(f"{self._data_dir}/1")
        controllers = tuple(
            InitialController(
                node_id,
                INTERNAL_HOST,
                port,
                found.directory_id if found is not None and node_id == 1 else self._formatter.new_id(),
            )
            for node_id, port in controller_ports.items()
        )
        if found is not None:
            cluster_id = found.cluster_id
        alone = frozenset((1,) if found is not None else ())
        joined = frozenset(controller_ports) - alone if alone else alone
        agreement = Agreement(cluster_id or uuid_text(self._formatter.new_id()), controllers, alone, joined)
        replace_file(self._files, self._path, agreement.to_bytes())
        return agreement

    def extend(self, agreement: Agreement, controller_ports: dict[int, int]) -> Agreement:
        """Adds controllers to a cluster that has grown, and writes them down."""
        new = {node_id: port for node_id, port in controller_ports.items() if node_id not in agreement.ports}
        if not new:
            return agreement
        more = tuple(
            InitialController(node_id, INTERNAL_HOST, port, self._formatter.new_id()) for node_id, port in new.items()
        )
        agreement = agreement._replace(
            controllers=(*agreement.controllers, *more), joined=agreement.joined | frozenset(new)
        )
        replace_file(self._files, self._path, agreement.to_bytes())
        return agreement

    def prepare(self, layout: ClusterLayout, agreement: Agreement, report: Report) -> None:
        """Formats the directories that are missing. Raises Failure if one is another node's."""
        for node_id in layout.node_ids:
            was_there = node_id in agreement.formatted
            is_voter = node_id in agreement.ports
            controllers = agreement.initial if is_voter and not was_there and node_id not in agreement.joined else ()
            node = NodeFormat(agreement.cluster_id, node_id, controllers)
            new = self._formatter.format(node, [layout.dir_of(node_id)], ignore_formatted=True)
            if new and is_voter and was_there:
                report.warning(
                    f"{layout.dir_of(node_id)} is gone: node {node_id} begins anew, and votes again when the others "
                    "have agreed to that",
                    node=node_id,
                )
        self._note_formatted(agreement, layout.node_ids)

    def forget(self, node_ids: Iterable[int]) -> None:
        """Removes what was made for brokers that never became ready, so that it can be made with other ports."""
        for node_id in node_ids:
            self._files.rmtree(f"{self._data_dir}/{node_id}")
        self._files.remove(self._path)

    def _note_formatted(self, agreement: Agreement, node_ids: Iterable[int]) -> None:
        formatted = agreement.formatted | set(node_ids)
        if formatted != agreement.formatted:
            replace_file(self._files, self._path, agreement._replace(formatted=formatted).to_bytes())
