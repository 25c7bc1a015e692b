"""A cluster for tests, inside the test's process: real brokers on one thread, each in an environment of its own."""

import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Self

from barnabas.base.environment import Report
from barnabas.base.promise import Promise
from barnabas.broker.system.descriptors import open_files_max
from barnabas.broker.system.entropy import Entropy
from barnabas.cluster.formatting import Formatter
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.replication.controller.channel import own_context
from barnabas.testing.broker import Broker, check_created, create_topics_request
from barnabas.testing.calls import TIMEOUT_S
from barnabas.testing.files import UnsyncedFiles
from barnabas.testing.network import Hub
from barnabas.testing.node import ClusterNode
from barnabas.testing.nodes import Nodes
from barnabas.testing.plan import ClusterPlan
from barnabas.testing.runtime import Runtime


class Cluster(Broker):
    """Brokers with the node ids from 1 on: `cluster[2]` is a `ClusterNode`, to be killed, paused and started again.

    `config` takes Kafka's broker keys and holds for all of them. The first three are controllers as well; of fewer than
    three, the first. Each method returns when it is done.
    """

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, str] | None = None,
        *,
        brokers: int = 3,
        report: Report | None = None,
    ) -> None:
        if brokers < 1:
            raise ValueError(f"a cluster of {brokers} brokers")
        super().__init__(topics, config, report=report)
        self._brokers = brokers
        self._plan: ClusterPlan | None = None
        self._found: Nodes | None = None

    # ---- nodes

    @property
    def _nodes(self) -> Nodes:
        assert self._found is not None, "start the cluster first"
        return self._found

    def __getitem__(self, node_id: int) -> ClusterNode:
        return self._nodes.by_id[node_id]

    def __iter__(self) -> Iterator[ClusterNode]:
        return iter(tuple(self._nodes.by_id.values()))

    def __len__(self) -> int:
        return self._brokers

    @property
    def bootstrap_servers(self) -> str:
        """Returns the addresses of all nodes, whether or not they run."""
        return ",".join(node.bootstrap_servers for node in self)

    # ---- start and stop

    def start(self) -> Self:
        """Returns when every broker answers and knows all others, and the topics are there."""
        assert self._found is None, "this cluster runs already"
        self.data_dir = tempfile.mkdtemp(prefix="barnabas-")
        try:
            self._lay_out()
            for node in self:
                node.begin()
            for node in self:
                node.wait_until_joined()
            self.create_topics(self._topics)
        except BaseException:
            self._end()
            raise
        return self

    def _lay_out(self) -> None:
        plan = self._plan = ClusterPlan(self._config, self.data_dir, self._brokers)
        runtime = Runtime(Hub(plan.node_of_port), self._report)
        nodes = self._found = Nodes(runtime, plan.voters, open_files_max(is_alone=False) // self._brokers)
        for node_id, port in plan.layout.ports.clients.items():
            nodes.by_id[node_id] = ClusterNode(plan.layout.properties_of(node_id), port, nodes)
        plan.format(Formatter(UnsyncedFiles(), Entropy(), now_ms=runtime.loops.now_ms()))
        self.port = self[1].port

    def stop(self) -> None:
        """Ends all nodes at once, and leaves nothing behind. Raises the error of a node that had ended by itself.
        Stopping twice does no harm."""
        errors = self._end()
        if errors:
            raise errors[0]

    def _end(self) -> list[Exception]:
        nodes, self._found = self._found, None
        errors = [] if nodes is None else [error for node in nodes.by_id.values() if (error := node.end()) is not None]
        if nodes is not None:
            nodes.runtime.close()
        plan, self._plan = self._plan, None
        if plan is not None:
            plan.release()
        shutil.rmtree(self.data_dir, ignore_errors=True)
        return errors

    # ---- topics

    def create_topics(self, topics: Mapping[str, int], config: Mapping[str, str] | None = None) -> None:
        """Creates topics, given by name with their number of partitions, all with the same configuration. Returns when
        every node that is not cut off knows them."""
        if not topics:
            return
        nodes = self._nodes
        check_created(self._ask_controller(create_topics_request(topics, config or {})))

        def is_known() -> bool:
            return all(image.topic(name) is not None for image in nodes.images for name in topics)

        nodes.runtime.wait_until(is_known, "not every node heard of the topics")

    def _ask_controller(self, request: Any) -> Any:
        """Returns the response of the active controller."""
        nodes = self._nodes

        def ask() -> Promise[Any]:
            node = next((node for node in nodes.moving if nodes.can_elect(node)), None)
            if node is None or node.process is None:
                raise RuntimeError("no majority of the controllers is up and connected: nothing can be decided")
            return node.process.server.node.controller.submit(request, own_context(request))

        return nodes.runtime.ask(ask, "no controller answered")

    def leader(self, topic: str, partition: int) -> int | None:
        """Returns the node that leads a partition; None if none does. While a node that was killed or stopped still
        counts as the leader, it waits for the next, if there can be one."""
        nodes = self._nodes

        def is_decided() -> bool:
            leader = nodes.by_id.get(nodes.partition(topic, partition).leader)
            return leader is None or leader.is_running or not any(nodes.can_elect(node) for node in nodes.moving)

        nodes.runtime.wait_until(is_decided, f"{topic}-{partition} got no other leader")
        found = nodes.runtime.call(lambda: nodes.partition(topic, partition))
        return found.leader if found.leader >= 0 else None

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Makes the node `to` the leader of a partition, and its preferred one. Raises ValueError if it has no replica
        of it, and RuntimeError if its replica is not in sync: then it cannot lead. Returns when every node that is not
        cut off knows its leader."""
        nodes = self._nodes
        found = nodes.runtime.call(lambda: nodes.partition(topic, partition))
        if found.leader == to:
            return
        if to not in found.replicas:
            known = ", ".join(map(str, found.replicas))
            raise ValueError(f"node {to} has no replica of {topic}-{partition}: only {known} can lead it")
        if to not in found.isr:
            raise RuntimeError(f"node {to} cannot lead {topic}-{partition} now: its replica is not in sync")
        replicas = [to, *(replica for replica in found.replicas if replica != to)]
        moved = [ReassignablePartition(partition_index=partition, replicas=replicas)]
        self._ask_controller(
            AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=moved)])
        )
        self._ask_controller(
            ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=topic, partitions=[partition])])
        )

        def is_known() -> bool:
            led = [image.topic(topic) for image in (nodes.image, *nodes.images)]
            return all(found is not None and found.partitions[partition].leader == to for found in led)

        nodes.runtime.wait_until(is_known, f"node {to} does not lead {topic}-{partition}")

    def wait_in_sync(self, timeout: float = TIMEOUT_S) -> None:
        """Returns when every replica of every partition is in sync. Raises TimeoutError, which names the partitions
        that have one that is not, after so many seconds."""
        nodes = self._nodes
        try:
            nodes.runtime.wait_until(lambda: not nodes.out_of_sync, "not every replica was in sync", timeout)
        except TimeoutError as error:
            missing = nodes.runtime.call(lambda: nodes.out_of_sync)
            names = ", ".join(
                f"{name} (without {', '.join(map(str, sorted(missing[name])))})" for name in sorted(missing)
            )
            raise TimeoutError(f"{error}: {names}") from None

    # ---- the cluster as a whole

    @property
    def controller(self) -> int:
        """Returns the node that is the active controller. Waits for the end of an election."""
        nodes = self._nodes
        nodes.runtime.wait_until(lambda: nodes.controller_id is not None, "no controller was elected")
        return nodes.runtime.call(lambda: nodes.controller_id) or self.controller

    def partition(self, *sides: Collection[int]) -> None:
        """Cuts sides off from each other, for example `partition({1}, {2, 3})`; nodes that are on none form one more.

        Connections between sides stall, and new ones fail. Clients reach all nodes.
        """
        named = [node_id for side in sides for node_id in side]
        if unknown := set(named) - set(self._nodes.by_id):
            raise ValueError(f"there is no node {min(unknown)}")
        if len(set(named)) < len(named):
            raise ValueError("a node is on one side only")
        self._nodes.runtime.call(lambda: self._nodes.runtime.hub.partition(sides))

    def heal(self) -> None:
        """Lets all nodes reach each other again."""
        self.partition()

    def advance(self, seconds: float) -> None:
        """Moves the clocks of all nodes ahead: sessions end, offsets expire and old segments go without a wait.

        Returns when everything that was due by then has been done. Clients keep their own time. What is longer than a
        minute comes as a jump, after which the nodes elect a controller and take up their work again.
        """
        self._nodes.runtime.advance(seconds)
