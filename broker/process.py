"""A broker that runs in this process, on the thread that calls `run`."""

from collections.abc import Callable, Mapping
from typing import Any

from barnabas.base.environment import Clock, Report, report_bug
from barnabas.base.network import READ
from barnabas.broker.server import BrokerServer
from barnabas.broker.system.environment import system_environment
from barnabas.broker.system.loop import Time


class BrokerProcess:
    def __init__(
        self,
        properties: Mapping[str, str],
        *,
        report: Report,
        system_time: Time | None = None,
        cluster_id: str = "",
        is_alone: bool = False,
        local_brokers: int = 1,
    ) -> None:
        """Builds the broker and its environment. `is_alone`: nobody else uses Python in this process. `local_brokers`:
        how many such processes share the machine's cores."""
        self._report = report
        self._system = system_environment(
            report, system_time=system_time, is_alone=is_alone, local_brokers=local_brokers
        )
        try:
            self.server = BrokerServer(properties, self._system.environment, cluster_id=cluster_id)
        except BaseException:
            self._system.loop.close()
            raise

    def run(self, on_ready: Callable[[], None]) -> None:
        """Returns when the broker has stopped. Raises the error that kept it from starting, or from going on."""
        server, loop = self.server, self._system.loop
        try:
            server.ended.when_done(lambda _: loop.stop())
            server.start(on_ready)
            if not server.ended.done:  # some failures are known before the loop has turned once
                loop.run()
        finally:
            try:
                self._system.workers.close()
            except Exception as error:
                report_bug(self._report, error)
            self._system.lookups.abandon()
            server.abandon()
            loop.close()
        if server.ended.error is not None:
            raise server.ended.error

    @property
    def clock(self) -> Clock:
        return self._system.environment.clock

    def stop(self) -> None:
        """Lets the broker stop. Any thread may call this, and a signal handler."""
        self._system.loop.call_from_thread(self.server.stop)

    def watch(self, descriptor: int, on_readable: Callable[[], None]) -> None:
        """Calls back on the broker's thread whenever there is something to read. Call this before `run`."""
        self._system.loop.register(descriptor, READ, lambda _events: on_readable())

    def unwatch(self, descriptor: int) -> None:
        self._system.loop.unregister(descriptor)

    def call(self, function: Callable[..., None], *args: Any) -> None:
        """Calls the function on the broker's thread. Any thread may call this."""
        self._system.loop.call_from_thread(function, *args)
