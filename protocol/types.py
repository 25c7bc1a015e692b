"""Small values that every layer names the same way."""

import binascii

from barnabas.protocol.named_tuple import NamedTuple

Buffer = bytes | bytearray | memoryview

Uuid = bytes
"""Sixteen bytes, as on the wire."""

ZERO_UUID: Uuid = bytes(16)


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def uuid_text(uuid: Uuid) -> str:
    """Returns a Uuid as Kafka prints it: URL-safe base64 without padding."""
    return binascii.b2a_base64(uuid, newline=False).decode().translate(_URL_SAFE).rstrip("=")


def uuid_of_text(text: str) -> Uuid:
    """Returns the Uuid of a text from `uuid_text`. Raises ValueError for any other text."""
    uuid = binascii.a2b_base64(text.translate(_URL_UNSAFE) + "==")
    if len(uuid) != 16:
        raise ValueError(f"{text!r} is not a Uuid: it holds {len(uuid)} bytes, not 16")
    return uuid


_URL_SAFE = str.maketrans("+/", "-_")
_URL_UNSAFE = str.maketrans("-_", "+/")
