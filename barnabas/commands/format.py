"""`barnabas format`: prepares the log dirs of one node of a cluster, as Kafka's storage tool does.

A broker that is alone, and `barnabas start --brokers N`, need no such step: they prepare new dirs themselves.
"""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.options import Arguments, Command, Failure, Option, UsageError, word
from barnabas.protocol.errors import InvalidConfig

if TYPE_CHECKING:
    from barnabas.broker.config.server_keys import ServerKeys
    from barnabas.cluster.formatting import Formatter, InitialController

_ONE_OF = "--standalone, --initial-controllers, or --no-initial-controllers"


def format_dirs(arguments: Arguments) -> int:
    from barnabas.broker.system.disk import OsFiles
    from barnabas.broker.system.entropy import Entropy
    from barnabas.cluster.formatting import Formatter, NodeFormat
    from barnabas.protocol.types import uuid_text

    formatter = Formatter(OsFiles(), Entropy(), now_ms=time.time_ns() // 1_000_000)
    if arguments.new_id:
        print(uuid_text(formatter.new_id()))
        return 0
    if arguments.config is None:
        raise UsageError("-c, --config FILE is missing")
    keys = _keys_of(arguments.config)
    controllers = _controllers(arguments, keys, formatter)
    dirs = list(keys.log_dirs)
    node = NodeFormat(
        arguments.cluster_id or _found_id(formatter, dirs) or uuid_text(formatter.new_id()),
        keys.node_id,
        controllers,
        keys.controller_listener_names[0].upper(),
    )
    new = formatter.format(node, dirs, ignore_formatted=arguments.ignore_formatted)
    for log_dir in new:
        print(f"formatted {log_dir} for node {node.node_id} of cluster {node.cluster_id}")
    if not new:
        print(f"every directory of node {node.node_id} is formatted already")
    return 0


def _found_id(formatter: "Formatter", log_dirs: list[str]) -> str:
    found = [meta.cluster_id for meta in map(formatter.read, log_dirs) if meta is not None]
    return found[0] if found else ""


def _keys_of(path: str) -> "ServerKeys":
    """Returns the keys of the file. Only those that are needed are looked at: the rest is the broker's to judge."""
    from barnabas.broker.config.server_keys import ServerKeys
    from barnabas.commands.start import read_properties

    given = read_properties(path)
    aliases = {"node.id": "broker.id", "log.dirs": "log.dir"}
    texts: dict[str, str] = {}
    for name in ("node.id", "process.roles", "log.dirs", "listeners", "controller.listener.names",
                 "controller.quorum.voters"):  # fmt: skip
        if (text := _given(given, name, aliases.get(name, name))) is not None:
            texts[name] = text
    try:
        return ServerKeys.parse(texts)
    except InvalidConfig as error:
        raise Failure(f"{path}: {error.message}") from None


def _given(texts: Mapping[str, str], name: str, alias: str) -> str | None:
    return texts.get(name, texts.get(alias))


def _controllers(arguments: Arguments, keys: "ServerKeys", formatter: "Formatter") -> tuple["InitialController", ...]:
    given: tuple[InitialController, ...] = arguments.initial_controllers or ()
    chosen = (arguments.standalone, bool(given), arguments.no_initial_controllers)
    if sum(map(bool, chosen)) > 1:
        raise UsageError(f"{_ONE_OF}: they exclude each other")
    is_controller = "controller" in keys.process_roles
    if keys.controller_quorum_voters and (arguments.standalone or given):
        raise Failure(
            "controller.quorum.voters names the voters already",
            "remove it and set controller.quorum.bootstrap.servers, or format without initial controllers",
        )
    if arguments.standalone:
        if not is_controller:
            raise Failure("--standalone is for a controller, and process.roles is not one's")
        return (_alone(keys, formatter),)
    if is_controller and not any(chosen) and not keys.controller_quorum_voters:
        raise Failure(f"this node is a controller, and controller.quorum.voters is not set: give one of {_ONE_OF}")
    return given


def _alone(keys: "ServerKeys", formatter: "Formatter") -> "InitialController":
    from barnabas.cluster.formatting import InitialController

    controllers = {name.upper() for name in keys.controller_listener_names}
    for listener in keys.listeners:
        name, _, address = listener.partition("://")
        host, _, port = address.rpartition(":")
        if name.upper() in controllers and port.isdecimal():
            return InitialController(keys.node_id, host.strip("[]") or "localhost", int(port), formatter.new_id())
    raise Failure("--standalone needs a listener for controllers", "add CONTROLLER://HOST:PORT to listeners")


def _parse_controllers(text: str) -> tuple["InitialController", ...]:
    from barnabas.cluster.formatting import parse_controllers

    return parse_controllers(text)


COMMANDS = (
    Command(
        "format",
        "Prepare the log directories of one node of a cluster.",
        format_dirs,
        (
            Option("-c --config", "the node's server.properties", "FILE"),
            Option("-t --cluster-id", "the id of the cluster (default a random one, which is printed)", "ID", word),
            Option("-s --standalone", "the node is a quorum of one, to which others can be added"),
            Option(
                "-I --initial-controllers",
                "the voters that the quorum begins with, the same for every node",
                "ID@HOST:PORT:DIRECTORY-ID,...",
                _parse_controllers,
            ),
            Option("-N --no-initial-controllers", "the node joins a quorum that is there already"),
            Option("-g --ignore-formatted", "leave directories as they are that are formatted already"),
            Option("--new-id", "only print a random id, for a cluster or a directory"),
        ),
        examples=(
            "barnabas format --config server.properties --standalone",
            "barnabas format --config server.properties --cluster-id 4L6g3nShT-eMCtK--X86sw --no-initial-controllers",
        ),
    ),
)
