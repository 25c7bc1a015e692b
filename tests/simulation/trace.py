"""The story of a run: what happened, when, to whom.

    12.345s broker 1: closed the connection from client 3 (reset)

Only the last lines are kept, as tuples, and nothing is formatted before somebody wants to read it. The hash covers all
that ever happened, the bytes that travelled included: two runs with the same hash were the same run.
"""

from collections import deque
from collections.abc import Iterator
from hashlib import blake2b
from typing import Protocol

_LINES_KEPT = 20_000
_HASHED_TOGETHER = 256


class _Time(Protocol):
    now_us: int


class Trace:
    def __init__(self, time: _Time, lines_kept: int = _LINES_KEPT) -> None:
        self._time = time
        self._lines: deque[tuple[int, str, str, tuple[object, ...]]] = deque(maxlen=lines_kept)
        self._hash = blake2b(digest_size=16)
        self._unhashed: list[tuple[object, ...]] = []

    def tell(self, who: str, what: str, *args: object) -> None:
        """`what` is a format string; the arguments must be values that do not change."""
        line = (self._time.now_us, who, what, args)
        self._lines.append(line)
        self._note(line)

    def note(self, *facts: object) -> None:
        """Something too small for a line, which the hash covers all the same."""
        self._note((self._time.now_us, *facts))

    def _note(self, facts: tuple[object, ...]) -> None:
        self._unhashed.append(facts)
        if len(self._unhashed) >= _HASHED_TOGETHER:
            self._hash_rest()

    def _hash_rest(self) -> None:
        self._hash.update(repr(self._unhashed).encode())
        self._unhashed.clear()

    def hash(self) -> str:
        """The same wherever the run was looked at: facts are hashed in lots, and the last lot may be a small one."""
        rest = self._hash.copy()
        rest.update(repr(self._unhashed).encode())
        return rest.hexdigest()

    def lines(self) -> Iterator[str]:
        for now_us, who, what, args in self._lines:
            yield f"{now_us / 1e6:9.3f}s {who}: {what.format(*args)}"

    def text(self, last: int | None = None) -> str:
        lines = list(self.lines())
        return "\n".join(lines if last is None else lines[-last:])
