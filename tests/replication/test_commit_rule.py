import pytest

from barnabas.replication.metadata.commit_rule import UNKNOWN, CommitRule


@pytest.mark.parametrize(
    ("voters", "durable", "expected"),
    [
        ([1], [(1, 8)], 8),  # a single voter is a majority
        ([1], [(1, 5)], UNKNOWN),  # but not before its own epoch's record is on disk
        ([1], [(1, 8), (1, 7)], 8),  # reports may come late
        ([1, 2], [(1, 9)], UNKNOWN),  # of two both are needed
        ([1, 2], [(1, 9), (2, 7)], 7),
        ([1, 2, 3], [(1, 9)], UNKNOWN),
        ([1, 2, 3], [(1, 9), (3, 7)], 7),  # the second best of three
        ([1, 2, 3], [(1, 9), (3, 7), (2, 8)], 8),
        ([1, 2, 3], [(2, 8), (3, 8)], 8),  # followers may be ahead of the leader's own disk
        ([1, 2, 3], [(2, 9), (2, 7), (1, 9)], 7),  # a voter that has lost some does not count with what it had
        ([1, 2, 3], [(1, 9), (2, 5)], UNKNOWN),  # records of older epochs alone are not committed by counting
        ([1, 2, 3, 4, 5], [(1, 9), (2, 9), (3, 6)], 6),
    ],
)
def test_what_a_majority_has_on_disk_is_committed(
    voters: list[int], durable: list[tuple[int, int]], expected: int
) -> None:
    rule = CommitRule(voters, epoch_start_offset=5)
    for voter_id, end_offset in durable:
        found = rule.durable(voter_id, end_offset)
    assert found == rule.high_watermark == expected
