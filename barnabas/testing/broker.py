"""One broker, inside the test's process."""

import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

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
from barnabas.testing.calls import TIMEOUT_S, call_and_wait
from barnabas.testing.movable_time import MovableTime

T = TypeVar("T")


class Broker:
    """A broker to start as a context manager, or with `start` and `stop`.

    `config` takes Kafka's broker keys, for example {"auto.create.topics.enable": "false"}. A `data_dir` of your own is
    kept: a second broker on it finds what the first one stored. With more `brokers` than one this is a `Cluster`.
    """

    def __new__(cls, *_args: Any, brokers: int = 1, **options: Any) -> "Broker":
        """Makes a cluster of it where more than one broker is asked for."""
        if cls is Broker and brokers != 1:
            if chosen := {"data_dir", "port"} & {*options}:
                raise ValueError(f"a cluster chooses its directories and ports itself: leave out {min(chosen)}")
            from barnabas.testing.cluster import Cluster

            return super().__new__(Cluster)
        return super().__new__(cls)

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, str] | None = None,
        *,
        data_dir: str | None = None,
        port: int = 0,
        report: Report | None = None,
        brokers: int = 1,
    ) -> None:
        assert brokers == 1, "more than one are a cluster"
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
        if not ready.wait(TIMEOUT_S):
            self._error = TimeoutError(f"the broker was not ready within {TIMEOUT_S} s")
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
        request = create_topics_request(topics, config or {})

        def create() -> Promise[CreateTopicsResponse]:
            return self._server.node.controller.submit(request, own_context(request))

        check_created(self._call_on_loop(create))

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
        if self._thread is None or not self._thread.is_alive():
            raise RuntimeError("the broker does not run") from self._error
        return call_and_wait(self._running.call, ask, "the broker did not answer")

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


def create_topics_request(topics: Mapping[str, int], config: Mapping[str, str]) -> CreateTopicsRequest:
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in config.items()]
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(name=name, num_partitions=partitions, replication_factor=-1, assignments=(), configs=configs)
            for name, partitions in topics.items()
        ]
    )


def check_created(response: CreateTopicsResponse) -> None:
    """Raises what kept topics from being created."""
    errors = [f"{topic.name}: {topic.error_message}" for topic in response.topics if topic.error_code]
    if errors:
        raise KafkaError("; ".join(errors))
