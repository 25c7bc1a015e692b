"""Randomness from the operating system, with the names of `random.Random`, whose import alone costs milliseconds."""

import os


class Entropy:
    __slots__ = ()

    def randbytes(self, n: int, /) -> bytes:
        return os.urandom(n)

    def getrandbits(self, k: int, /) -> int:
        return int.from_bytes(os.urandom((k + 7) // 8), "big") >> (-k % 8)

    def randrange(self, stop: int, /) -> int:
        """Returns each number below `stop` equally often."""
        bits = stop.bit_length()
        while (number := self.getrandbits(bits)) >= stop:
            pass
        return number
