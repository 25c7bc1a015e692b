"""The check that the requests about access control lists share: there is no authorizer, so nothing else is checked."""

from barnabas.protocol.errors import ProtocolError

UNKNOWN = 0
"""The one code that no client may send, whether it stands for a resource, a pattern, an operation or a permission."""


def check_acl_codes(*codes: int) -> None:
    """Raises ProtocolError, which ends the connection, for a request that Kafka takes for malformed."""
    if UNKNOWN in codes:
        raise ProtocolError("an access control list with an UNKNOWN part")
