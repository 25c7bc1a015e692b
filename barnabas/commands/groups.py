"""`barnabas groups`: list, describe and members are here; lag, reset-offsets and delete have modules of their own."""

from typing import Any

from barnabas.client import group_admin
from barnabas.client.group_admin import Group, Member
from barnabas.client.group_lag import PartitionLag, partition_lags
from barnabas.client.group_offsets import by_topic
from barnabas.commands.cluster_options import CLUSTER_OPTIONS, connect
from barnabas.commands.group_choice import parse_topic, require_choice, wanted_groups
from barnabas.commands.groups_delete import delete
from barnabas.commands.groups_lag import lag
from barnabas.commands.groups_reset import RESET_OPTIONS, reset_offsets
from barnabas.commands.watching import WATCH
from barnabas.options import Arguments, Command, Option, one_of
from barnabas.output import plural, print_json, print_table, say
from barnabas.protocol.types import TopicPartition

STATES = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Stable", "Empty", "Dead")


# ---- list


def list_groups(arguments: Arguments) -> int:
    with connect(arguments) as client:
        groups = group_admin.list_groups(client)
    shown = [
        group
        for group in groups
        if (not arguments.state or group.state in arguments.state)
        and (not arguments.type or group.type in arguments.type)
    ]
    if arguments.json:
        print_json([group._asdict() for group in shown])
    elif shown:
        rows = [[group.group_id, *(text or "-" for text in group[1:])] for group in shown]
        print_table(("GROUP", "TYPE", "STATE", "PROTOCOL"), rows)
    else:
        say(f"no group is like that, of {len(groups)} in all" if groups else "there are no groups")
    return 0


def _parse_state(text: str) -> str:
    for state in STATES:
        if state.lower() == text.lower():
            return state
    raise ValueError(f"must be one of {', '.join(STATES)}")


# ---- describe and members


def describe(arguments: Arguments) -> int:
    require_choice(arguments)
    with connect(arguments) as client:
        groups = wanted_groups(client, arguments)
        lags = partition_lags(client, groups)
    if arguments.json:
        print_json([_group_json(group) | {"partitions": _lags_json(lags[group.group_id])} for group in groups])
        return 0
    if not groups:
        say("there are no groups")
    for number, group in enumerate(groups):
        print("\n" * (number > 0), end="")
        _print_group(group)
        _print_partitions(lags[group.group_id])
    return 0


def _print_group(group: Group) -> None:
    print(f"{group.group_id}  ({group.type}, {group.state}, {plural(len(group.members), 'member')})")
    facts = [f"coordinator: {group.coordinator} (node {group.coordinator_id})"]
    if group.type == group_admin.CLASSIC and group.protocol_type:
        facts.append(f"protocol: {group.protocol_type}")
    if group.assignor:
        facts.append(f"assignor: {group.assignor}")
    if group.epoch is not None:
        facts.append(f"epoch: {group.epoch}, assignment epoch: {group.assignment_epoch}")
    print(", ".join(facts))


def _print_partitions(lags: list[PartitionLag]) -> None:
    if not lags:
        print("no committed offsets, and nobody reads a partition")
        return
    rows = [
        (
            *each.partition,
            *(_or_dash(number) for number in (each.committed, each.log_end_offset, each.lag)),
            *((each.member.client_id, each.member.host, each.member.member_id) if each.member else ("-", "-", "-")),
        )
        for each in lags
    ]
    print_table(("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "CLIENT", "HOST", "MEMBER"), rows)


def _or_dash(value: Any) -> Any:
    return "-" if value is None or value == "" else value


def _group_json(group: Group) -> dict[str, Any]:
    return group._asdict() | {
        "coordinator": str(group.coordinator),
        "members": [_member_json(member) for member in group.members],
    }


def _member_json(member: Member) -> dict[str, Any]:
    return member._asdict() | {
        "assignment": None if member.assignment is None else by_topic(member.assignment),
        "target": None if member.target is None else by_topic(member.target),
    }


def _lags_json(lags: list[PartitionLag]) -> list[dict[str, Any]]:
    return [
        {
            **each.partition._asdict(),
            "committed": each.committed,
            "log_end_offset": each.log_end_offset,
            "lag": each.lag,
            "member_id": each.member and each.member.member_id,
            "client_id": each.member and each.member.client_id,
            "host": each.member and each.member.host,
        }
        for each in lags
    ]


def members(arguments: Arguments) -> int:
    with connect(arguments) as client:
        group = group_admin.describe_group(client, arguments.group)
    if arguments.json:
        print_json([_member_json(member) for member in group.members])
    elif group.members:
        _print_members(group)
    else:
        say(f"group {group.group_id} has no members: it is {group.state}")
    return 0


def _print_members(group: Group) -> None:
    """Prints a table without the columns that would be empty."""
    columns: dict[str, list[str]] = {
        "CLIENT": [member.client_id for member in group.members],
        "HOST": [member.host for member in group.members],
        "INSTANCE": [member.instance_id or "" for member in group.members],
        "EPOCH": ["" if member.epoch is None else str(member.epoch) for member in group.members],
        "SUBSCRIBED": [", ".join(filter(None, (*member.topics, member.topic_regex))) for member in group.members],
        "ASSIGNED": [_assignment(member.assignment) for member in group.members],
        "TARGET": ["" if _settled(member) else _assignment(member.target) for member in group.members],
        "MEMBER": [member.member_id for member in group.members],
    }
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    print_table(tuple(shown), [[cell or "-" for cell in row] for row in zip(*shown.values())])


def _settled(member: Member) -> bool:
    return member.target is None or member.target == member.assignment


def _assignment(partitions: tuple[TopicPartition, ...] | None) -> str:
    if partitions is None:
        return "unknown"
    return " ".join(f"{topic}:{','.join(map(str, indexes))}" for topic, indexes in by_topic(partitions).items())


_ALL = Option("-a --all", "all groups")

COMMANDS = (
    Command(
        "groups list",
        "List the groups.",
        list_groups,
        (
            Option(
                "-s --state", "only those in this state, such as stable or empty", "STATE", _parse_state, repeated=True
            ),
            Option(
                "-t --type",
                "only classic, consumer, share or streams groups",
                "TYPE",
                one_of("classic", "consumer", "share", "streams"),
                repeated=True,
            ),
            *CLUSTER_OPTIONS,
        ),
        examples=(
            "barnabas groups list",
            "barnabas groups list --state empty --type classic",
            "barnabas groups list --json | jq -r '.[].group_id'",
        ),
    ),
    Command(
        "groups describe",
        "Show the state of groups, what they have committed, how far they are behind and who reads what.",
        describe,
        (_ALL, *CLUSTER_OPTIONS),
        "[GROUP...]",
        ("barnabas groups describe billing", "barnabas groups describe --all --json | jq '.[].state'"),
    ),
    Command(
        "groups members",
        "Show who is in a group: what each member subscribes to and what it is assigned.",
        members,
        CLUSTER_OPTIONS,
        "GROUP",
        ("barnabas groups members billing",),
    ),
    Command(
        "groups lag",
        "Show how far groups are behind, in records and in time.",
        lag,
        (
            _ALL,
            WATCH,
            *CLUSTER_OPTIONS,
        ),
        "[GROUP...]",
        (
            "barnabas groups lag billing",
            "barnabas groups lag --all --watch 5",
            "barnabas groups lag billing --json | jq '.[].total_lag'",
            "",
            "BEHIND is the age of the oldest record that the group has not read, by the clock of this machine.",
        ),
    ),
    Command(
        "groups reset-offsets",
        "Show where a group would go on reading, and with --execute make it so.",
        reset_offsets,
        (*RESET_OPTIONS, *CLUSTER_OPTIONS),
        "GROUP",
        (
            "barnabas groups reset-offsets billing --topic orders --to-earliest",
            "barnabas groups reset-offsets billing --topic orders:0,2 --shift-by -100 --execute",
            "barnabas groups reset-offsets billing --all-topics --by-duration 90m --execute",
            "barnabas groups reset-offsets billing --topic orders --to-datetime 2026-01-31T12:00:00Z",
            "barnabas groups reset-offsets billing --all-topics --to-current --export | tee billing.csv",
            "barnabas groups reset-offsets billing --from-file billing.csv --execute",
        ),
    ),
    Command(
        "groups delete",
        "Delete groups with their offsets, or only their offsets of some topics.",
        delete,
        (
            Option(
                "--topic",
                "only the offsets of this topic, or of some of its partitions",
                "TOPIC[:0,1]",
                parse_topic,
                repeated=True,
            ),
            *CLUSTER_OPTIONS,
        ),
        "GROUP...",
        ("barnabas groups delete billing", "barnabas groups delete billing --topic orders --topic payments:0,1"),
    ),
)
