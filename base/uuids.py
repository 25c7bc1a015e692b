"""Random UUIDs, from the randomness that is handed in."""

from barnabas.base.environment import Random
from barnabas.protocol.types import Uuid

_DASH = 62
"""The digit that URL-safe base64 writes as a dash."""


def random_uuid(random: Random) -> Uuid:
    """Returns a version 4 UUID whose text does not start with a dash: a command line would take it for an option."""
    while True:
        uuid = bytearray(random.randbytes(16))
        uuid[6] = uuid[6] & 0x0F | 0x40
        uuid[8] = uuid[8] & 0x3F | 0x80
        if uuid[0] >> 2 != _DASH:
            return bytes(uuid)
