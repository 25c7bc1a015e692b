"""The regular expressions by which a member of the consumer protocol can subscribe (KIP-848)."""

from collections.abc import Iterable

from barnabas.broker.regular_expressions import compiled
from barnabas.protocol.errors import InvalidRegularExpression

_WHAT = "SubscribedTopicRegex"


def check(pattern: str) -> None:
    """Raises InvalidRegularExpression."""
    compiled(pattern, _WHAT)


def resolve(patterns: Iterable[str], topic_names: Iterable[str]) -> dict[str, frozenset[str]]:
    """Returns, by pattern, the topics whose whole name matches. A pattern that is not valid matches nothing."""
    encoded = [(name, name.encode()) for name in topic_names]
    resolved = {}
    for pattern in patterns:
        try:
            fullmatch = compiled(pattern, _WHAT)
        except InvalidRegularExpression:
            resolved[pattern] = frozenset[str]()
        else:
            resolved[pattern] = frozenset(name for name, text in encoded if fullmatch(text) is not None)
    return resolved
