"""`barnabas groups` reset-offsets and delete against a real broker, and what they refuse."""

from typing import Any

import pytest

from tests.barnabas.groups.cluster import Barnabas, Done, Running
from tests.barnabas.processes import one_line

# ---- reset-offsets


def new_offsets(done: Done) -> list[int]:
    return [each["new"] for each in done.json["partitions"]]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("--to-earliest", [0, 0]),
        ("--to-latest", [10, 4]),
        ("--to-offset 2", [2, 2]),
        ("--to-offset 7", [7, 4]),  # beyond the end of partition 1
        ("--shift-by 2", [5, 4]),
        ("--shift-by -2", [1, 2]),
        ("--shift-by -99", [0, 0]),
        ("--to-current", [3, 4]),
        ("--to-datetime 2001-01-01T00:00:00Z", [0, 0]),
        ("--to-datetime 2999-01-01", [10, 4]),  # nothing is that late: the end
        ("--by-duration 30m", [10, 0]),
        ("--by-duration PT2H", [0, 0]),
    ],
)
def test_a_reset_shows_where_the_group_would_go_on(
    barnabas: Barnabas, group: str, topic: str, target: str, expected: list[int]
) -> None:
    done = barnabas(f"groups reset-offsets {group} --topic {topic}:0,1 {target} --json")
    assert new_offsets(done) == expected
    assert [each["current"] for each in done.json["partitions"]] == [3, 4]
    assert new_offsets(barnabas(f"groups reset-offsets {group} --all-topics {target} --json")) == expected
    assert not done.json["executed"]
    assert committed(barnabas, group) == [3, 4]


def committed(barnabas: Barnabas, group: str) -> list[int]:
    (described,) = barnabas(f"groups describe {group} --json").json
    return [each["committed"] for each in described["partitions"]]


def test_execute_does_it_and_says_so(barnabas: Barnabas, group: str, topic: str) -> None:
    shown = barnabas(f"groups reset-offsets {group} --topic {topic} --to-earliest")
    assert shown.err == "nothing was changed: add --execute to change it\n"
    assert [line.split() for line in shown.out.splitlines()] == [
        ["TOPIC", "PARTITION", "CURRENT", "NEW", "LAG"],
        [topic, "0", "3", "0", "10"],
        [topic, "1", "4", "0", "4"],
        [topic, "2", "-", "0", "0"],
    ]
    done = barnabas(f"groups reset-offsets {group} --topic {topic} --to-earliest --execute")
    assert (done.status, done.out, done.err) == (0, shown.out, f"3 offsets of group {group} set\n")
    assert committed(barnabas, group) == [0, 0, 0]


def test_offsets_outside_the_log_are_brought_inside_with_a_note(barnabas: Barnabas, group: str, topic: str) -> None:
    done = barnabas(f"groups reset-offsets {group} --topic {topic}:0 --shift-by 50")
    assert f"note: {topic}-0: 53 is beyond the end of the log, so it is 10\n" in done.err
    done = barnabas(f"groups reset-offsets {group} --topic {topic}:0 --shift-by -50")
    assert f"note: {topic}-0: -47 is before the start of the log, so it is 0\n" in done.err
    done = barnabas(f"groups reset-offsets {group} --topic {topic}:0 --to-datetime 2999-01-01")
    assert f"note: {topic}-0: no record is from then or later, so it is the end\n" in done.err


def test_offsets_go_out_to_a_file_and_come_back(barnabas: Barnabas, group: str, topic: str, tmp_path: Any) -> None:
    exported = barnabas(f"groups reset-offsets {group} --all-topics --to-current --export")
    assert (exported.out, exported.err) == (f"{topic},0,3\n{topic},1,4\n", "")
    file = tmp_path / "offsets.csv"
    file.write_text(exported.out)
    barnabas(f"groups reset-offsets {group} --all-topics --to-earliest --execute")
    assert barnabas(f"groups reset-offsets {group} --from-file {file} --execute").status == 0
    assert committed(barnabas, group) == [3, 4]


def test_a_group_that_does_not_exist_is_made_and_the_near_name_is_said(
    barnabas: Barnabas, group: str, topic: str
) -> None:
    done = barnabas(f"groups reset-offsets {group}x --topic {topic} --to-latest --execute")
    assert f"note: group {group}x does not exist (did you mean {group}?): setting offsets creates it\n" in done.err
    assert committed(barnabas, f"{group}x") == [10, 4, 0]


def test_a_group_with_members_keeps_its_offsets(barnabas: Barnabas, running: Running) -> None:
    for execute in ("", " --execute"):
        done = barnabas(f"groups reset-offsets {running.group} --topic {running.topic} --to-latest{execute}")
        assert (done.status, done.out) == (1, "")
        assert one_line(done.err)
        assert "cannot be reset while it is in use: it has 1 member, reader (127.0.0.1); stop them first" in done.err
    assert committed(barnabas, running.group) == [1, None]


# ---- delete


def test_a_group_is_deleted_with_its_offsets(barnabas: Barnabas, group: str) -> None:
    assert barnabas(f"groups delete {group}") == (0, f"group {group} deleted\n", "")
    assert group not in barnabas("groups list").out
    assert barnabas(f"groups describe {group}").status == 1


def test_offsets_of_a_topic_are_deleted(barnabas: Barnabas, group: str, topic: str) -> None:
    done = barnabas(f"groups delete {group} --topic {topic}:1")
    assert done == (0, f"group {group}: 1 offset of {topic} deleted\n", "")
    assert committed(barnabas, group) == [3]
    done = barnabas(f"groups delete {group} --topic {topic}:1")
    assert (done.status, done.err) == (1, f"barnabas: group {group} has no committed offsets of {topic}:1\n")


def test_a_group_in_use_is_not_deleted(barnabas: Barnabas, running: Running) -> None:
    done = barnabas(f"groups delete {running.group}")
    assert done.status == 1
    assert f"group {running.group} was not deleted: it has 1 member, reader (127.0.0.1)" in done.err
    assert "NON_EMPTY_GROUP" in done.err
    done = barnabas(f"groups delete {running.group} --topic {running.topic}")
    assert done.status == 1
    assert "GROUP_SUBSCRIBED_TO_TOPIC" in done.err
    assert one_line(done.err)
    assert committed(barnabas, running.group) == [1, None]


def test_what_can_be_deleted_is_whatever_is_wrong_with_the_rest(barnabas: Barnabas, group: str) -> None:
    done = barnabas(f"groups delete missing-1 {group} missing-2")
    assert (done.status, done.out) == (1, f"group {group} deleted\n")
    assert [line.split()[2] for line in done.err.splitlines()] == ["missing-1", "missing-2"]
    done = barnabas(f"groups delete {group} --json")
    assert (done.status, done.out) == (1, "")


# ---- what makes no sense


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("describe nope", "group nope does not exist"),
        ("members nope", "group nope does not exist"),
        ("lag nope", "group nope does not exist"),
        ("delete nope", "group nope does not exist"),
        ("delete nope --topic t", "group nope does not exist"),
        ("describe {group}x", "(did you mean {group}?)"),
        ("reset-offsets {group}x --all-topics --to-latest", "(did you mean {group}?)"),
        ("reset-offsets {group} --topic nope --to-latest", "topic nope does not exist"),
        ("reset-offsets {group} --topic {topic}:7 --to-latest", "has no partition 7: it has 3"),
        ("reset-offsets {group} --topic {topic} --shift-by 1", "no committed offset to shift in {topic}-2"),
        ("reset-offsets {group} --from-file missing.csv --execute", "missing.csv: no such file"),
    ],
)
def test_what_cannot_be_done_is_one_line(barnabas: Barnabas, group: str, topic: str, line: str, complaint: str) -> None:
    done = barnabas("groups " + line.format(group=group, topic=topic))
    assert (done.status, done.out) == (1, "")
    assert complaint.format(group=group, topic=topic) in done.err
    assert one_line(done.err)
    assert committed(barnabas, group) == [3, 4]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("describe", "name a group, or give --all"),
        ("lag --all g", "name groups or give --all, not both"),
        ("lag g --watch=0", "must be a number of seconds"),
        ("list --state sleepy", "must be one of PreparingRebalance,"),
        ("reset-offsets g --topic t", "say where to: one of --to-earliest,"),
        ("reset-offsets g --to-latest", "say which topics"),
        ("reset-offsets g --topic t --to-latest --to-earliest", "--to-earliest and --to-latest exclude each other"),
        ("reset-offsets g --topic t --all-topics --to-latest", "--topic and --all-topics exclude each other"),
        ("reset-offsets g --topic t --from-file f", "--from-file names the topics itself"),
        ("reset-offsets g --topic t --to-latest --execute --dry-run", "--execute and --dry-run exclude each other"),
        ("reset-offsets g --topic t --to-latest --export --json", "--export and --json exclude each other"),
        ("reset-offsets g --topic t:x --to-latest", "must be a topic, or a topic and its partitions"),
        ("reset-offsets g --topic t --shift-by x", "must be a whole number, negative to go back"),
        ("delete", "GROUP... is missing"),
    ],
)
def test_a_command_line_that_makes_no_sense_ends_with_2(barnabas: Barnabas, line: str, complaint: str) -> None:
    done = barnabas("groups " + line)
    assert (done.status, done.out) == (2, "")
    assert complaint in done.err
    assert one_line(done.err)
