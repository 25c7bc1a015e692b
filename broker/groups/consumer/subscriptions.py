"""What the members of a consumer group are subscribed to, counted: by name, and by regular expression (KIP-848).

The counts follow the members one by one, so that neither a heartbeat nor a join looks at the whole group.
"""

from barnabas.broker.groups.consumer.member import ConsumerMember
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import Uuid
from barnabas.replication.metadata.image import MetadataImage


class ResolvedRegularExpression(NamedTuple):
    topics: frozenset[str]
    version: int
    """The offset of the metadata in which they were found."""
    timestamp_ms: int


class Subscriptions:
    __slots__ = ("by_name", "by_regex", "resolved")

    def __init__(self) -> None:
        self.by_name: dict[str, int] = {}
        """How many members have a topic's name in their subscription."""
        self.by_regex: dict[str, int] = {}
        self.resolved: dict[str, ResolvedRegularExpression] = {}

    def copy(self) -> "Subscriptions":
        copied = Subscriptions()
        copied.by_name = dict(self.by_name)
        copied.by_regex = dict(self.by_regex)
        copied.resolved = dict(self.resolved)
        return copied

    def replace(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        """Counts a member's new subscription, not its old one. `before` is None if it joins, `after` if it leaves."""
        old_names = before.subscribed_topic_names if before is not None else frozenset()
        new_names = after.subscribed_topic_names if after is not None else frozenset()
        if old_names != new_names:
            for name in old_names:
                count(self.by_name, name, -1)
            for name in new_names:
                count(self.by_name, name, 1)
        old_regex = before.subscribed_topic_regex if before is not None else ""
        new_regex = after.subscribed_topic_regex if after is not None else ""
        if old_regex != new_regex:
            if old_regex:
                count(self.by_regex, old_regex, -1)
            if new_regex:
                count(self.by_regex, new_regex, 1)

    @property
    def topics(self) -> set[str]:
        found = set(self.by_name)
        for regex in self.by_regex:
            if regex in self.resolved:
                found |= self.resolved[regex].topics
        return found

    def covers(self, topic: str) -> bool:
        return topic in self.by_name or any(
            topic in self.resolved[regex].topics for regex in self.by_regex if regex in self.resolved
        )

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        resolved = self.resolved.get(member.subscribed_topic_regex)
        return member.subscribed_topic_names | resolved.topics if resolved else member.subscribed_topic_names

    def is_homogeneous(self, members: int) -> bool:
        """Returns whether all members, of which there are `members`, have the same subscription."""
        if not self.by_regex:
            return all(subscribers == members for subscribers in self.by_name.values())
        return not self.by_name and list(self.by_regex.values()) == [members]


def count(counts: dict[str, int], key: str, change: int) -> None:
    """Changes a count, and removes it when it falls to zero."""
    counts[key] = counts.get(key, 0) + change
    if counts[key] <= 0:
        del counts[key]


def topic_ids(topics: frozenset[str], image: MetadataImage) -> frozenset[Uuid]:
    """Returns the ids of those topics that exist."""
    found = [image.topic(name) for name in topics]
    return frozenset([topic.topic_id for topic in found if topic is not None])


def metadata_hash(topics: set[str], image: MetadataImage) -> int:
    """Returns a hash that changes when a topic comes, goes or gets partitions, or when replicas move to other racks.

    It is 0 without any topic. It is compared with itself only, so it need not be Kafka's."""
    facts = []
    for name in sorted(topics):
        if (topic := image.topic(name)) is not None:
            racks = [sorted(_racks(partition.replicas, image)) for partition in topic.partitions]
            facts.append((topic.topic_id, name, racks))
    if not facts:
        return 0
    from hashlib import blake2b  # costs every start some milliseconds, and most brokers have no such group

    return int.from_bytes(blake2b(repr(facts).encode(), digest_size=8).digest(), signed=True)


def _racks(replicas: tuple[int, ...], image: MetadataImage) -> set[str]:
    brokers = [image.brokers[replica] for replica in replicas if replica in image.brokers]
    return {broker.rack for broker in brokers if broker.rack is not None}
