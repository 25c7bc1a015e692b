"""Creates topics for a request that cannot be answered without them."""

from barnabas.base.promise import Promise
from barnabas.broker.handlers.own_image import when_seen
from barnabas.broker.node import Node
from barnabas.protocol.errors import ErrorCode
from barnabas.replication.metadata.image import MetadataImage


def create_topics(node: Node, names: list[str]) -> Promise[dict[str, ErrorCode]]:
    """Returns a promise of the errors of those topics that could not be created. It is kept when this broker knows all
    others; if that takes too long, it is kept all the same, and they are still unknown here."""

    def is_seen(errors: dict[str, ErrorCode], image: MetadataImage) -> bool:
        return all(image.topic(name) for name in names if name not in errors)

    return when_seen(node, node.topic_creation.create(names), is_seen)
