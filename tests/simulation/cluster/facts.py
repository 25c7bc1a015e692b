"""What an administrator was told to be done: it is in the image of every controller that comes later (I7).

Names are used once, and a key of a topic is set once. So it does not matter that a request may be carried out a second
time, late: a broker sends it again when its connection to the controller breaks.
"""

from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.types import Uuid
from barnabas.replication.metadata.image import MetadataImage


class KnownTopic:
    """A topic that was created, as far as anybody was told."""

    def __init__(self, name: str, topic_id: Uuid, partitions: int) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions
        self.configs: dict[str, str] = {}
        self.is_being_deleted = False
        self.is_deleted = False


class Facts:
    def __init__(self) -> None:
        self.topics: list[KnownTopic] = []
        self.answers = 0

    def created(self, name: str, topic_id: Uuid, partitions: int) -> KnownTopic:
        self.answers += 1
        topic = KnownTopic(name, topic_id, partitions)
        self.topics.append(topic)
        return topic

    def configured(self, topic: KnownTopic, key: str, value: str) -> None:
        self.answers += 1
        topic.configs[key] = value

    def grown(self, topic: KnownTopic, partitions: int) -> None:
        self.answers += 1
        topic.partitions = partitions

    def deleted(self, topic: KnownTopic) -> None:
        self.answers += 1
        topic.is_deleted = True

    def check(self, who: str, image: MetadataImage) -> None:
        """I7: every change that was answered with success is in this image."""
        for topic in self.topics:
            found = image.topic_by_id(topic.topic_id)
            if topic.is_deleted:
                assert found is None, f"I7: {who} has {topic.name}, which was deleted"
            elif found is None:
                assert topic.is_being_deleted, f"I7: {who} lacks {topic.name} at {image.end_offset}"
            else:
                assert len(found.partitions) >= topic.partitions, f"I7: {who} lacks partitions of {topic.name}"
                configs = image.config(ResourceType.TOPIC, topic.name)
                for key, value in topic.configs.items():
                    assert configs.get(key) == value, f"I7: {who} has {key} of {topic.name} as {configs.get(key)}"
