"""What a run says on stderr while it goes on."""

import sys
import time

from barnabas.output import say

LINE_EVERY_S = 10.0


class ProgressLine:
    """Steps, a line each, and counts: drawn again in place on a terminal, elsewhere written now and then."""

    def __init__(self) -> None:
        self._in_place = sys.stderr is not None and sys.stderr.isatty()
        self._is_drawn = False
        self._written_at = time.monotonic()

    def step(self, text: str) -> None:
        self.end()
        say(f"barnabas: {text}")

    def show(self, text: str) -> None:
        if self._in_place:
            sys.stderr.write(f"\r{text}\x1b[K")
            sys.stderr.flush()
            self._is_drawn = True
        elif time.monotonic() - self._written_at >= LINE_EVERY_S:
            self._written_at = time.monotonic()
            say(f"barnabas: {text}")

    def end(self) -> None:
        if self._is_drawn:
            say("")
            self._is_drawn = False
