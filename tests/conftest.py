"""For every test."""

import signal


def pytest_configure() -> None:
    """A shell starts what it puts in the background with SIGINT ignored, and every process of a test would inherit that
    and never hear the signals that it is sent."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
