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
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from barnabas.base.environment import Report
from barnabas.base.promise import Promise
from barnabas.broker.process import BrokerProcess
from barnabas.broker.server import BrokerServer
from barnabas.broker.system.report import TextReport
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.replication.controller.channel import own_context

if TYPE_CHECKING:
    from barnabas.testing_container import BarnabasContainer as BarnabasContainer

T = TypeVar("T")
_TIMEOUT_S = 30


class MovableTime:
    """The time of the system, and what a test has added to it."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def time_ns(self) -> int:
        return time.time_ns() + int(self.ahead_s * 1e9)

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead_s


class Broker:
    """A broker to start as a context manager, or with `start` and `stop`.

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
        self._thread: threading.Thread | None = None
        self._process: BrokerProcess | None = None
        self._error: BaseException | None = None
        self.data_dir = ""
        self.port = 0

    @property
    def _running(self) -> BrokerProcess:
        assert self._process is not None, "start the broker first"
        return self._process

    @property
    def _server(self) -> BrokerServer:
        return self._running.server

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Returns when the broker answers and the topics are there; raises the error that kept it from starting."""
        assert self._thread is None, "this broker runs already"
        self.data_dir = self._own_data_dir or tempfile.mkdtemp(prefix="barnabas-")
        ready = threading.Event()
        self._error = None
        self._thread = threading.Thread(target=self._run, args=(ready,), name="barnabas-broker", daemon=True)
        self._thread.start()
        if not ready.wait(_TIMEOUT_S):
            self._error = TimeoutError(f"the broker was not ready within {_TIMEOUT_S} s")
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
        """Creates topics, given by name with their number of partitions, all with the same configuration."""
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

        def create() -> Promise[CreateTopicsResponse]:
            return self._server.node.controller.submit(request, own_context(request))

        response = self._call_on_loop(create)
        errors = [f"{topic.name}: {topic.error_message}" for topic in response.topics if topic.error_code]
        if errors:
            raise KafkaError("; ".join(errors))

    def advance(self, seconds: float) -> None:
        """Moves the broker's clock ahead: sessions end, offsets expire and old segments go without a wait.

        Returns when everything that was due by then has been done. Clients keep their own time.
        """

        def move() -> Promise[None]:
            moved: Promise[None] = Promise()
            clock = self._running.clock
            self._time.ahead_s += seconds
            clock.call_later(0, clock.call_soon, moved.resolve, None)  # after the timers that are due
            return moved

        self._call_on_loop(move)

    def _call_on_loop(self, ask: Callable[[], Promise[T]]) -> T:
        """Calls `ask` on the broker's thread and waits for its promise. Returns the value, or raises the error."""
        answered = threading.Event()
        answers: list[Promise[T]] = []

        def answer(promise: Promise[T]) -> None:
            answers.append(promise)
            answered.set()

        self._running.call(lambda: ask().when_done(answer))
        if not answered.wait(_TIMEOUT_S):
            raise TimeoutError(f"the broker did not answer within {_TIMEOUT_S} s")
        if (error := answers[0].error) is not None:
            raise error
        return answers[0].value

    def stop(self) -> None:
        """Answers what is under way, flushes, and leaves nothing behind. Stopping twice does no harm."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if self._process is not None:
            self._process.stop()
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
        process = self._process = BrokerProcess(properties, report=self._report, system_time=self._time)

        def on_ready() -> None:
            self.port = process.server.listeners[0].port
            ready.set()

        process.run(on_ready)


def __getattr__(name: str) -> Any:
    """Imports `BarnabasContainer` when it is asked for: it needs testcontainers, which is not always installed."""
    if name != "BarnabasContainer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from barnabas.testing_container import BarnabasContainer
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "testcontainers":
            raise
        raise ImportError("BarnabasContainer needs testcontainers: pip install 'barnabas[testcontainers]'") from error
    return BarnabasContainer
