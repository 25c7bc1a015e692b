"""Records say whose they are, and whether they are what was sent."""

import pytest

from barnabas.verification.content import RECORD_BYTES_MIN, Content, Read
from barnabas.verification.events import FOREIGN

RUN = "00112233445566ff"
CONTENT = Content(RUN, 100)
KEY, VALUE = CONTENT.key(3, 70_000), CONTENT.value(3, 70_000)


@pytest.mark.parametrize("record_bytes", [RECORD_BYTES_MIN, 25, 100, 1000])
def test_a_value_has_the_size_that_was_asked_for(record_bytes: int) -> None:
    assert len(Content(RUN, record_bytes).value(3, 7)) == record_bytes


def test_a_record_is_known_again() -> None:
    assert CONTENT.read(KEY, VALUE) == Read(3, 70_000, True)


@pytest.mark.parametrize("place", range(len(VALUE)))
def test_every_byte_of_the_value_counts(place: int) -> None:
    altered = VALUE[:place] + bytes([VALUE[place] ^ 1]) + VALUE[place + 1 :]
    assert CONTENT.read(KEY, altered) == Read(3, 70_000, False)


@pytest.mark.parametrize("place", range(len(KEY)))
def test_every_byte_of_the_key_counts(place: int) -> None:
    altered = KEY[:place] + bytes([KEY[place] ^ 1]) + KEY[place + 1 :]
    read = CONTENT.read(altered, VALUE)
    assert read.producer != FOREIGN
    assert not read.is_intact


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (KEY, VALUE[:-1]),
        (KEY, VALUE + b"\0"),
        (KEY, b""),
        (KEY, None),
        (None, VALUE),
        (KEY, CONTENT.value(3, 70_001)),
        (KEY.replace(b"/3/", b"/03/"), VALUE),
    ],
)
def test_what_is_cut_or_mixed_is_ours_and_altered(key: bytes | None, value: bytes | None) -> None:
    read = CONTENT.read(key, value)
    assert (read.producer, read.sequence, read.is_intact) == (3, 70_000, False)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"4711", b"two coffees"),
        (Content("ff" * 8, 100).key(3, 7), Content("ff" * 8, 100).value(3, 7)),  # another run
        (f"{RUN}/3".encode(), b""),
        (f"{RUN}/3/{1 << 50}".encode(), b""),  # no run sends so many
    ],
)
def test_what_others_wrote_is_foreign(key: bytes | None, value: bytes | None) -> None:
    assert CONTENT.read(key, value).producer == FOREIGN


def test_two_foreign_records_differ() -> None:
    assert CONTENT.read(b"4711", b"two coffees") != CONTENT.read(b"4711", b"three coffees")
