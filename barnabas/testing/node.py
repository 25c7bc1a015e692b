"""A node of a cluster in the hands of a test."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.testing.process import NodeProcess

if TYPE_CHECKING:
    from barnabas.testing.nodes import Nodes


class ClusterNode:
    """One broker, and in the first nodes a controller as well. Each method returns when it is done."""

    def __init__(self, properties: Mapping[str, str], port: int, nodes: "Nodes") -> None:
        self.node_id = int(properties["node.id"])
        self.port = port
        """Where clients reach it. It stays the same from one start to the next."""
        self.data_dir = properties["log.dirs"]
        self.process: NodeProcess | None = None
        self._properties = properties
        self._nodes = nodes

    def __repr__(self) -> str:
        return f"<node {self.node_id} at {self.bootstrap_servers}>"

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def is_running(self) -> bool:
        """Returns whether there is a process. One that is paused counts."""
        return self.process is not None and self.process.is_alive

    @property
    def is_paused(self) -> bool:
        return self.is_running and self._running.is_paused

    @property
    def _running(self) -> NodeProcess:
        if self.process is None or not self.process.is_alive:
            raise RuntimeError(f"node {self.node_id} does not run")
        return self.process

    def start(self) -> None:
        """Starts the node on what it has on its disk. Returns when it serves clients and the others know; or at once,
        if too few voters can be reached to elect a controller: start them as well."""
        self.begin()
        self.wait_until_joined()

    def begin(self) -> None:
        """Starts the node, and does not wait until it is ready."""
        if self.is_running:
            raise RuntimeError(f"node {self.node_id} runs already")
        self._bury()
        runtime = self._nodes.runtime

        def begin() -> None:
            self.process = NodeProcess(self._properties, runtime, self._nodes.open_files_max)
            self.process.start()

        try:
            runtime.call(begin)
        except BaseException:
            self._end()
            raise

    def wait_until_joined(self) -> None:
        nodes = self._nodes
        if nodes.runtime.call(lambda: nodes.can_elect(self)):
            nodes.runtime.wait_until(lambda: nodes.has_joined(self), f"node {self.node_id} was not ready")

    def stop(self) -> None:
        """Stops the node cleanly: it hands over what it leads, answers what is under way, and flushes."""
        process, runtime = self._running, self._nodes.runtime
        if process.is_paused:
            raise RuntimeError(f"node {self.node_id} is paused: resume it before it can stop, or kill it")
        runtime.call(process.stop)
        runtime.wait_until(lambda: not process.is_alive, f"node {self.node_id} did not stop")
        self._bury()
        if process.error is not None:
            raise process.error

    def kill(self) -> None:
        """Ends the node as `kill -9` does: its connections are reset, and nothing is flushed or handed over."""
        assert self._running
        self._end()

    def pause(self) -> None:
        """Stops the node as SIGSTOP does: its connections stay up, and nothing moves."""
        if not self.is_paused:
            self._nodes.runtime.call(self._running.pause)

    def resume(self) -> None:
        """Lets a node go on that was paused."""
        if self.is_paused:
            self._nodes.runtime.call(self._running.resume)

    def end(self) -> Exception | None:
        """Ends the node whatever its state; returns the error if it had failed by itself."""
        error = None if self.process is None else self.process.error
        self._end()
        return error

    def _end(self) -> None:
        if self.process is not None:
            self._nodes.runtime.call(self.process.kill)
            self._bury()

    def _bury(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.bury()
