"""Which partition a group belongs to."""

import pytest

from barnabas.broker.groups.coordinator import partition_for


@pytest.mark.parametrize(
    ("group_id", "partitions", "expected"),
    [
        ("", 50, 0),
        ("a", 50, 97 % 50),
        ("orders", 50, 1008770331 % 50),  # -1008770331
        ("simple", 50, 902286926 % 50),  # its hash code is -902286926
        ("polygenelubricants", 50, 0),  # the smallest number there is, which has no absolute value
        ("grüße", 50, 98768023 % 50),
        ("\N{PARTY POPPER}", 50, (0xD83C * 31 + 0xDF89) % 50),  # two units
        ("orders", 1, 0),
    ],
)
def test_a_group_belongs_to_the_partition_where_kafka_looks_for_it(
    group_id: str, partitions: int, expected: int
) -> None:
    assert partition_for(group_id, partitions) == expected
