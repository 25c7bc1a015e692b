"""What is wrong with a compacted topic is found, and what compaction may do is not."""

import pytest

from tests.chaos.judging.table import Place, table_of

SENT = [
    "sent 0 a-0 0",
    "acknowledged 0 a-0 0 10",
    "sent 0 a-0 1",
    "acknowledged 0 a-0 1 11",
    "sent 1 a-1 2",
    "acknowledged 1 a-1 2 10",
]
ALL = ["found 0 10 a-0 0", "found 0 11 a-0 1", "found 1 10 a-1 2"]


def findings(*lines: str) -> list[str]:
    return [slug for slug, _ in table_of(line.split() for line in lines).findings()]


@pytest.mark.parametrize(
    "read",
    [
        ALL,
        ALL[1:],  # an older record of a key may go
        ["read 0 10 a-0 0", *ALL],  # whoever reads on the way has seen it
        ["sent 0 a-0 3", *ALL],  # never acknowledged, and not there
        ["sent 0 a-0 3", *ALL, "found 0 12 a-0 3"],  # never acknowledged, and there
    ],
)
def test_what_compaction_and_lost_answers_may_do(read: list[str]) -> None:
    assert findings(*SENT, *read) == []


@pytest.mark.parametrize(
    ("read", "found"),
    [
        ([ALL[0], ALL[2]], ["table-lost-write"]),  # an older record takes the newest one's place
        (ALL[:2], ["table-lost-write"]),
        ([*ALL, "found 0 12 a-0 7"], ["table-phantom"]),
        ([*ALL, "found 1 12 a-0 1"], ["table-phantom", "table-duplicate"]),  # in another partition
        ([*ALL, "found 0 12 a-0 1"], ["table-duplicate"]),
        (["read 0 10 a-0 1", *ALL], ["table-inconsistent-offset"]),
        (["found 0 11 a-0 1", "found 0 10 a-0 0", "found 1 10 a-1 2"], ["table-poll-order", "table-order"]),
    ],
)
def test_what_no_log_may_do(read: list[str], found: list[str]) -> None:
    assert findings(*SENT, *read) == found


def test_what_was_sent_again_in_a_new_epoch_may_be_there_twice() -> None:
    table = table_of(line.split() for line in (*SENT, *ALL, "found 0 12 a-0 0", "found 0 13 a-0 1"))
    assert [slug for slug, _ in table.findings()] == ["table-duplicate", "table-duplicate"]
    assert table.findings({Place(0, 12), Place(0, 13)}) == []


def test_what_was_removed_is_counted() -> None:
    assert table_of(line.split() for line in (*SENT, *ALL[1:])).compacted() == 1
