"""A small blocking Kafka client for the commands, on our own codec. It works with any broker of Kafka 2.1 or later.

Rules:
- One connection per node, opened on first use.
- A broker that cannot be reached or stays silent raises `Unreachable`; what a broker refuses raises `KafkaError` with
  its code.
- An answer that a fresh look at the metadata can mend (a moved leader, a topic just created) is asked for again until
  the timeout has passed.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, TypeVar

from barnabas.base.network import Address
from barnabas.client.cluster import Cluster, Partition, Topic, by_leader, cluster_of
from barnabas.client.connection import Connection
from barnabas.client.errors import COORDINATOR_MOVED, RETRIABLE, NoSuchTopic, Unreachable, check
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

T = TypeVar("T")
RETRY_BACKOFF_MIN_S = 0.02
RETRY_BACKOFF_MAX_S = 0.5


class Coordinated(IntEnum):
    """What has a coordinator, by the type of its key."""

    GROUP = 0
    TRANSACTIONAL_ID = 1


class Client:
    """The connections to the nodes of one cluster, opened when they are first used."""

    def __init__(self, bootstrap: Sequence[Address], timeout_s: float = 10.0) -> None:
        self.bootstrap = bootstrap
        self.timeout_s = timeout_s
        self._any: Connection | None = None
        self._nodes: dict[int, Connection] = {}
        self._addresses: dict[int, Address] = {}
        self._coordinators: dict[tuple[Coordinated, str], int] = {}
        """The node that coordinates each group or transactional id that was asked for."""

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for connection in [*self._nodes.values(), *([self._any] if self._any else [])]:
            connection.close()
        self._nodes.clear()
        self._any = None

    # ---- connections

    def any_node(self) -> Connection:
        """Returns a connection to the first of the bootstrap servers that answers."""
        if self._any is not None and self._any.is_gone:
            self.forget_any()
        if self._any is None:
            self._any = self._first_reachable()
        return self._any

    def _first_reachable(self) -> Connection:
        failures: list[Unreachable] = []
        for address in dict.fromkeys([*self.bootstrap, *self._addresses.values()]):
            try:
                return self._connected(address)
            except Unreachable as error:
                failures.append(error)
        if len(failures) == 1:
            raise failures[0]
        raise Unreachable("; ".join(map(str, failures)), failures[0].hint)

    def _connected(self, address: Address) -> Connection:
        connection = Connection(address, self.timeout_s)
        try:
            connection.negotiate()
        except BaseException:
            connection.close()
            raise
        return connection

    def node(self, node_id: int) -> Connection:
        if node_id in self._nodes and self._nodes[node_id].is_gone:
            self.forget(node_id)
        if node_id not in self._nodes:
            if node_id not in self._addresses:
                self.metadata(())
            if node_id not in self._addresses:
                raise KafkaError(f"the cluster has no broker {node_id}", ErrorCode.BROKER_NOT_AVAILABLE)
            self._nodes[node_id] = self._connected(self._addresses[node_id])
        return self._nodes[node_id]

    def forget(self, node_id: int) -> None:
        """Closes the connection; the next request opens another."""
        if (connection := self._nodes.pop(node_id, None)) is not None:
            connection.close()

    def forget_any(self) -> None:
        if self._any is not None:
            self._any.close()
            self._any = None

    def request(self, request: Any, response_class: type[T]) -> T:
        return self.any_node().request(request, response_class)

    # ---- metadata

    def metadata(self, topics: Iterable[str] | None = None, *, auto_create: bool = False) -> Cluster:
        """Returns the cluster with these topics, or with all of them."""
        names = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=names, allow_auto_topic_creation=auto_create)
        try:
            response = self.request(request, MetadataResponse)
        except Unreachable:  # the broker we knew is gone; another one may know where everything went
            self.forget_any()
            response = self.request(request, MetadataResponse)
        self._addresses = {broker.node_id: Address(broker.host, broker.port) for broker in response.brokers}
        return cluster_of(response, self._addresses)

    def topic(self, name: str, *, auto_create: bool = False) -> Topic:
        """Returns a topic all of whose partitions have a leader. Waits for one that is just being created."""

        def look() -> Topic:
            cluster = self.metadata([name], auto_create=auto_create)
            error = cluster.errors.get(name)
            if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not auto_create:
                raise NoSuchTopic(name)
            if error is not None:
                raise KafkaError(f"topic {name}", error)
            topic = cluster.topics[name]
            for partition in topic.partitions:
                if partition.error is ErrorCode.LEADER_NOT_AVAILABLE or partition.leader_id < 0:
                    raise KafkaError(
                        f"partition {partition.partition_index} of topic {name} has no leader",
                        ErrorCode.LEADER_NOT_AVAILABLE,
                    )
            return topic

        return self.retry(look)

    def retry(self, attempt: Callable[[], T], retriable: frozenset[ErrorCode] = RETRIABLE) -> T:
        """Attempts until one succeeds, one fails for good, or the timeout has passed."""
        deadline = time.monotonic() + self.timeout_s
        for backoff_s in backoffs():
            try:
                return attempt()
            except KafkaError as error:
                if isinstance(error, NoSuchTopic) or error.code not in retriable or time.monotonic() > deadline:
                    raise
            time.sleep(backoff_s)
        raise AssertionError("backoffs never end")

    def on_leaders(
        self, topic: str, ask: Callable[[Connection, list[Partition]], Mapping[int, T]], partitions: Iterable[int]
    ) -> dict[int, T]:
        """Asks every leader for its partitions. Asks again for those that are missing in the answers."""
        answers: dict[int, T] = {}
        missing = set(partitions)

        def attempt() -> dict[int, T]:
            wanted = [partition for partition in self.topic(topic).partitions if partition.partition_index in missing]
            for leader_id, theirs in by_leader(wanted).items():
                answers.update(ask(self.node(leader_id), theirs))
            missing.difference_update(answers)
            if missing:
                raise KafkaError(f"partition {min(missing)} of topic {topic} moved", ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return answers

        return self.retry(attempt)

    # ---- coordinators

    def coordinator(self, key: str, what: Coordinated = Coordinated.GROUP) -> int:
        """Returns the node that coordinates a group or a transactional id. Waits for one that is just taking over."""
        if (what, key) not in self._coordinators:
            found = self.retry(lambda: self._find_coordinator(key, what), COORDINATOR_MOVED)
            self._coordinators[what, key] = found
        return self._coordinators[what, key]

    def _find_coordinator(self, key: str, what: Coordinated) -> int:
        from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

        request = FindCoordinatorRequest(key=key, key_type=what, coordinator_keys=[key])
        response = self.request(request, FindCoordinatorResponse)
        found = response.coordinators[0] if response.coordinators else response  # several at once since version 4
        name = what.name.lower().replace("_", " ")
        check(found.error_code, found.error_message, f"{name} {key} has no coordinator")
        self._addresses[found.node_id] = Address(found.host, found.port)
        return found.node_id

    def on_coordinator(self, key: str, ask: Callable[[Connection], T], what: Coordinated = Coordinated.GROUP) -> T:
        """Asks the coordinator of a group or a transactional id. Looks for it again if it has moved or still loads."""

        def attempt() -> T:
            try:
                return ask(self.node(self.coordinator(key, what)))
            except (KafkaError, Unreachable):
                self._coordinators.pop((what, key), None)
                raise

        return self.retry(attempt, COORDINATOR_MOVED | {ErrorCode.BROKER_NOT_AVAILABLE})


def backoffs() -> Iterator[float]:
    backoff_s = RETRY_BACKOFF_MIN_S
    while True:
        yield backoff_s
        backoff_s = min(2 * backoff_s, RETRY_BACKOFF_MAX_S)
