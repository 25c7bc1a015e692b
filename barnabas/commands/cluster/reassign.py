"""`barnabas cluster reassign`: plans where replicas should be, moves them, and says how far that is.

Rules:
- Plans are files of Kafka's own tool, kafka-reassign-partitions: each can execute and verify what the other wrote.
- stdout has the data: the plan; what was before, which is the plan of the way back; the state. The rest is said on
  stderr.
- Limits are taken away by `verify` when everything has arrived, by `cancel`, and by `execute --wait`.
- 0 means that everything is where it should be; `verify` ends with 1 while it is not.
"""

from collections.abc import Collection, Mapping
from typing import Any

from barnabas.client.client import Client
from barnabas.client.replicas.reassignments import ongoing_reassignments, reassign
from barnabas.client.replicas.spread import Plan, spread_evenly
from barnabas.commands.cluster.assignment_file import Assignments, as_file, read_assignments
from barnabas.commands.cluster.moves import THROTTLE, WITHIN, Progress, begin, end_throttles, look, wait_for
from barnabas.commands.cluster.partitions import (
    check_refusals,
    find_partitions,
    named,
    parse_broker_ids,
    registered_brokers,
    require_broker,
    require_partition,
)
from barnabas.commands.cluster_options import CLUSTER_OPTIONS, connect
from barnabas.options import Arguments, Command, Failure, Option, UsageError, positive_number
from barnabas.output import plural, print_json, print_table, say
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.types import TopicPartition

_CONNECTION = tuple(option for option in CLUSTER_OPTIONS if option.destination != "json")
_PRESERVE = Option("--preserve-throttles", "leave the limits of --throttle as they are")

# ---- plan


def plan(arguments: Arguments) -> int:
    with connect(arguments) as client:
        _refuse_moving(ongoing_reassignments(client))
        brokers = registered_brokers(client)
        for broker_id in arguments.brokers or ():
            require_broker(broker_id, brokers)
        chosen = arguments.brokers or [each for each, broker in brokers.items() if not broker.is_fenced]
        partitions = find_partitions(client, arguments.topic or None)
    before = {name: partition.replicas for name, partition in partitions.items()}
    racks = {broker_id: brokers[broker_id].rack for broker_id in chosen}
    planned = spread_evenly(before, racks, arguments.replication_factor)
    print_json(as_file(planned))
    say(_summary(before, planned))
    return 0


def _summary(before: Mapping[TopicPartition, tuple[int, ...]], planned: Plan) -> str:
    if not planned:
        return "replicas and leaders are spread evenly: nothing to do"
    copies = sum(len({*replicas} - {*before[name]}) for name, replicas in planned.items())
    leaders = sum(replicas[0] != before[name][0] for name, replicas in planned.items())
    return (
        f"{plural(len(planned), 'partition')} would change: {plural(copies, 'replica')} to copy, "
        f"{plural(leaders, 'other preferred leader')}; `barnabas cluster reassign execute FILE` does it"
    )


def _refuse_moving(moving: Collection[TopicPartition]) -> None:
    if moving:
        raise Failure(
            f"being reassigned already: {named(moving)}",
            "wait until that is done, or `barnabas cluster reassign cancel`",
        )


# ---- execute


def execute(arguments: Arguments) -> int:
    target = read_assignments(arguments.file)
    with connect(arguments) as client:
        before = _check(client, target)
        print_json(as_file(before))
        begin(client, before, target, arguments.throttle)
        say(f"{plural(len(target), 'partition')} began to move; stdout has where they were")
        if not arguments.wait:
            say(f"`barnabas cluster reassign verify {arguments.file}` shows how far they are")
            return 0
        wait_for(client, target, arguments.within)
        if arguments.throttle is not None:
            end_throttles(client, target)
    return 0


def _check(client: Client, target: Assignments) -> Assignments:
    """Returns where the replicas are. Raises before anything has changed if the target makes no sense."""
    partitions = find_partitions(client, {name.topic for name in target})
    brokers = registered_brokers(client)
    for name, replicas in target.items():
        require_partition(name, partitions)
        for broker_id in replicas:
            require_broker(broker_id, brokers)
    moving = ongoing_reassignments(client)
    _refuse_moving([name for name in target if name in moving])
    return {name: partitions[name].replicas for name in target}


# ---- verify


def verify(arguments: Arguments) -> int:
    target = read_assignments(arguments.file)
    with connect(arguments) as client:
        if arguments.wait:
            wait_for(client, target, arguments.within)
        progress = look(client, target)
        rows = [_state(name, replicas, progress) for name, replicas in sorted(target.items())]
        if not progress.moving and not arguments.preserve_throttles:
            end_throttles(client, target)
    if arguments.json:
        print_json(rows)
    else:
        columns = ("topic", "partition", "state", "replicas", "target", "to_copy")
        print_table([column.upper().replace("_", " ") for column in columns], [_cells(row, columns) for row in rows])
    return 0 if all(row["state"] == "done" for row in rows) else 1


def _state(name: TopicPartition, replicas: tuple[int, ...], progress: Progress) -> dict[str, Any]:
    now = progress.replicas.get(name)
    if name in progress.moving:
        state = "moving"
    elif now is None:
        state = "gone"
    else:
        state = "done" if now == replicas else "elsewhere"
    return {
        **name._asdict(),
        "state": state,
        "replicas": now,
        "target": replicas,
        "to_copy": progress.to_copy.get(name, 0),
    }


def _cells(row: dict[str, Any], columns: tuple[str, ...]) -> list[object]:
    values = (row[column] for column in columns)
    return [",".join(map(str, each)) if isinstance(each, tuple) else "-" if each is None else each for each in values]


# ---- cancel


def cancel(arguments: Arguments) -> int:
    if bool(arguments.file) == bool(arguments.all):
        raise UsageError("name a FILE, or give --all to cancel everything that is under way")
    named_here = read_assignments(arguments.file) if arguments.file else None
    with connect(arguments) as client:
        moving = ongoing_reassignments(client)
        ended = [name for name in moving if named_here is None or name in named_here]
        refusals = reassign(client, dict.fromkeys(ended)) if ended else {}
        left = {name: why for name, why in refusals.items() if why[0] != ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
        check_refusals(left, "cannot be left where they were")
        if not arguments.preserve_throttles and (names := named_here or ended):
            end_throttles(client, names)
    if arguments.json:
        print_json({"cancelled": [name._asdict() for name in ended]})
    else:
        print(f"cancelled: {named(ended)}" if ended else "nothing was under way")
    return 0


COMMANDS = (
    Command(
        "cluster reassign plan",
        "Print where replicas should be: spread evenly over brokers and racks, with the fewest moves.",
        plan,
        (
            Option("--topic", "only this topic; may be repeated", "TOPIC", repeated=True),
            Option(
                "--brokers", "the brokers that may have replicas (default all that run)", "ID,...", parse_broker_ids
            ),
            Option("-r --replication-factor", "so many replicas of each partition", "N", positive_number),
            *_CONNECTION,
        ),
        examples=(
            "barnabas cluster reassign plan > plan.json",
            "barnabas cluster reassign plan --topic orders --brokers 1,2,3,4",
            "barnabas cluster reassign plan --topic orders -r 3     # more replicas, or fewer",
        ),
    ),
    Command(
        "cluster reassign execute",
        "Move replicas to where a plan says, and print where they were.",
        execute,
        (THROTTLE, Option("--wait", "wait until everything has arrived"), WITHIN, *_CONNECTION),
        positionals="FILE",
        examples=(
            "barnabas cluster reassign execute plan.json > before.json",
            "barnabas cluster reassign execute plan.json --throttle 50000000 --wait",
        ),
    ),
    Command(
        "cluster reassign verify",
        "Show how far a plan is carried out; when it is, take away the limits of --throttle.",
        verify,
        (Option("--wait", "wait until nothing moves any more"), WITHIN, _PRESERVE, *CLUSTER_OPTIONS),
        positionals="FILE",
        examples=("barnabas cluster reassign verify plan.json", "barnabas cluster reassign verify plan.json --wait"),
    ),
    Command(
        "cluster reassign cancel",
        "Leave replicas that are being moved where they were.",
        cancel,
        (Option("--all", "everything that is under way"), _PRESERVE, *CLUSTER_OPTIONS),
        positionals="[FILE]",
        examples=("barnabas cluster reassign cancel plan.json", "barnabas cluster reassign cancel --all"),
    ),
)
