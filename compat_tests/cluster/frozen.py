"""Brokers of a cluster that hang: they keep their connections and say nothing, until they go on."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compat_tests.brokers import Broker


def pid_of(cluster: Broker, node_id: int) -> int:
    """Returns the process of a node: the one that holds the lock of its directory."""
    lock = str((cluster.data_dirs[node_id - 1] / ".lock").resolve())
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and lock in opened_by(process):
            return int(process.name)
    raise AssertionError(f"node {node_id} does not run")


def opened_by(process: Path) -> set[str]:
    try:
        return {os.readlink(descriptor) for descriptor in (process / "fd").iterdir()}
    except OSError:
        return set()  # it has ended, or is somebody else's


@contextmanager
def frozen(node_id: int, *clusters: Broker) -> Iterator[None]:
    """Stops a node in each cluster; all go on at the end, whatever happened."""
    pids = [pid_of(cluster, node_id) for cluster in clusters]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
