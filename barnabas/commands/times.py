"""Timestamps and durations as people write them, in milliseconds."""

import re

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
_SHORT = re.compile(rf"(?:{_PART.pattern})+")
_ISO = re.compile(r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


def parse_timestamp(text: str) -> int:
    """Returns milliseconds since the epoch. A text without a time zone is UTC, as in Kafka's own tools: a script means
    the same everywhere."""
    from datetime import UTC, datetime

    if text.startswith("@") and text[1:].isdecimal():
        return int(text[1:])
    try:
        timestamp = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("must be a time such as 2026-01-31T12:00:00Z, or @milliseconds") from None
    return round((timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)).timestamp() * 1000)


def parse_duration(text: str) -> int:
    """Parses `90s`, `1h30m`, `2d`, or ISO 8601: `PT10M`, `P1DT12H`."""
    if _SHORT.fullmatch(text):
        return round(sum(float(number) * _UNITS_MS[unit] for number, unit in _PART.findall(text)))
    match = _ISO.fullmatch(text.upper())
    if match is None or not any(match.groups()):
        raise ValueError("must be a duration such as 10m, 1h30m, 2d or PT10M")
    return round(sum(float(number or 0) * _UNITS_MS[unit] for number, unit in zip(match.groups(), "wdhms")))
