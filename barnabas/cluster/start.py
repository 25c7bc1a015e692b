"""`barnabas start --brokers N`: several brokers on this machine, each in a process of its own, as one cluster."""

import gc
import time

from barnabas.base.environment import Report
from barnabas.base.files import Lock, make_durable_dir
from barnabas.base.network import Address
from barnabas.broker.system.disk import OsFiles
from barnabas.broker.system.entropy import Entropy
from barnabas.cluster.channel import Channel
from barnabas.cluster.child import run_broker
from barnabas.cluster.data_dirs import Agreement, ClusterDirs
from barnabas.cluster.formatting import Formatter
from barnabas.cluster.layout import (
    INTERNAL_HOST,
    ClusterLayout,
    Ports,
    check_properties,
    data_dir_of,
    ports_of,
    voters_of,
    with_picked,
)
from barnabas.cluster.ports import check_free, picked_ports
from barnabas.cluster.supervision import End
from barnabas.cluster.supervisor import Supervisor
from barnabas.commands.start import age_ms, allow_many_files, first_for_clients, properties_of, report_of
from barnabas.options import Arguments, Failure
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.storage.metadata_files import LOCK_FILE

_ATTEMPTS = 5
"""How often free ports are picked, should others take them before the brokers can."""
_TAKEN = "cannot listen on "


class Wanted(NamedTuple):
    """What the command line asks for."""

    properties: dict[str, str]
    data_dir: str
    brokers: int
    voters: tuple[int, ...]
    internal_port: int | None
    cluster_id: str


def start_cluster(arguments: Arguments, ephemeral_dir: str | None) -> int:
    gc.disable()  # each broker looks for garbage once it is ready
    properties = properties_of(arguments, ephemeral_dir)
    check_properties(properties)
    brokers: int = arguments.brokers
    wanted = Wanted(
        properties,
        data_dir_of(properties),
        brokers,
        voters_of(brokers, arguments.controllers),
        arguments.internal_port,
        arguments.cluster_id,
    )
    allow_many_files()
    lock: Lock | None = None
    try:
        dirs = ClusterDirs(wanted.data_dir, OsFiles(), Formatter(OsFiles(), Entropy(), now_ms=_now_ms()))
        dirs.examine(brokers)  # nothing is made in a directory that is somebody else's
        lock = _locked(wanted.data_dir)
        end = _run(wanted, dirs, arguments)
    except OSError as error:
        about = error.filename or wanted.data_dir
        raise Failure(
            f"cannot use {about}: {(error.strerror or str(error)).lower()}", "choose another --data-dir"
        ) from None
    finally:
        if lock is not None:
            lock.release()
    if end.line:
        raise Failure(end.line)
    return end.status


def _locked(data_dir: str) -> Lock:
    """Locks the directory for as long as this process, or a broker that it started, is there."""
    files = OsFiles()
    make_durable_dir(files, data_dir)
    try:
        return files.lock(f"{data_dir}/{LOCK_FILE}")
    except BlockingIOError:
        raise Failure(f"{data_dir} is in use by another cluster", "choose another --data-dir") from None


def _run(wanted: Wanted, dirs: ClusterDirs, arguments: Arguments) -> End:
    report: Report = report_of(arguments)
    for attempt in range(1, _ATTEMPTS + 1):
        known = dirs.examine(wanted.brokers)
        asked = _ports(wanted, known)
        ports = _picked(asked, wanted)
        layout = ClusterLayout(wanted.properties, wanted.data_dir, wanted.brokers, ports)
        is_new = known is None and not dirs.is_alone
        agreed = known or dirs.agree(wanted.cluster_id, dict(ports.controllers))
        agreement = dirs.extend(agreed, dict(ports.controllers))
        dirs.prepare(layout, agreement, report)
        _tell(layout, agreement, report)
        end = _supervised(layout, report, arguments)
        if not asked.are_picked or not end.line.startswith(_TAKEN) or attempt == _ATTEMPTS:
            return end
        if is_new:
            dirs.forget(layout.node_ids)
    raise AssertionError("the last attempt returns")


# ---- ports


def _ports(wanted: Wanted, known: Agreement | None) -> Ports:
    """Returns the ports, and with them who votes. The voters of a cluster that is there find each other where they did
    before: what the quorum knows of them is not ours to change."""
    port = int(first_for_clients(wanted.properties)[3] or 0)
    ports = ports_of(port, wanted.internal_port, wanted.brokers, wanted.voters)
    if known is None:
        return ports
    if wanted.internal_port is not None and wanted.internal_port != min(known.ports.values()):
        raise Failure(
            f"the controllers of this cluster listen on port {min(known.ports.values())} and following",
            "leave --internal-port out",
        )
    return Ports(ports.clients, {**ports.controllers, **known.ports})


def _picked(asked: Ports, wanted: Wanted) -> Ports:
    """Returns the ports, free ones for those that are 0. Raises Failure if one that was named is taken."""
    host = first_for_clients(wanted.properties)[2].strip("[]")
    named = [Address(host, port) for port in asked.clients.values() if port]
    named += [Address(INTERNAL_HOST, port) for port in asked.controllers.values() if port]
    check_free(named)
    hosts = [host for port in asked.clients.values() if not port]
    return with_picked(asked, picked_ports(hosts + [INTERNAL_HOST for port in asked.controllers.values() if not port]))


# ---- running


def _supervised(layout: ClusterLayout, report: Report, arguments: Arguments) -> End:
    def run_child(node_id: int, channel: Channel) -> int:
        own_report = report_of(arguments, node_id)
        return run_broker(layout.properties_of(node_id), channel, own_report, local_brokers=layout.brokers)

    return Supervisor(layout.node_ids, run_child, report, lambda: _say_ready(layout)).run()


def _say_ready(layout: ClusterLayout) -> None:
    addresses = ",".join(str(layout.client_address(node_id)) for node_id in layout.node_ids)
    nodes = f"nodes 1-{layout.brokers}"
    try:
        print(f"barnabas is ready on {addresses} ({nodes}, data {layout.data_dir}, {age_ms()} ms)", flush=True)
    except (OSError, ValueError):
        pass  # nobody reads stdout; clients will


def _tell(layout: ClusterLayout, agreement: Agreement, report: Report) -> None:
    """Says what a user may not expect of the voters."""
    if layout.brokers == 2 and len(agreement.controllers) == 1:
        report.info("node 1 alone votes: while it is down node 2 serves on, and nothing about topics can change")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
