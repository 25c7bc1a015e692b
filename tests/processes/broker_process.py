"""A broker as users run it: a process of its own, found by the line that it prints when it is ready."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.barnabas.processes import READY


class BrokerProcess:
    def __init__(self, data_dir: Path, *, port: int = 0, settings: dict[str, str] | None = None) -> None:
        self.data_dir = data_dir
        self.port = port
        self.settings = settings or {}
        self.log = data_dir.parent / f"{data_dir.name}.log"
        self._process: subprocess.Popen[str] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> Self:
        command = [
            sys.executable,
            "-m",
            "barnabas",
            "start",
            "--data-dir",
            str(self.data_dir),
            "--port",
            str(self.port),
        ]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        with self.log.open("a") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        ready = READY.fullmatch(self._process.stdout.readline())
        if ready is None:
            self.stop()
            raise AssertionError(f"the broker did not start:\n{self.log.read_text()[-4000:]}")
        self.port = int(ready[2])
        return self

    def kill(self) -> None:
        """As the kernel does when memory runs out: no warning, no last word."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Cleanly; returns the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        assert process.stdout is not None
        if process.poll() is None:
            os.kill(process.pid, number)
        code = process.wait(timeout=30)
        process.stdout.close()
        return code

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.stop()
