"""Creates topics for a request that cannot be answered without them."""

from barnabas.base.promise import Promise
from barnabas.broker.handlers.own_image import WAIT_MS
from barnabas.broker.node import Node
from barnabas.protocol.errors import ErrorCode


def create_topics(node: Node, names: list[str]) -> Promise[dict[str, ErrorCode]]:
    """Returns a promise of the errors of those topics that could not be created. It is kept when this broker knows all
    others; if that takes too long, it is kept all the same, and they are still unknown here."""
    known: Promise[dict[str, ErrorCode]] = Promise()

    def wait(created: Promise[dict[str, ErrorCode]]) -> None:
        if created.error is not None:
            return known.fail(created.error)
        errors = created.value
        expected = [name for name in names if name not in errors]
        there = node.when_image(lambda image: all(map(image.topic, expected)), WAIT_MS)
        there.when_done(lambda _: known.resolve(errors))

    node.topic_creation.create(names).when_done(wait)
    return known
