"""The two ends of a copy."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from pyspark.sql import DataFrame

from barnabas.pipelines.shared.cluster import Cluster
from barnabas.pipelines.shared.kafka_rows import TopicPartition

Chunk = Mapping[TopicPartition, range]
"""Source offsets by target partition."""


class Source(Protocol):
    def rows(self, chunk: Chunk) -> DataFrame:
        """Returns topic and partition (the target's), offset (the source's), key, value, headers.

        Records of one target partition lie in one Spark partition, by offset.
        """

    def begin_offsets(self, targets: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Returns the first source offsets that can still be read."""

    def is_compacted(self, topic: str) -> bool:
        """Says whether records in the middle may vanish from the source of this target topic."""


class Target(NamedTuple):
    cluster: Cluster
    settings: Mapping[str, str]
    """How to reach it."""
    sink_settings: Mapping[str, str]

    def name(self, partition: TopicPartition) -> str:
        return f"{partition[0]}-{partition[1]} at {self.cluster.bootstrap_servers}"


def next_chunk(next_offsets: Mapping[TopicPartition, int], until: Mapping[TopicPartition, int], limit: int) -> Chunk:
    """Returns what is left up to `until`; if that is more than `limit` offsets, every partition gets its share."""
    left = {key: until[key] - offset for key, offset in next_offsets.items() if until.get(key, 0) > offset}
    total = sum(left.values())
    if total > limit:
        left = {key: max(1, count * limit // total) for key, count in left.items()}
    return {key: range(next_offsets[key], next_offsets[key] + count) for key, count in left.items()}
