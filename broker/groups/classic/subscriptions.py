"""The topics that the consumers of a classic group read: the one thing in their metadata that the broker looks at.

The metadata is read as version 0, with which every later version begins: the rest may be of a version that is not
known here.
"""

from collections.abc import Iterable

from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.schema import decode_from
from barnabas.protocol.stored.consumer_protocol import ConsumerProtocolSubscription

_VERSION_BYTES = 2


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """Returns the topics of all members; None if the metadata of one cannot be read, because it may read any topic."""
    topics: set[str] = set()
    try:
        for one in metadata:
            topics.update(decode_from(ConsumerProtocolSubscription, 0, one, _VERSION_BYTES)[0].topics)
    except ProtocolError:
        return None
    return frozenset(topics)
