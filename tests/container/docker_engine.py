"""A Docker daemon to run the image with: the one that answers here or, on a build machine, one of our own.

One of our own keeps everything in a folder that goes away, publishes ports on loopback only and leaves the machine's
firewall alone. Where there is none to be had, `NoDocker` says why.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_S_MAX = 30
STOP_S_MAX = 30
_BRIDGE = Path("/sys/class/net/docker0")


class NoDocker(Exception):
    """There is no daemon, and why."""


class Docker:
    """The command line, at one daemon."""

    def __init__(self, host: str | None = None) -> None:
        self.environment = dict(os.environ)
        self.environment["DOCKER_BUILDKIT"] = "0"  # the builder that every installation has
        self.is_of_our_own = host is not None
        if host is not None:
            self.environment["DOCKER_HOST"] = host

    def __call__(self, *words: str, timeout_s: float = 60, stdin: Path | None = None) -> str:
        """What the command prints; it must succeed."""
        done = self.attempt(*words, timeout_s=timeout_s, stdin=stdin)
        assert done.returncode == 0, f"docker {' '.join(words)}: {done.stdout[-4000:]}{done.stderr[-4000:]}"
        return done.stdout.strip()

    def attempt(
        self, *words: str, timeout_s: float = 60, stdin: Path | None = None
    ) -> "subprocess.CompletedProcess[str]":
        with open(stdin or os.devnull, "rb") as file:
            return subprocess.run(
                ["docker", *words],
                env=self.environment,
                stdin=file,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )

    @property
    def answers(self) -> bool:
        try:
            return self.attempt("version", timeout_s=10).returncode == 0
        except subprocess.TimeoutExpired:
            return False


@contextmanager
def docker_engine() -> Iterator[Docker]:
    if shutil.which("docker") is None:
        raise NoDocker("no docker on the path")
    if (docker := Docker()).answers:
        yield docker
        return
    if not os.environ.get("CI"):
        raise NoDocker("no Docker daemon answers")
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        raise NoDocker("no Docker daemon answers, and starting one takes dockerd and root")
    with tempfile.TemporaryDirectory(prefix="docker-", ignore_cleanup_errors=True) as folder, _daemon(folder) as docker:
        yield docker


@contextmanager
def _daemon(folder: str) -> Iterator[Docker]:
    host = f"unix://{folder}/docker.sock"
    log = Path(folder, "log")
    had_bridge = _BRIDGE.exists()
    command = ["dockerd", "--host", host, "--data-root", f"{folder}/data", "--exec-root", f"{folder}/run"]
    command += ["--pidfile", f"{folder}/pid", "--ip", "127.0.0.1", "--iptables=false", "--ip6tables=false"]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as daemon:
        try:
            docker = Docker(host)
            deadline = time.monotonic() + START_S_MAX
            while not docker.answers:
                if daemon.poll() is not None or time.monotonic() > deadline:
                    raise NoDocker(f"dockerd does not start here: {_last_words(log)}")
                time.sleep(0.1)
            yield docker
        finally:
            daemon.terminate()
            try:
                daemon.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                daemon.kill()
            if not had_bridge and _BRIDGE.exists() and shutil.which("ip"):
                subprocess.run(["ip", "link", "delete", _BRIDGE.name], check=False)


def _last_words(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][-300:] if lines else "it says nothing"
