"""Which names a topic may have."""

from barnabas.protocol.errors import ErrorCode
from barnabas.replication.controller.decision import refused

NAME_LENGTH_MAX = 249
"""With `-<partition>` and a suffix for deletion after it, the name still fits a file name of 255 bytes."""

LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def check_topic_name(name: str) -> None:
    if (reason := invalid_topic_name(name)) is not None:
        raise refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def invalid_topic_name(name: str) -> str | None:
    """Returns why this may not be the name of a topic; None if it may."""
    if not name:
        return "it is empty"
    if name in (".", ".."):
        return f"'{name}' means a directory"
    if len(name) > NAME_LENGTH_MAX:
        return f"it has {len(name)} characters and {NAME_LENGTH_MAX} are allowed"
    if not LEGAL.issuperset(name):
        return f"'{name}' has a character other than ASCII letters, digits, '.', '_' and '-'"
    return None
