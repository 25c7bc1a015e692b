"""A number that stands for everything in a metadata image, kept up to date by what changes in it.

Images are values, so Python's own hash of them is that number. It differs from one process to the next, and is compared
with others of the same run only.
"""

from barnabas.replication.metadata.image import ConfigResource, ImageChanges, MetadataImage, TopicImage


def _of_topic(topic: TopicImage | None) -> int:
    return 0 if topic is None else hash(topic)


def _of_configs(image: MetadataImage, resource: ConfigResource) -> int:
    configs = image.config(resource.type, resource.name)
    return hash((resource, *sorted(configs.items()))) if configs else 0


class ImageHash:
    """Follows the images of one node. The node says what has changed: if that is not all, the number is wrong."""

    def __init__(self, image: MetadataImage) -> None:
        self._topics = 0
        for topic in image.topics.values():
            self._topics ^= _of_topic(topic)
        self._configs = {resource: _of_configs(image, resource) for resource in image.configs}
        self._rest = _rest_of(image)
        self._image = image

    def follow(self, image: MetadataImage, changes: ImageChanges) -> None:
        for before, after in changes.topics:
            self._topics ^= _of_topic(before) ^ _of_topic(after)
        for resource in changes.configs:
            self._configs[resource] = _of_configs(image, resource)
        if image.brokers is not self._image.brokers or image.features is not self._image.features:
            self._rest = _rest_of(image)
        self._image = image

    @property
    def value(self) -> int:
        number = self._topics ^ self._rest ^ hash(self._image.producer_ids)
        for each in self._configs.values():
            number ^= each
        return number


def _rest_of(image: MetadataImage) -> int:
    """Brokers and features are few: they are looked at whole."""
    return hash(repr((sorted(image.brokers.items()), sorted(image.features.items()))))
