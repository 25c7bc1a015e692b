"""The sender of a request, as far as authentication knows it."""

from barnabas.protocol.named_tuple import NamedTuple


class Principal(NamedTuple):
    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal("User", "ANONYMOUS")
"""A client that did not authenticate, under the name that Kafka gives it."""
