"""By which number Kafka finds the partition of a group."""

import pytest

from barnabas.broker.coordinator.key_hash import java_hash


@pytest.mark.parametrize(
    ("group_id", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("orders", 1_008_770_331),  # of -1008770331
        ("simple", 902_286_926),  # of -902286926
        ("polygenelubricants", 0),  # of the smallest number there is, which has no absolute value
        ("grüße", 98_768_023),
        ("\N{PARTY POPPER}", 0xD83C * 31 + 0xDF89),  # two units
    ],
)
def test_a_group_is_found_by_the_hash_code_of_a_java_string(group_id: str, expected: int) -> None:
    assert java_hash(group_id) == expected
