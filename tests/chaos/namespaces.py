"""A run in namespaces of its own: processes, mounts and networks that nobody else sees, and that end with it.

The run is the first process of its process namespace. When it ends, however it ends, the kernel kills all that it has
started; networks and mounts go with the last of them. It ends when its standard input does, and that is a pipe whose
other end only the process outside holds.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
_UNSHARE = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
_AS_WHOM = ((), ("--user", "--map-root-user"))
_PROBE = (
    "mount -t tmpfs none /run && ip link add bridge type bridge && iptables -L -n"
    " && ip link set lo up && tc qdisc add dev bridge root tbf rate 1mbit burst 32k latency 400ms"
)


class Way(NamedTuple):
    """How a command gets into namespaces of its own; if there is no way, why."""

    prefix: tuple[str, ...]
    is_open: bool
    why_not: str


@cache
def way_in() -> Way:
    said = ""
    for whom in _AS_WHOM:
        prefix = (*_UNSHARE, *whom)
        try:
            done = subprocess.run([*prefix, "sh", "-c", _PROBE], capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired) as error:
            said = str(error)
            continue
        if done.returncode == 0:
            return Way(prefix, True, "")
        said = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
    return Way((), False, said)


def start_inside(module: str, *arguments: str, way: Way) -> "subprocess.Popen[str]":
    """Starts a module. It ends when its standard input is closed, be it because this process was killed."""
    command = [*way.prefix, sys.executable, "-m", module, *arguments]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True
    )


def end_with_standard_input(abandon: Callable[[], None]) -> None:
    """Lets this process end as soon as its standard input does. The function is called before."""

    def watch() -> None:
        while os.read(0, 4096):
            pass
        abandon()
        os._exit(3)

    threading.Thread(target=watch, name="end", daemon=True).start()
