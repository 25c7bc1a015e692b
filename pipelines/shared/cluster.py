"""A Kafka cluster as its administrator sees it: Kafka's own Java Admin client out of the connector's jars.

Spark's source and sink reach the cluster with the same client and the same settings, so whatever lets them in lets
this in too.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NamedTuple, Self

from pyspark.sql import SparkSession

from barnabas.pipelines.shared.explain import SPARK_ERRORS, innermost, known_cause
from barnabas.pipelines.shared.failure import Failure

TIMEOUT_S = 15
REQUEST_TIMEOUT_MS = 15_000
"""Callers that wait longer for a cluster ask it again meanwhile."""
BROKER_DEFAULT = -1


class Topic(NamedTuple):
    name: str
    id: str
    partitions: int
    configs: dict[str, str]
    """Only what is set on the topic itself."""


class Cluster:
    """An Admin client with the `settings` that `kafka_settings` returns. Close it, or use it as a context manager."""

    def __init__(self, spark: SparkSession, settings: dict[str, str], *, timeout_s: float = TIMEOUT_S) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self.bootstrap_servers = settings["kafka.bootstrap.servers"]
        self._timeout_ms = int(timeout_s * 1000)
        self._isolation = settings.get("kafka.isolation.level", "read_uncommitted").upper()
        properties = self._jvm.java.util.Properties()
        for key, value in settings.items():
            if key.startswith("kafka."):
                properties.setProperty(key.removeprefix("kafka."), value)
        properties.setProperty("default.api.timeout.ms", str(self._timeout_ms))
        properties.setProperty("request.timeout.ms", str(min(self._timeout_ms, REQUEST_TIMEOUT_MS)))
        with self._explained("connect"):
            self._admin = self._jvm.org.apache.kafka.clients.admin.Admin.create(properties)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._admin.close(self._jvm.java.time.Duration.ofSeconds(5))

    def cluster_id(self) -> str:
        with self._explained("ask for the cluster's id"):
            return str(self._admin.describeCluster().clusterId().get())

    def topics(
        self, names: Iterable[str] | None = None, pattern: str | None = None, *, configs: bool = True
    ) -> dict[str, Topic]:
        """Returns the named topics that exist, or those whose whole name matches, without internal ones, as Spark does.

        Reading configurations takes most of the time: leave them out (`configs=False`) where they are not needed.
        """
        with self._explained("list topics"):
            which = self._jvm.org.apache.kafka.clients.admin.ListTopicsOptions().listInternal(names is not None)
            existing = set(self._admin.listTopics(which).names().get())
            if names is not None:
                wanted = [name for name in names if name in existing]
            else:
                matches = self._jvm.java.util.regex.Pattern.compile(pattern or ".*")
                wanted = sorted(name for name in existing if matches.matcher(name).matches())
            if not wanted:
                return {}
            described = self._admin.describeTopics(wanted).allTopicNames().get()
            found = self._configs(wanted) if configs else {}
            return {name: self._topic(described[name], found.get(name, {})) for name in wanted}

    def effective_configs(self, names: Iterable[str], keys: Iterable[str]) -> dict[str, dict[str, str]]:
        """Returns what is in force for these topics, wherever it is set."""
        with self._explained("read topic configurations"):
            resources = {name: self._resource(name) for name in names}
            found = self._admin.describeConfigs(list(resources.values())).all().get()
            wanted = list(keys)
            return {
                name: {key: entry.value() for key in wanted if (entry := found[resource].get(key)) is not None}
                for name, resource in resources.items()
            }

    def _topic(self, described: Any, configs: dict[str, str]) -> Topic:
        return Topic(described.name(), described.topicId().toString(), len(described.partitions()), configs)

    def _configs(self, names: list[str]) -> dict[str, dict[str, str]]:
        resources = {name: self._resource(name) for name in names}
        found = self._admin.describeConfigs(list(resources.values())).all().get()
        return {
            name: {
                entry.name(): entry.value()
                for entry in self._jvm.java.util.ArrayList(found[resource].entries())
                if entry.source().toString() == "DYNAMIC_TOPIC_CONFIG"
            }
            for name, resource in resources.items()
        }

    def _resource(self, name: str) -> Any:
        kind = self._jvm.org.apache.kafka.common.config.ConfigResource
        return kind(getattr(self._jvm, "org.apache.kafka.common.config.ConfigResource$Type").TOPIC, name)

    def begin_offsets(self, topics: Iterable[str]) -> dict[tuple[str, int], int]:
        return self._offsets(topics, self._jvm.org.apache.kafka.clients.admin.OffsetSpec.earliest())

    def end_offsets(self, topics: Iterable[str]) -> dict[tuple[str, int], int]:
        """Returns the offsets after the last record that a consumer with these settings can see (`isolation.level`)."""
        return self._offsets(topics, self._jvm.org.apache.kafka.clients.admin.OffsetSpec.latest())

    def offsets_at(self, topics: Iterable[str], timestamp_ms: int) -> dict[tuple[str, int], int]:
        """Returns the first record that is not older; the end, where there is none."""
        topics = list(topics)
        found = self._offsets(topics, self._jvm.org.apache.kafka.clients.admin.OffsetSpec.forTimestamp(timestamp_ms))
        ends = self.end_offsets(topics) if -1 in found.values() else {}
        return {key: ends[key] if offset == -1 else offset for key, offset in found.items()}

    def _offsets(self, topics: Iterable[str], spec: Any) -> dict[tuple[str, int], int]:
        with self._explained("ask for offsets"):
            counts = {
                name: len(described.partitions())
                for name, described in self._admin.describeTopics(list(topics)).allTopicNames().get().items()
            }
            partition = self._jvm.org.apache.kafka.common.TopicPartition
            asked = {(name, number): partition(name, number) for name in counts for number in range(counts[name])}
            request = self._jvm.java.util.HashMap()
            for each in asked.values():
                request.put(each, spec)
            isolation = getattr(self._jvm.org.apache.kafka.common.IsolationLevel, self._isolation)
            options = self._jvm.org.apache.kafka.clients.admin.ListOffsetsOptions(isolation)
            found = self._admin.listOffsets(request, options).all().get()
            return {key: found[each].offset() for key, each in asked.items()}

    def create_topic(
        self, name: str, partitions: int, configs: dict[str, str], replication_factor: int | None = None
    ) -> None:
        """Creates a topic; without a replication factor the broker uses its own."""
        with self._explained(f"create topic {name}"):
            factor = BROKER_DEFAULT if replication_factor is None else replication_factor
            topic = self._jvm.org.apache.kafka.clients.admin.NewTopic(name, partitions, factor)
            self._admin.createTopics([topic.configs(configs)]).all().get()

    def create_partitions(self, name: str, total: int) -> None:
        with self._explained(f"add partitions to {name}"):
            increase = self._jvm.org.apache.kafka.clients.admin.NewPartitions.increaseTo(total)
            self._admin.createPartitions({name: increase}).all().get()

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except SPARK_ERRORS as error:
            known = known_cause(error)
            raise Failure(f"{self.bootstrap_servers}: {known or f'could not {what}: {innermost(error)}'}") from error
