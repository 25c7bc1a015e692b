"""Regular expressions that clients send: RE2's, as in Kafka's consumer protocol (KIP-848).

Python's `re` backtracks: a pattern of a few letters can keep it busy for years, and the loop with it. RE2 takes time in
proportion to the text, whatever the pattern. It is imported with the first pattern, not before.

Deviations from Kafka's RE2/J: `\\C` and two groups of one name are valid; a pattern that would need more than 8 MiB, or
repetitions that multiply to more than 1,000, are refused.
"""

from collections.abc import Callable

from barnabas.protocol.errors import InvalidRegularExpression

FullMatch = Callable[[bytes], object | None]


def compiled(pattern: str, what: str) -> FullMatch:
    """Returns a function that says whether a whole text matches. Raises InvalidRegularExpression, which says what the
    pattern is."""
    import re2

    options = re2.Options()
    options.never_capture = True
    options.log_errors = False  # it would write to standard error
    try:
        fullmatch: FullMatch = re2.compile(pattern.encode(), options).fullmatch
    except re2.error as error:
        (description,) = error.args
        reason = description.decode("utf-8", "replace").partition(": ")[0]  # what follows repeats a part of the pattern
        raise InvalidRegularExpression(f"{what} `{pattern}` is not a valid regular expression: {reason}.") from None
    return fullmatch
