"""The time of a broker whose clock a test can move."""

import time


class MovableTime:
    """The time of the system, and what a test has added to it."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def time_ns(self) -> int:
        return time.time_ns() + int(self.ahead_s * 1e9)

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead_s
