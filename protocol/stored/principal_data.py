"""A principal as it travels in an Envelope (KIP-590)."""

from barnabas.protocol.schema import boolean, message, string


@message(versions=range(0, 1), flexible_since=0)
class DefaultPrincipalData:
    type: str = string()
    name: str = string()
    token_authenticated: bool = boolean()
