"""A supervisor whose children are no brokers: they say on standard output what happens to them.

python -m tests.barnabas.cluster.small_children COUNT [NODE=BEHAVIOUR...]
"""

import os
import select
import signal
import sys

from barnabas.broker.system.report import TextReport
from barnabas.cluster.channel import FAILED, IN_SYNC, LEAVE, LEFT, READY, Channel
from barnabas.cluster.supervisor import Supervisor

BEHAVIOURS = dict(word.split("=") for word in sys.argv[2:])


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def sockets() -> int:
    """Returns how many sockets this process has open."""
    links = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
    return sum(os.readlink(link).startswith("socket:") for link in links if os.path.lexists(link))


def run_child(node_id: int, channel: Channel) -> int:
    behaviour = BEHAVIOURS.get(str(node_id), "")
    if behaviour == "fails":
        channel.send(FAILED, "cannot do\nanything")
        return 1
    if behaviour == "crashes":
        raise RuntimeError("not expected")
    if behaviour == "stubborn":
        signal.signal(signal.SIGTERM, lambda _number, _frame: say("ignored", node_id))
    if behaviour == "orphans":
        leave_an_orphan(os.getppid())
    say("started", node_id, os.getpid(), sockets())
    try:  # from here on it may be told to stop
        channel.send(READY)
        channel.send(IN_SYNC)
        return serve(node_id, channel, leaves=behaviour != "stubborn")
    finally:
        say("stopped", node_id)


def leave_an_orphan(heir: int) -> None:
    """Returns when there is a process whose parent has ended. It ends when `heir` is its parent."""
    if between := os.fork():
        os.waitpid(between, 0)
        return
    if not os.fork():
        while os.getppid() != heir:
            os.sched_yield()
        say("orphan", os.getpid())
    os._exit(0)


def serve(node_id: int, channel: Channel, *, leaves: bool) -> int:
    while True:
        select.select([channel], [], [])
        for word, _ in channel.receive():
            if word == LEAVE and leaves:
                say("leaves", node_id)
                channel.send(LEFT)
        if channel.is_closed_by_peer:
            say("orphaned", node_id)
            return 0


def main() -> int:
    nodes = range(1, int(sys.argv[1]) + 1)
    end = Supervisor(nodes, run_child, TextReport(), lambda: say("ready")).run()
    say("end", end.line)
    return end.status


if __name__ == "__main__":
    sys.exit(main())
