"""Lets an answer of the controller wait, though not for long, until this broker's own image shows what it says.

What is committed may reach a broker after the answer does. A client that asks on, here, about what it has just done
should find it.

Kafka does not wait. Other brokers may still lag behind, as there.
"""

from collections.abc import Callable
from typing import TypeVar

from barnabas.base.promise import Promise
from barnabas.broker.network.session import ListenerType
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.replication.metadata.image import MetadataImage

T = TypeVar("T")

WAIT_MS = 1_500


def when_seen(node: Node, answer: Promise[T], is_seen: Callable[[T, MetadataImage], bool]) -> Promise[T]:
    """Returns a promise of the answer, kept once this broker's image shows what the answer says, or when that takes too
    long."""
    seen: Promise[T] = Promise(answer.abandon)

    def answered(kept: Promise[T]) -> None:
        if kept.error is not None:
            return seen.fail(kept.error)
        node.when_image(lambda image: is_seen(kept.value, image), WAIT_MS).when_done(lambda _: seen.resolve(kept.value))

    answer.when_done(answered)
    return seen


def when_seen_here(
    node: Node, context: RequestContext, answer: Promise[T], is_seen: Callable[[T, MetadataImage], bool]
) -> Promise[T]:
    """Does the same as `when_seen` for a client of this broker. Who asks a controller does not ask about its image."""
    return answer if context.listener_type is ListenerType.CONTROLLER else when_seen(node, answer, is_seen)
