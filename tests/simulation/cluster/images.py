"""A number that stands for everything in a metadata image, kept up to date by what changes in it."""

from hashlib import blake2b

from barnabas.replication.metadata.image import ConfigResource, ImageChanges, MetadataImage, TopicImage


def _number(*facts: object) -> int:
    return int.from_bytes(blake2b(repr(facts).encode(), digest_size=8).digest())


def _of_topic(topic: TopicImage | None) -> int:
    return 0 if topic is None else _number(topic)


def _of_configs(image: MetadataImage, resource: ConfigResource) -> int:
    configs = image.config(resource.type, resource.name)
    return _number(int(resource.type), resource.name, sorted(configs.items())) if configs else 0


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
        self._rest = _rest_of(image)
        self._image = image

    @property
    def value(self) -> int:
        number = self._topics ^ self._rest
        for each in self._configs.values():
            number ^= each
        return number


def _rest_of(image: MetadataImage) -> int:
    """Brokers, features and producer ids are few: they are looked at whole."""
    return _number(sorted(image.brokers.items()), sorted(image.features.items()), image.producer_ids)
