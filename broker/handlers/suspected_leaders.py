"""Lets an answer that names leaders wait, though not for long, while one of them may be dead.

One answer that names a dead leader costs some clients a second: they believe it, and look again only then. A broker
that is suspected (`cluster/suspects.py`) is left out of the answer, as Kafka leaves out one that is fenced.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.replication.metadata.image import MetadataImage, TopicImage

T = TypeVar("T")

WAIT_MS = 250


def when_leaders_are_known(
    node: Node, leaders: Callable[[MetadataImage], Iterable[int]], answer: Callable[[], T]
) -> T | Promise[T]:
    """Returns the answer, or a promise of it that is kept when none of these leaders is doubted, or after a while."""

    def are_known(image: MetadataImage) -> bool:
        doubted = node.doubted
        return not doubted or not any(leader in doubted for leader in leaders(image))

    if are_known(node.image):
        return answer()
    return node.when_image(are_known, WAIT_MS).map(lambda _: answer())


def leaders_of(topics: Iterable[TopicImage | None]) -> Iterable[int]:
    return (partition.leader for topic in topics if topic is not None for partition in topic.partitions)
