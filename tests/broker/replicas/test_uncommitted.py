"""What a leader keeps of the appends that are not committed."""

import pytest

from barnabas.broker.replicas import uncommitted
from barnabas.broker.replicas.uncommitted import Uncommitted

MANY = 1_000


def of(*appends: tuple[int, int, bytes]) -> Uncommitted:
    kept = Uncommitted()
    for base_offset, end_offset, data in appends:
        kept.add(base_offset, end_offset, memoryview(bytearray(data)))
    return kept


@pytest.mark.parametrize(
    ("offset", "max_bytes", "found"),
    [
        (5, MANY, b"aabccc"),  # all of it, as a follower asks that was away for a moment
        (7, MANY, b"bccc"),
        (8, MANY, b"ccc"),  # the latest, as a follower asks that waits
        (8, 3, b"ccc"),
        (8, 2, None),  # the log knows where to cut
        (6, MANY, None),  # inside a batch: the log knows where that begins
        (4, MANY, None),  # committed long ago
        (9, MANY, None),  # nothing so far
    ],
)
def test_what_was_appended_since_an_offset(offset: int, max_bytes: int, found: bytes | None) -> None:
    kept = of((5, 7, b"aa"), (7, 8, b"b"), (8, 9, b"ccc"))
    assert kept.since(offset, max_bytes) == found


def test_what_is_committed_is_forgotten_and_its_bytes_are_counted() -> None:
    kept = of((5, 7, b"aa"), (7, 8, b"b"), (8, 9, b"ccc"))
    assert kept.committed(8) == 3
    assert (kept.since(7, MANY), kept.since(8, MANY)) == (None, b"ccc")
    assert kept.committed(9) == 3
    assert not kept.appends


def test_few_bytes_are_kept_and_room_for_more_comes_back_with_what_is_committed() -> None:
    half = bytes(uncommitted._KEPT_BYTES_MAX // 2)
    kept = of((0, 1, half), (1, 2, half), (2, 3, b"c"))
    assert (kept.since(0, 1 << 20), kept.since(2, MANY)) == (None, None), "not all of it is here"
    assert kept.committed(3) == 2 * len(half) + 1
    kept.add(3, 4, memoryview(half))
    assert kept.since(3, 1 << 20) == half


def test_appends_that_are_counted_together_are_read_from_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uncommitted, "_APPENDS_MAX", 2)
    kept = of((0, 1, b"a"), (1, 2, b"bb"), (2, 3, b"ccc"))
    assert (len(kept.appends), kept.since(0, MANY), kept.since(1, MANY), kept.since(2, MANY)) == (2, None, None, None)
    assert (kept.committed(2), kept.committed(3)) == (1, 5)
    kept.add(3, 4, memoryview(b"d"))
    assert kept.since(3, MANY) == b"d"


def test_a_buffer_that_is_used_again_changes_nothing() -> None:
    buffer = bytearray(b"first")
    kept = Uncommitted()
    kept.add(0, 1, memoryview(buffer))
    buffer[:] = b"other"
    assert kept.since(0, MANY) == b"first"
