"""Real processes: the command line as a user runs it.

`BARNABAS_TEST_BOOTSTRAP_SERVERS` names a cluster to run the commands' tests against instead of a broker of our own:
Apache Kafka, to compare.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

READY = re.compile(r"barnabas is ready on (\S+):(\d+) \(node (\d+), data (.+), (\d+) ms\)\n")
TIMEOUT_S = 30


def environment(**variables: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("BARNABAS_")} | variables


def run(
    *arguments: str, stdin: bytes | IO[bytes] = b"", env: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[bytes]":
    """A command, to its end."""
    given: dict[str, Any] = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
    return subprocess.run(
        [sys.executable, "-m", "barnabas", *arguments],
        capture_output=True,
        timeout=TIMEOUT_S,
        env=environment() if env is None else env,
        check=False,
        **given,
    )


class RunningBroker:
    def __init__(
        self, process: "subprocess.Popen[str]", host: str, port: int, node_id: int, data: str, ms: int
    ) -> None:
        self.process = process
        self.host = host
        self.port = port
        self.node_id = node_id
        self.data = data
        self.start_up_ms = ms

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.host}:{self.port}"

    def signal(self, number: int) -> tuple[int, str]:
        """The exit code and everything that was written to stderr."""
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, err


@contextmanager
def broker(*arguments: str, cwd: str | None = None) -> Iterator[RunningBroker]:
    """A broker that answers requests; stopped at the end, so that it takes its temporary files with it."""
    with subprocess.Popen(
        [sys.executable, "-m", "barnabas", "start", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=cwd,
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            match = READY.fullmatch(line)
            assert match, f"{line!r} {process.communicate(timeout=TIMEOUT_S)[1]}"
            host, port, node_id, data, ms = match.groups()
            yield RunningBroker(process, host, int(port), int(node_id), data, int(ms))
        finally:
            process.terminate()
            try:
                process.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()


def failed_start(*arguments: str) -> tuple[int, str]:
    """The exit code and the lines of a broker that does not start."""
    done = run("start", *arguments)
    return done.returncode, done.stderr.decode()


def one_line(text: str | Sequence[str]) -> bool:
    return isinstance(text, str) and text.endswith("\n") and text.count("\n") == 1
