"""Where a run continues, and when it must not."""

import json

import pytest

from barnabas.pipelines.parquet.positioned_stream import check_all_written
from barnabas.pipelines.shared.cluster import Topic
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.position import TopicState, advance, changed, check_nothing_lost, resume

ORDERS = {"orders": Topic("orders", "id-1", 2, {})}
BEGIN = {("orders", 0): 10, ("orders", 1): 0}
END = {("orders", 0): 50, ("orders", 1): 30}


def known(*next_offsets: int) -> dict[str, TopicState]:
    return {"orders": TopicState("id-1", dict(enumerate(next_offsets)))}


@pytest.mark.parametrize(
    ("position", "starting_offsets", "expected", "lost"),
    [
        ({}, "earliest", {0: 10, 1: 0}, {}),  # never read: the user decides, and offset 10 is simply where it begins
        ({}, "latest", {0: 50, 1: 30}, {}),
        ({}, '{"orders": {"0": -1, "1": -2}}', {0: 50, 1: 0}, {}),
        ({}, '{"orders": {"0": 20, "1": 30}}', {0: 20, 1: 30}, {}),
        (known(20, 30), "latest", {0: 20, 1: 30}, {}),  # read before: the position decides, whatever the user says
        (known(20), "latest", {0: 20, 1: 0}, {}),  # a new partition is read whole: nobody has seen its records
        (known(3, 30), "earliest", {0: 10, 1: 30}, {("orders", 0): 7}),  # retention was faster
        (known(50, 30), "earliest", {0: 50, 1: 30}, {}),  # all read
    ],
)
def test_a_run_goes_on_where_its_output_ends(
    position: dict[str, TopicState],
    starting_offsets: str,
    expected: dict[int, int],
    lost: dict[tuple[str, int], int],
) -> None:
    start = resume(position, ORDERS, BEGIN, END, starting_offsets)
    assert start.topics == {"orders": TopicState("id-1", expected)}
    assert start.lost == lost
    assert json.loads(start.starting_offsets()) == {"orders": {str(key): value for key, value in expected.items()}}
    check_nothing_lost(start, position, fail_on_data_loss=False)


@pytest.mark.parametrize(
    ("position", "starting_offsets", "said"),
    [
        ({"orders": TopicState("id-0", {0: 20, 1: 30})}, "earliest", "deleted and created again"),
        (known(51, 30), "earliest", "orders-0 was read up to offset 50 and now ends at 49"),  # the broker went back
        ({}, '{"orders": {"0": 20}}', "lacks orders-1"),
        ({}, '{"orders": {"0": 9, "1": -2}}', "names 9 in orders-0, which holds 10 to 49"),
        ({}, '{"orders": {"0": 51, "1": -2}}', "names 51 in orders-0, which holds 10 to 49"),
    ],
)
def test_what_a_run_cannot_go_on_with(position: dict[str, TopicState], starting_offsets: str, said: str) -> None:
    with pytest.raises(Failure, match=said):
        resume(position, ORDERS, BEGIN, END, starting_offsets)


def test_lost_offsets_stop_a_run_unless_told_otherwise() -> None:
    start = resume(known(3, 30), ORDERS, BEGIN, END, "earliest")
    with pytest.raises(Failure, match=r"7 offsets were deleted .*orders-0, 3 to 9\).*--fail-on-data-loss false"):
        check_nothing_lost(start, known(3, 30), fail_on_data_loss=True)


CREATED_AGAIN = {"orders": Topic("orders", "id-2", 2, {})}


@pytest.mark.parametrize(
    ("position", "before", "after", "said"),
    [
        (known(0, 0), ORDERS, CREATED_AGAIN, "created again"),  # while it was read
        (known(0, 0), CREATED_AGAIN, CREATED_AGAIN, "created again"),  # since the batch before
        ({}, ORDERS, CREATED_AGAIN, "created again"),  # a topic that is new to us, while it was read
        (known(0, 0), ORDERS, {}, "was deleted while the job read it"),
        (known(0, 0), {}, ORDERS, "was deleted while the job read it"),
    ],
)
def test_a_batch_counts_only_if_its_topics_are_the_same_all_the_time(
    position: dict[str, TopicState], before: dict[str, Topic], after: dict[str, Topic], said: str
) -> None:
    with pytest.raises(Failure, match=said):
        advance(position, {("orders", 0): 5}, before, after)


def test_a_position_does_not_move_past_rows_that_are_not_there() -> None:
    check_all_written(7, 7, "file:///out")
    with pytest.raises(Failure, match=r"7 rows were written to file:///out, 3 are there: .* all executors share"):
        check_all_written(7, 3, "file:///out")


def test_a_batch_changes_the_positions_of_what_it_read() -> None:
    ends = {("orders", 0): 5, ("orders", 1): 7}
    assert advance(known(5, 6), ends, ORDERS, ORDERS) == {"orders": TopicState("id-1", {1: 7})}
    assert advance({}, ends, ORDERS, ORDERS) == {"orders": TopicState("id-1", {0: 5, 1: 7})}
    assert changed(known(5, 7), known(5, 7)) == {}
