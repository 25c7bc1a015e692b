"""A broker for the tests of your own software, inside the test's process.

    with Broker(topics={"orders": 3}) as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)

It listens on a free port of 127.0.0.1, keeps its data in a temporary directory, runs on a thread of its own and is
gone, with its thread, its files and its sockets, when the block ends. `BarnabasContainer` is the same in a container,
under testcontainers.
"""

import shutil
import tempfile
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from barnabas.broker.loop import Loop
from barnabas.broker.promise import Promise
from barnabas.broker.report import TextReport
from barnabas.broker.server import BrokerServer
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.storage.seams import Report

if TYPE_CHECKING:
    from barnabas.testing_container import BarnabasContainer as BarnabasContainer

_START_TIMEOUT_S = 30


class MovableTime:
    """The time of the system, and what a test has put on top of it."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def time_ns(self) -> int:
        return time.time_ns() + int(self.ahead_s * 1e9)

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead_s


class Broker:
    """Start it as a context manager, or with `start` and `stop`.

    `config` takes Kafka's broker keys, for example {"auto.create.topics.enable": "false"}. A `data_dir` of your own is
    kept: a second broker on it finds what the first one stored.
    """

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, str] | None = None,
        *,
        data_dir: str | None = None,
        port: int = 0,
        report: Report | None = None,
    ) -> None:
        self._topics = dict(topics or {})
        self._config = dict(config or {})
        self._own_data_dir = data_dir
        self._asked_port = port
        self._report = report or TextReport(level="warning")
        self._time = MovableTime()
        self._loop: Loop | None = None
        self._thread: threading.Thread | None = None
        self._server: BrokerServer | None = None
        self._error: BaseException | None = None
        self.data_dir = ""
        self.port = 0

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Returns when the broker answers and the topics are there; raises what kept it from starting."""
        assert self._thread is None, "this broker runs already"
        self.data_dir = self._own_data_dir or tempfile.mkdtemp(prefix="barnabas-")
        ready = threading.Event()
        self._error = None
        self._thread = threading.Thread(target=self._run, args=(ready,), name="barnabas-broker", daemon=True)
        self._thread.start()
        if not ready.wait(_START_TIMEOUT_S):
            self._error = TimeoutError(f"the broker was not ready within {_START_TIMEOUT_S} s")
        if self._error is not None:
            error = self._error
            self.stop()
            raise error
        try:
            self.create_topics(self._topics)
        except BaseException:
            self.stop()
            raise
        return self

    def create_topics(self, topics: Mapping[str, int], config: Mapping[str, str] | None = None) -> None:
        """Topics by name with their number of partitions, all with the same topic configuration."""
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=-1,
                    assignments=(),
                    configs=[CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()],
                )
                for name, partitions in topics.items()
            ]
        )
        done = threading.Event()
        errors: list[str] = []

        def create() -> None:
            assert self._server is not None
            self._server.broker.controller.submit(
                lambda controller, image: controller.create_topics(request, image)
            ).when_done(created)

        def created(promise: Promise[CreateTopicsResponse]) -> None:
            if promise.error is not None:
                errors.append(str(promise.error))
            else:
                refused = (topic for topic in promise.value.topics if topic.error_code)
                errors.extend(f"{topic.name}: {topic.error_message}" for topic in refused)
            done.set()

        assert self._loop is not None, "start the broker first"
        self._loop.call_from_thread(create)
        if not done.wait(_START_TIMEOUT_S):
            raise TimeoutError("the topics were not created in time")
        if errors:
            raise KafkaError("; ".join(errors))

    def advance(self, seconds: float) -> None:
        """Moves the broker's clock ahead: sessions end, offsets expire and old segments go without a wait.

        Returns when everything that was due by then has been done. Clients keep their own time.
        """
        done = threading.Event()
        loop = self._loop
        assert loop is not None, "start the broker first"

        def move() -> None:
            self._time.ahead_s += seconds
            loop.call_later(0, loop.call_soon, done.set)  # behind the timers that are due now, and what they put off

        loop.call_from_thread(move)
        if not done.wait(_START_TIMEOUT_S):
            raise TimeoutError("the broker did not follow its clock in time")

    def stop(self) -> None:
        """Answers what is under way, flushes, and leaves nothing behind. Stopping twice does no harm."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if self._loop is not None and self._server is not None:
            self._loop.call_from_thread(self._server.stop)
        thread.join()
        if self._own_data_dir is None:
            shutil.rmtree(self.data_dir, ignore_errors=True)
        if (error := self._error) is not None:
            self._error = None
            raise error

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self, ready: threading.Event) -> None:
        try:
            self._serve(ready)
        except BaseException as error:
            self._error = error
        finally:
            ready.set()

    def _serve(self, ready: threading.Event) -> None:
        properties = {
            "log.dirs": self.data_dir,
            "listeners": f"PLAINTEXT://127.0.0.1:{self._asked_port}",
            "group.initial.rebalance.delay.ms": "0",  # a test has the consumers that it has
            **self._config,
        }
        server = BrokerServer(properties, report=self._report, system_time=self._time)
        self._server, self._loop = server, server.loop

        def on_ready() -> None:
            self.port = server.listeners[0].port
            ready.set()

        server.run(on_ready)


def __getattr__(name: str) -> Any:
    """`BarnabasContainer` needs testcontainers, which only those who ask for it must have."""
    if name != "BarnabasContainer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from barnabas.testing_container import BarnabasContainer
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "testcontainers":
            raise
        raise ImportError("BarnabasContainer needs testcontainers: pip install 'barnabas[testcontainers]'") from error
    return BarnabasContainer
