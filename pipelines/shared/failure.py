"""The one exception that users see."""


class Failure(Exception):
    """What the user must know, in one line that says what to do. Exit code 1."""
