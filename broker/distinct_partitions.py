"""Requests may name a topic or a partition more than once; Kafka answers each partition once, under one topic."""

from collections.abc import Hashable, Iterable
from typing import TypeVar

Topic = TypeVar("Topic", bound=Hashable)
Asked = TypeVar("Asked")


def distinct_partitions(asked: Iterable[tuple[Topic, int, Asked]]) -> dict[Topic, dict[int, Asked]]:
    """Groups by topic and partition, in the order of the request. If a partition is named twice, the last mention
    counts; a topic without partitions is left out."""
    topics: dict[Topic, dict[int, Asked]] = {}
    for topic, partition, entry in asked:
        topics.setdefault(topic, {})[partition] = entry
    return topics
