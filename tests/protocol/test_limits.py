"""What a whole message may hold, however little each of its parts does."""

import pytest

from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.schema import array, decode, string
from tests.protocol.test_schema import Leader, hexed, one_field


def test_tagged_fields_count_like_elements_over_the_whole_message() -> None:
    """Each struct may have ten thousand; a hundred thousand structs may not."""
    leader = "00" * 8 + "904e" + "6300" * 10_000
    cls = one_field(array(Leader), flexible=True)
    assert len(decode(cls, 0, hexed(f"{99 + 1:02x}" + leader * 99 + "00")).value) == 99
    with pytest.raises(ProtocolError, match="more than 1000000 elements"):
        decode(cls, 0, hexed(f"{100 + 1:02x}" + leader * 100 + "00"))


def test_a_string_that_is_too_long_once_its_bytes_are_replaced_is_refused() -> None:
    """It could not be written again: a replacement takes three bytes."""
    cls = one_field(string())
    assert len(decode(cls, 0, (10_000).to_bytes(2, "big") + b"\xff" * 10_000).value) == 10_000
    with pytest.raises(ProtocolError, match="no UTF-8"):
        decode(cls, 0, (11_000).to_bytes(2, "big") + b"\xff" * 11_000)
