"""`barnabas start`: one broker in this process, or with --brokers several in processes of their own.

stdout gets one line, when requests are answered; the log goes to stderr. The first SIGTERM or SIGINT stops the broker
cleanly, exit code 0; a second SIGINT ends the process at once, exit code 130. What a user can mend (a taken port, a
locked data directory, an unknown key) is one line and exit code 1.
"""

import gc
import os
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.broker.system.report import LEVELS, JsonReport, TextReport
from barnabas.options import (
    Arguments,
    Command,
    Failure,
    Option,
    UsageError,
    key_value,
    one_of,
    port_number,
    positive_number,
    word,
)
from barnabas.protocol.errors import InvalidConfig, KafkaStorageError

if TYPE_CHECKING:
    from barnabas.broker.process import BrokerProcess
    from barnabas.broker.server import BrokerServer

LISTS_KEYS = "`barnabas configs describe --broker ID --all` lists the keys of a broker that runs"
DEFAULT_LISTENER = "PLAINTEXT://127.0.0.1:9092"


def start(arguments: Arguments) -> int:
    if arguments.ephemeral and arguments.data_dir is not None:
        raise UsageError("--data-dir and --ephemeral exclude each other: data either stays or goes away")
    if arguments.brokers == 1 and (arguments.controllers or arguments.internal_port):
        raise UsageError("--controllers and --internal-port are for --brokers of more than one")
    end_on_sigterm()
    ephemeral_dir = _ephemeral_dir() if arguments.ephemeral else None
    try:
        if ephemeral_dir is not None:
            _make(ephemeral_dir)  # in here: a signal may come before mkdir has even returned
        if arguments.brokers > 1:
            from barnabas.cluster.start import start_cluster

            return start_cluster(arguments, ephemeral_dir)
        return _run(properties_of(arguments, ephemeral_dir), report_of(arguments), arguments.cluster_id)
    finally:
        if ephemeral_dir is not None:
            from shutil import rmtree

            rmtree(ephemeral_dir, ignore_errors=True)


def report_of(arguments: Arguments, node_id: int | None = None) -> TextReport | JsonReport:
    """Returns the log; with a `node_id`, that of one broker of several."""
    level = arguments.log_level
    if arguments.log_format == "json":
        return JsonReport(level=level, node_id=node_id)
    return TextReport(level=level, node_id=node_id)


def _run(properties: dict[str, str], report: TextReport | JsonReport, cluster_id: str) -> int:
    gc.disable()  # until the broker is ready: nothing that a start makes is garbage, and looking for some takes time
    from barnabas.broker.process import BrokerProcess

    allow_many_files()
    _refuse_a_cluster(properties)
    try:
        process = BrokerProcess(properties, report=report, cluster_id=cluster_id, is_alone=True)
        _stop_on_signals(process)
        process.run(lambda: _on_ready(process.server))
    except Exception as error:
        if (failure := failure_of(error, properties)) is None:
            raise
        raise failure from None
    return 0


def _refuse_a_cluster(properties: Mapping[str, str]) -> None:
    """Raises Failure for a directory with the data of several brokers: a broker alone would begin anew beside it."""
    data_dir = properties.get("log.dirs", properties.get("log.dir", "./data"))
    if os.path.exists(f"{data_dir}/cluster.properties"):
        raise Failure(f"{data_dir} holds the data of a cluster", "start it with --brokers and the number it has")


def failure_of(error: Exception, properties: Mapping[str, str]) -> Failure | None:
    """Returns what to tell about an error that ended a broker; None if nobody expected it."""
    from barnabas.broker.network.acceptor import CannotListen
    from barnabas.broker.server import NotRegistered, StopFailed, StorageLost
    from barnabas.storage.metadata_files import CorruptMetadata
    from barnabas.storage.opening.log_opening import ForeignLogDir, LogDirInUse

    if isinstance(error, InvalidConfig):
        is_strange = error.message.startswith("Unknown") and "did you mean" not in error.message
        return Failure(error.message, LISTS_KEYS if is_strange else "")
    if isinstance(error, CannotListen):
        return Failure(error.message, "choose another --port (0 picks a free one) or --host")
    if isinstance(error, (LogDirInUse, ForeignLogDir, CorruptMetadata, KafkaStorageError)):
        return Failure(str(error), "choose another --data-dir")
    if isinstance(error, StorageLost):
        return Failure(str(error), "see to the disk, then start again: the logs are recovered")
    if isinstance(error, NotRegistered):
        return Failure(str(error))
    if isinstance(error, StopFailed):
        return Failure(str(error), "the next start recovers its logs")
    if isinstance(error, OSError):
        # The first file that a broker opens in its directory is the lock: what is wrong with it is wrong with both.
        about = (error.filename or properties.get("log.dirs", "./data")).removesuffix("/.lock")
        return Failure(f"cannot use {about}: {_reason(error)}", "choose another --data-dir")
    return None


# ---- properties

WITHOUT_A_FILE = {"group.initial.rebalance.delay.ms": "0"}
"""The value in the server.properties that Kafka ships: a first consumer need not wait three seconds for others."""


def properties_of(arguments: Arguments, ephemeral_dir: str | None = None) -> dict[str, str]:
    """Returns the properties of the file, overridden by --set, overridden by the options that have a name of their
    own."""
    properties = dict(read_properties(arguments.config) if arguments.config else WITHOUT_A_FILE)
    properties.update(arguments.set)
    data_dir = ephemeral_dir or arguments.data_dir
    if data_dir is not None:
        properties.pop("log.dir", None)
        properties["log.dirs"] = data_dir
    if arguments.port is not None or arguments.host is not None:
        address = with_address(properties, arguments.host, arguments.port)
        if arguments.port is not None and "advertised.listeners" in properties:
            if advertised := with_advertised_port(properties, arguments.port):
                properties["advertised.listeners"] = advertised
            else:
                del properties["advertised.listeners"]
        properties["listeners"] = address
    return properties


def read_properties(path: str) -> dict[str, str]:
    from barnabas.base.properties import parse_properties

    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return parse_properties(file.read())
    except OSError as error:
        raise Failure(f"cannot read {path}: {_reason(error)}") from None
    except InvalidConfig as error:
        raise Failure(f"{path}: {error.message}") from None


def with_address(properties: Mapping[str, str], host: str | None, port: int | None) -> str:
    """Returns `listeners` with this host and port in the first one for clients; None keeps its own."""
    listeners = _entries(properties.get("listeners", DEFAULT_LISTENER))
    index, name, old_host, old_port = first_for_clients(properties)
    if index >= 0:
        new_host = old_host if host is None else f"[{host}]" if ":" in host else host
        listeners[index] = f"{name}://{new_host}:{old_port if port is None else port}"
    return ",".join(listeners)


def with_advertised_port(properties: Mapping[str, str], port: int) -> str:
    """Returns `advertised.listeners`, whose port follows that of the first listener for clients where both were the
    same. For port 0, which is only known later, nothing is advertised: clients get the address that they dialled."""
    _, name, _, old_port = first_for_clients(properties)
    advertised = []
    for entry in _entries(properties["advertised.listeners"]):
        rest, _, advertised_port = entry.rpartition(":")
        if rest.partition("://")[0].upper() != name.upper() or advertised_port != old_port:
            advertised.append(entry)
        elif port:
            advertised.append(f"{rest}:{port}")
    return ",".join(advertised)


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",")]


def first_for_clients(properties: Mapping[str, str]) -> tuple[int, str, str, str]:
    """Returns index, name, host and port of the first listener that is not a controller's; index -1 if there is
    none."""
    controllers = {name.upper() for name in _entries(properties.get("controller.listener.names", "CONTROLLER"))}
    for index, listener in enumerate(_entries(properties.get("listeners", DEFAULT_LISTENER))):
        name, _, address = listener.partition("://")
        if name.upper() not in controllers:
            host, _, port = address.rpartition(":")
            return index, name, host, port
    return -1, "", "", ""


def _ephemeral_dir() -> str:
    """Creates a temporary directory. Importing `tempfile` would cost a third of the start-up time."""
    return f"{os.environ.get('TMPDIR') or '/tmp'}/barnabas-{os.urandom(16).hex()}"


def _make(ephemeral_dir: str) -> None:
    try:
        os.mkdir(ephemeral_dir, 0o700)
    except OSError as error:
        raise Failure(f"cannot make a temporary directory {ephemeral_dir}: {_reason(error)}") from None


# ---- running


def end_on_sigterm() -> None:
    """Ends the process on SIGTERM until there is a broker to stop, so that a temporary directory is removed, and so
    that the first process of a container, which ignores signals that it does not handle, ends. A second signal does not
    interrupt the clean-up."""
    import signal

    def end(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)


def allow_many_files() -> None:
    """Raises the limit of open files to what the system allows, as a JVM does: the usual soft limit is for select()."""
    from resource import RLIMIT_NOFILE, getrlimit, setrlimit

    _, hard = getrlimit(RLIMIT_NOFILE)
    try:
        setrlimit(RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        pass  # then it has to do with what it has


def _stop_on_signals(process: "BrokerProcess") -> None:
    import signal

    def stop(signal_number: int, _frame: object) -> None:
        if signal_number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        process.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)


def _on_ready(server: "BrokerServer") -> None:
    _say_ready(server)
    gc.freeze()
    gc.enable()


def _say_ready(server: "BrokerServer") -> None:
    config = server.config
    listener = server.listeners[0]
    host = listener.host or "0.0.0.0"
    address = f"[{host}]:{listener.port}" if ":" in host else f"{host}:{listener.port}"
    data = ",".join(config.log_dirs)
    try:
        print(f"barnabas is ready on {address} (node {config.node_id}, data {data}, {age_ms()} ms)", flush=True)
    except (OSError, ValueError):
        pass  # nobody reads stdout; clients will


def age_ms() -> int:
    """Returns the time since the kernel started the process, in steps of its tick: what a user waited, interpreter
    included."""
    try:
        with open("/proc/self/stat", "rb") as file:
            start_ticks = int(file.read().rpartition(b")")[2].split()[19])
        return int((time.clock_gettime(time.CLOCK_BOOTTIME) - start_ticks / os.sysconf("SC_CLK_TCK")) * 1000)
    except (OSError, ValueError, IndexError, AttributeError):
        from barnabas.__main__ import STARTED_AT

        return int((time.monotonic() - STARTED_AT) * 1000)


def broker_count(text: str) -> int:
    """Parses how many brokers there are to be; `auto` is one for each core that this process may use."""
    if text != "auto":
        return positive_number(text)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _reason(error: OSError) -> str:
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


START = Command(
    "start",
    "Start a broker, or a cluster of them on this machine. Ctrl-C stops it.",
    start,
    (
        Option("-c --config", "a Kafka server.properties file; the options below override it", "FILE"),
        Option("-p --port", "the port to listen on; 0 picks a free one (default 9092)", "N", port_number),
        Option("--host", "the address to listen on; 0.0.0.0 is every interface (default 127.0.0.1)", "ADDRESS"),
        Option("-d --data-dir", "where the data is kept (default ./data)", "DIR"),
        Option("-s --set", "a broker configuration, such as num.partitions=3", "KEY=VALUE", key_value, repeated=True),
        Option("--ephemeral", "keep the data in a temporary directory that goes away"),
        Option("--cluster-id", "the id of a cluster that is new (default a random one)", "ID", word, ""),
        Option(
            "-n --brokers",
            "how many brokers, each a process, on ports from --port on; auto: one per core",
            "N",
            broker_count,
            1,
        ),
        Option(
            "--controllers", "how many of them vote about the metadata (default 3, or 1 of two)", "N", positive_number
        ),
        Option("--internal-port", "the first port for controllers (default --port + 10000)", "N", port_number),
        Option("--log-format", "text or json (default text)", "FORMAT", one_of("text", "json"), "text"),
        Option("--log-level", "info, warning or error (default info)", "LEVEL", one_of(*LEVELS), "info"),
    ),
    examples=(
        "barnabas start",
        "barnabas start --port 0 --ephemeral",
        "barnabas start --brokers 3",
        "barnabas start --config server.properties --set auto.create.topics.enable=false",
    ),
)
COMMANDS = (START,)
