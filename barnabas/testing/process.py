"""One process of a node: a real broker in an environment of its own, from a start to a stop or a kill."""

from collections.abc import Callable, Mapping
from functools import partial

from barnabas.base.environment import Environment, Report, report_bug
from barnabas.broker.node import Node
from barnabas.broker.server import BrokerServer
from barnabas.broker.system.compaction_process import CompactionProcess
from barnabas.broker.system.entropy import Entropy
from barnabas.broker.system.workers import ThreadWorkers
from barnabas.replication.metadata.image import MetadataImage
from barnabas.testing.files import UnsyncedFiles
from barnabas.testing.loops import NodeLoop
from barnabas.testing.network import NodeNetwork
from barnabas.testing.runtime import Runtime


class NodeReport:
    """The cluster's log with the number of the node in front. The dead say nothing."""

    def __init__(self, report: Report, node_id: int) -> None:
        self._report = report
        self._node_id = node_id
        self.is_silent = False

    def info(self, text: str, **fields: object) -> None:
        self._tell(self._report.info, text, fields)

    def warning(self, text: str, **fields: object) -> None:
        self._tell(self._report.warning, text, fields)

    def error(self, text: str, **fields: object) -> None:
        self._tell(self._report.error, text, fields)

    def _tell(self, tell: Callable[..., None], text: str, fields: dict[str, object]) -> None:
        if not self.is_silent:
            tell(f"{self._node_id}| {text}", **{"node": self._node_id, **fields})


class NodeProcess:
    """Everything but `bury` is called on the loops' thread."""

    def __init__(self, properties: Mapping[str, str], runtime: Runtime, open_files_max: int) -> None:
        self._runtime = runtime
        node_id = int(properties["node.id"])
        report = self._report = NodeReport(runtime.report, node_id)
        loop = self._loop = NodeLoop(partial(report_bug, report), system_time=runtime.time)
        workers = self._workers = ThreadWorkers(loop, name=f"barnabas-worker-{node_id}")
        self._network = NodeNetwork(node_id, runtime.hub, loop, workers, report)
        self._compactor = CompactionProcess(loop, workers)
        environment = Environment(
            clock=loop,
            network=self._network,
            files=UnsyncedFiles(),
            workers=workers,
            random=Entropy(),
            report=report,
            compactor=self._compactor,
            open_files_max=open_files_max,
        )
        self.is_ready = False
        self.is_paused = False
        try:
            self.server = BrokerServer(properties, environment)
        except BaseException:
            loop.close()
            raise

    def start(self) -> None:
        """Begins to start. Raises what keeps the broker from starting at all."""
        self._runtime.loops.add(self._loop)
        self.server.ended.when_done(lambda _: self._runtime.loops.remove(self._loop))
        self.server.start(self._ready)

    def _ready(self) -> None:
        self.is_ready = True

    @property
    def is_alive(self) -> bool:
        return not self.server.ended.done

    @property
    def error(self) -> Exception | None:
        """Returns what ended the broker, if it was not asked to stop or could not."""
        return self.server.ended.error

    @property
    def image(self) -> MetadataImage | None:
        """Returns the metadata that this broker has applied, from its start on."""
        node = self._node
        return None if node is None else node.image

    @property
    def broker_epoch(self) -> int:
        """Returns the epoch that the broker was registered with; -1 if it was not so far."""
        node = self._node
        return -1 if node is None else node.lifecycle.broker_epoch

    def knows(self, node_id: int, broker_epoch: int) -> bool:
        """Returns whether this broker tells its clients of that one."""
        known = None if self.image is None else self.image.brokers.get(node_id)
        return known is not None and known.is_active and known.broker_epoch == broker_epoch

    @property
    def _node(self) -> Node | None:
        """Returns what the handlers see, as soon as there is such a thing."""
        return getattr(self.server, "node", None)

    @property
    def controller_epoch(self) -> int:
        """Returns the epoch in which this node is the active controller, as far as it knows; -1 if it is not."""
        node = self._node
        return -1 if node is None else node.quorum.active_epoch

    def pause(self) -> None:
        self.is_paused = True
        self._runtime.loops.remove(self._loop)

    def resume(self) -> None:
        self.is_paused = False
        self._runtime.loops.add(self._loop)

    def stop(self) -> None:
        """Begins to stop cleanly; `is_alive` says when that is done."""
        self.server.stop()

    def kill(self) -> None:
        """Ends the process where it is: no callback of it follows, and its connections are reset."""
        self._report.is_silent = True
        self._runtime.loops.remove(self._loop)
        self._network.reset()
        self._compactor.cancel()

    def bury(self) -> None:
        """Gives back what a dead process has left: threads, files and locks. Any thread may call this, so that a long
        fsync does not hold up the other nodes."""
        self._workers.close()
        self.server.abandon()
        self._loop.close()
