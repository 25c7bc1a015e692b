"""How often one request may name the same thing. What is named twice is answered twice, as by Kafka; but a few bytes
that are repeated a hundred thousand times must not ask for gigabytes."""

from collections import Counter
from collections.abc import Hashable

from barnabas.protocol.errors import InvalidRequest

REPEATS_MAX = 10


class Repeats:
    def __init__(self) -> None:
        self._counts: Counter[Hashable] = Counter()

    def check(self, key: Hashable) -> None:
        """Raises InvalidRequest if the request has named this too often."""
        self._counts[key] += 1
        if self._counts[key] > REPEATS_MAX:
            raise InvalidRequest(f"a request must not name the same thing more than {REPEATS_MAX} times")
