"""The environment of a broker in production: one loop, threads, TCP sockets, the disk, and a process that compacts."""

import os
import time
from functools import partial

from barnabas.base.environment import Environment, Report, report_bug
from barnabas.broker.system.compaction_process import CompactionProcess
from barnabas.broker.system.descriptors import open_files_max
from barnabas.broker.system.disk import OsFiles
from barnabas.broker.system.entropy import Entropy
from barnabas.broker.system.loop import Loop, Time
from barnabas.broker.system.sockets import SocketNetwork
from barnabas.broker.system.workers import ThreadWorkers
from barnabas.protocol.named_tuple import NamedTuple


class System(NamedTuple):
    """The environment, and the parts that make it move: its builder runs the loop, and closes both in the end."""

    environment: Environment
    loop: Loop
    workers: ThreadWorkers
    lookups: ThreadWorkers
    """For names of hosts alone: an fsync must not wait behind a resolver that is dead."""


def system_environment(
    report: Report, *, system_time: Time | None = None, is_alone: bool = False, local_brokers: int = 1
) -> System:
    """Builds the environment. `is_alone`: nobody else uses Python in this process. `local_brokers`: how many such
    processes share the cores of the machine."""
    spins = is_alone and (os.cpu_count() or 1) >= 2 * local_brokers  # else it keeps a client or a broker from running
    loop = Loop(partial(report_bug, report), system_time=system_time or time, spins=spins)
    workers = ThreadWorkers(loop)
    lookups = ThreadWorkers(loop, size=2, name="barnabas-lookup")
    environment = Environment(
        clock=loop,
        network=SocketNetwork(loop, lookups, report),
        files=OsFiles(),
        workers=workers,
        random=Entropy(),
        report=report,
        compactor=CompactionProcess(loop, workers),
        open_files_max=open_files_max(is_alone),
    )
    return System(environment, loop, workers, lookups)
