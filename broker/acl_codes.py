"""What the requests about access control lists share: there is no authorizer, so only this is looked at."""

from barnabas.protocol.errors import ProtocolError

UNKNOWN = 0
"""The one code that no client may send, whether it stands for a resource, a pattern, an operation or a permission."""


def check_acl_codes(*codes: int) -> None:
    """Raises ProtocolError, which ends the connection, where Kafka does not take the request for one."""
    if UNKNOWN in codes:
        raise ProtocolError("an access control list with an UNKNOWN part")
