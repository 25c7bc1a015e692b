from collections import Counter

import pytest

from barnabas.broker.system.entropy import Entropy


@pytest.mark.parametrize("bits", [1, 7, 8, 9, 31, 64, 128])
def test_random_bits_fill_their_range_and_never_leave_it(bits: int) -> None:
    numbers = [Entropy().getrandbits(bits) for _ in range(500)]
    assert max(numbers) < 2**bits
    assert max(number.bit_length() for number in numbers) == bits


@pytest.mark.parametrize("stop", [1, 2, 3, 10, 255, 256, 257])
def test_every_number_of_a_range_comes_up_about_equally_often(stop: int) -> None:
    counts = Counter(Entropy().randrange(stop) for _ in range(200 * stop))
    assert set(counts) == set(range(stop))
    assert min(counts.values()) > 100


def test_random_bytes_are_as_many_as_asked_for() -> None:
    assert len(Entropy().randbytes(16)) == 16
    assert Entropy().randbytes(16) != Entropy().randbytes(16)
