"""What the consumers of a classic group read: the one thing in their metadata that the broker looks at.

It is read in version 0, which every later version begins with: what comes after may be of a version that nobody here
has heard of.
"""

from collections.abc import Iterable

from barnabas.protocol.consumer_protocol import ConsumerProtocolSubscription
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.schema import decode_from

_VERSION_BYTES = 2


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all members. None if one of them cannot be understood: it may read anything."""
    topics: set[str] = set()
    try:
        for one in metadata:
            topics.update(decode_from(ConsumerProtocolSubscription, 0, one, _VERSION_BYTES)[0].topics)
    except ProtocolError:
        return None
    return frozenset(topics)
