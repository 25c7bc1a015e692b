"""Command lines."""

from typing import Any

import pytest

from barnabas.options import (
    Arguments,
    Command,
    Option,
    UsageError,
    key_value,
    one_of,
    port_number,
    positive_number,
    whole_number,
)


def nothing(_arguments: Arguments) -> int:
    return 0


COMMAND = Command(
    "topics create",
    "Create a topic.",
    nothing,
    (
        Option("-p --partitions", "how many", "N", positive_number),
        Option("-c --config", "a setting", "KEY=VALUE", key_value, repeated=True),
        Option("--from", "where", "WHERE", default="beginning"),
        Option("--watch", "again and again", "[N]", whole_number, if_left_out=2),
        Option("--json", "JSON"),
    ),
    "NAME",
    ("barnabas topics create orders",),
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("orders", {"name": "orders", "partitions": None, "config": [], "from": "beginning", "json": None}),
        ("orders --partitions 3", {"partitions": 3}),
        ("--partitions=3 orders", {"partitions": 3, "name": "orders"}),  # options may come first
        ("orders -p 3", {"partitions": 3}),
        ("orders -p3", {"partitions": 3}),
        ("orders -p 3 -p 4", {"partitions": 4}),  # the last one wins
        ("orders -c a=1 --config b=2=3", {"config": [("a", "1"), ("b", "2=3")]}),  # a value may hold the sign
        ("orders -c a=", {"config": [("a", "")]}),
        ("orders --from -10", {"from": "-10"}),  # a value may look like an option
        ("orders --watch", {"watch": 2}),  # a value in brackets may be left out
        ("orders --watch 5", {"watch": 5}),
        ("orders --watch=5", {"watch": 5}),
        ("--watch orders", {"watch": 2, "name": "orders"}),  # this cannot be the value, so it is not
        ("--watch --json orders", {"watch": 2, "json": True}),
        ("orders", {"watch": None}),
        ("orders --json", {"json": True}),
        ("-- --json", {"name": "--json", "json": None}),  # behind -- nothing is an option
        ("-", {"name": "-"}),
    ],
)
def test_a_command_line_gives_values_by_destination(line: str, expected: dict[str, Any]) -> None:
    values = vars(COMMAND.parse(line.split()))
    assert {name: values[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("", "NAME is missing"),
        ("orders more", "unexpected 'more'"),
        ("orders --partition 3", "unknown option --partition (did you mean --partitions?)"),
        ("orders -x", "unknown option -x"),
        ("orders --partitions", "--partitions needs a value: --partitions N"),
        ("orders --partitions three", "--partitions three: must be a whole number"),
        ("orders --partitions 0", "--partitions 0: must be a whole number of at least 1"),
        ("orders -c retention", "-c retention: must be key=value"),
        ("orders --json=yes", "--json takes no value"),
    ],
)
def test_a_bad_command_line_is_told_what_is_wrong(line: str, complaint: str) -> None:
    with pytest.raises(UsageError) as raised:
        COMMAND.parse(line.split())
    assert complaint in str(raised.value)


@pytest.mark.parametrize(
    ("positionals", "line", "expected"),
    [
        ("NAME...", "a b", ["a", "b"]),
        ("[NAME...]", "", []),
        ("[NAME...]", "a", ["a"]),
        ("[NAME]", "", None),
    ],
)
def test_positionals_may_be_many_or_missing(positionals: str, line: str, expected: Any) -> None:
    command = COMMAND._replace(positionals=positionals)
    assert vars(command.parse(line.split()))["name"] == expected


def test_one_or_more_is_not_none() -> None:
    with pytest.raises(UsageError, match="is missing"):
        COMMAND._replace(positionals="NAME...").parse([])


def test_a_required_option_must_be_given() -> None:
    command = COMMAND._replace(
        options=(Option("--set", "a value", "KEY=VALUE", key_value, repeated=True, required=True),)
    )
    with pytest.raises(UsageError, match="--set"):
        command.parse(["orders"])


def test_the_help_names_every_option_and_example() -> None:
    text = COMMAND.help()
    assert "usage: barnabas topics create NAME [options]" in text
    for option in COMMAND.options:
        assert option.usage in text
        assert option.help in text
    assert "barnabas topics create orders" in text


@pytest.mark.parametrize(
    ("parse", "good", "bad"),
    [
        (whole_number, ("0", 0), "-1"),
        (positive_number, ("1", 1), "0"),
        (port_number, ("65535", 65535), "65536"),
        (one_of("text", "json"), ("json", "json"), "xml"),
        (key_value, ("a.b=c", ("a.b", "c")), "=c"),
    ],
)
def test_values_are_checked(parse: Any, good: tuple[str, Any], bad: str) -> None:
    assert parse(good[0]) == good[1]
    with pytest.raises(ValueError, match="must be"):
        parse(bad)
