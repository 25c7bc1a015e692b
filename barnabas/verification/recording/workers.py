"""A thread that works until it is told to stop, and whose error ends the run."""

import threading
from collections.abc import Callable


class Workers:
    """The threads of a run."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self._failed = threading.Event()
        self._error: BaseException | None = None

    def start(self, name: str, work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                self._error = self._error or error
                self._failed.set()

        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def wait(self, seconds: float) -> None:
        """Waits that long. Raises the error of a thread as soon as it has one."""
        self._failed.wait(seconds)
        self.check()

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def join(self) -> None:
        for thread in self._threads:
            thread.join()
