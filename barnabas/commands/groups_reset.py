"""`barnabas groups reset-offsets`: what would change, and with --execute the change.

Rules:
- A group with members is refused, before anything is shown: they would commit over what is set here.
- An offset outside the log becomes the nearest end of it, and a time after the last record the end; both are reported.
- A group that does not exist may be given offsets, which creates it: that is how a group starts somewhere else than at
  its consumers' auto.offset.reset. This is reported, too.
- Files are those of Kafka's own tool: topic,partition,offset, with the group before them if they are of several.
"""

import time
from collections.abc import Mapping
from typing import Any

from barnabas.client.admin import EARLIEST, LATEST, require_partitions
from barnabas.client.client import Client
from barnabas.client.group_admin import find_group, in_use, list_groups, no_such_group
from barnabas.client.group_lag import log_offsets
from barnabas.client.group_offsets import by_topic, commit_offsets, committed_offsets
from barnabas.commands.cluster_options import connect
from barnabas.commands.group_choice import TopicChoice, parse_topic
from barnabas.commands.hints import hint_for
from barnabas.commands.offsets_file import csv_of, read_offsets
from barnabas.commands.times import parse_duration, parse_timestamp
from barnabas.options import Arguments, Failure, Option, UsageError, nearest, whole_number
from barnabas.output import plural, print_json, print_table, say
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import TopicPartition

Offsets = Mapping[TopicPartition, int]


class Change(NamedTuple):
    partition: TopicPartition
    current: int | None
    new: int
    lag: int
    """The records left to read from the new offset."""
    note: str


class Logs(NamedTuple):
    """The partitions to reset, with both ends of their logs."""

    committed: Offsets
    starts: Offsets
    ends: Offsets


def reset_offsets(arguments: Arguments) -> int:
    _require_one_target(arguments)
    with connect(arguments) as client:
        notes = _check_group(client, arguments)
        committed = committed_offsets(client, arguments.group)
        planned = read_offsets(arguments.from_file, arguments.group) if arguments.from_file else None
        partitions = _partitions(client, arguments, committed, planned, notes)
        logs = Logs(committed, log_offsets(client, partitions, EARLIEST), log_offsets(client, partitions, LATEST))
        for partition in partitions:
            if partition not in logs.starts or partition not in logs.ends:
                raise Failure(f"{partition}: nobody knows where its log starts and ends", "has it a leader?")
        wanted = planned if planned is not None else _target(client, arguments, partitions, logs, notes)
        changes = [_change(partition, wanted[partition], logs) for partition in partitions]
        if arguments.execute:
            commit_offsets(client, arguments.group, {change.partition: change.new for change in changes})
    _show(arguments, changes, notes)
    return 0


# ---- the group and its partitions


def _require_one_target(arguments: Arguments) -> None:
    given = [option for option in TARGETS if getattr(arguments, option.destination) is not None]
    names = [option.names.split()[-1] for option in given]
    if len(given) != 1:
        known = ", ".join(option.names for option in TARGETS)
        raise UsageError(f"{' and '.join(names)} exclude each other" if given else f"say where to: one of {known}")
    if arguments.execute and arguments.dry_run:
        raise UsageError("--execute and --dry-run exclude each other")
    if arguments.export and arguments.json:
        raise UsageError("--export and --json exclude each other")
    if arguments.topic and arguments.all_topics:
        raise UsageError("--topic and --all-topics exclude each other")
    if arguments.from_file and (arguments.topic or arguments.all_topics):
        raise UsageError("--from-file names the topics itself: leave out --topic and --all-topics")
    if not arguments.from_file and not arguments.topic and not arguments.all_topics:
        raise UsageError("say which topics: --topic or --all-topics")


def _check_group(client: Client, arguments: Arguments) -> list[str]:
    """Returns what should be said about the group. Raises if its offsets cannot be set from outside."""
    group_id = arguments.group
    group = find_group(client, group_id)
    if group is not None and group.members:
        raise Failure(
            f"the offsets of group {group_id} cannot be reset while it is in use: {in_use(group)}",
            hint_for(ErrorCode.NON_EMPTY_GROUP),
        )
    if group is not None:
        return []
    known = [listed.group_id for listed in list_groups(client)]
    if group_id in known or arguments.all_topics:
        raise no_such_group(client, group_id)
    return [f"group {group_id} does not exist{nearest(group_id, known)}: setting offsets creates it"]


def _partitions(
    client: Client, arguments: Arguments, committed: Offsets, planned: Offsets | None, notes: list[str]
) -> list[TopicPartition]:
    if planned is not None:
        for topic, indexes in by_topic(planned).items():
            require_partitions(client.topic(topic), indexes)
        return sorted(planned)
    if arguments.all_topics:
        return _committed_partitions(client, arguments.group, committed, notes)
    return sorted({partition for choice in arguments.topic for partition in _chosen(client, choice)})


def _chosen(client: Client, choice: TopicChoice) -> list[TopicPartition]:
    topic = client.topic(choice.topic)
    require_partitions(topic, choice.partitions or ())
    indexes = [each.partition_index for each in topic.partitions if choice.has(each.partition_index)]
    return [TopicPartition(choice.topic, index) for index in indexes]


def _committed_partitions(client: Client, group_id: str, committed: Offsets, notes: list[str]) -> list[TopicPartition]:
    if not committed:
        raise Failure(f"group {group_id} has no committed offsets", "name the topics with --topic")
    gone = client.metadata({partition.topic for partition in committed}).errors
    notes += [f"topic {topic} is left out: it is gone" for topic in sorted(gone)]
    return [partition for partition in committed if partition.topic not in gone]


# ---- where to


def _target(
    client: Client, arguments: Arguments, partitions: list[TopicPartition], logs: Logs, notes: list[str]
) -> Offsets:
    """Returns the offsets asked for, inside the log or not."""

    def or_end(found: Offsets, lacking: str) -> Offsets:
        notes.extend(f"{each}: {lacking}, so it is the end" for each in partitions if each not in found)
        return {each: found.get(each, logs.ends[each]) for each in partitions}

    if arguments.to_earliest:
        return logs.starts
    if arguments.to_latest:
        return logs.ends
    if arguments.to_offset is not None:
        return dict.fromkeys(partitions, arguments.to_offset)
    if arguments.to_current:
        return or_end(logs.committed, "nothing is committed")
    if arguments.shift_by is not None:
        return _shifted(arguments, partitions, logs)
    timestamp = arguments.to_datetime
    if timestamp is None:
        timestamp = time.time_ns() // 1_000_000 - arguments.by_duration
    return or_end(log_offsets(client, partitions, timestamp), "no record is from then or later")


def _shifted(arguments: Arguments, partitions: list[TopicPartition], logs: Logs) -> Offsets:
    unread = [str(partition) for partition in partitions if partition not in logs.committed]
    if unread:
        raise Failure(
            f"group {arguments.group} has no committed offset to shift in {', '.join(unread)}",
            "--to-earliest, --to-latest or --to-offset need none",
        )
    return {partition: logs.committed[partition] + arguments.shift_by for partition in partitions}


def _change(partition: TopicPartition, wanted: int, logs: Logs) -> Change:
    start, end = logs.starts[partition], logs.ends[partition]
    new, note = wanted, ""
    if wanted > end:
        new, note = end, f"{wanted} is beyond the end of the log, so it is {end}"
    elif wanted < start:
        new, note = start, f"{wanted} is before the start of the log, so it is {start}"
    return Change(partition, logs.committed.get(partition), new, end - new, note)


# ---- what is said


def _show(arguments: Arguments, changes: list[Change], notes: list[str]) -> None:
    if arguments.json:
        print_json(_as_json(arguments, changes, notes))
        return
    for note in [*notes, *(f"{change.partition}: {change.note}" for change in changes if change.note)]:
        say(f"note: {note}")
    if arguments.export:
        print(csv_of({change.partition: change.new for change in changes}), end="")
    else:
        rows = [
            (*change.partition, "-" if change.current is None else change.current, change.new, change.lag)
            for change in changes
        ]
        print_table(("TOPIC", "PARTITION", "CURRENT", "NEW", "LAG"), rows)
    if arguments.execute:
        say(f"{plural(len(changes), 'offset')} of group {arguments.group} set")
    elif not arguments.export:
        say("nothing was changed: add --execute to change it")


def _as_json(arguments: Arguments, changes: list[Change], notes: list[str]) -> dict[str, Any]:
    return {
        "group_id": arguments.group,
        "executed": bool(arguments.execute),
        "notes": notes,
        "partitions": [
            {
                **change.partition._asdict(),
                "current": change.current,
                "new": change.new,
                "lag": change.lag,
                "note": change.note or None,
            }
            for change in changes
        ],
    }


def _whole_number_with_sign(text: str) -> int:
    if not text[1 if text[:1] in ("-", "+") else 0 :].isdecimal():
        raise ValueError("must be a whole number, negative to go back")
    return int(text)


TARGETS = (
    Option("--to-earliest", "to the start of the log"),
    Option("--to-latest", "to the end of the log"),
    Option("--to-datetime", "to the first record of this time; UTC unless it says otherwise", "TIME", parse_timestamp),
    Option("--by-duration", "to what was produced this long ago: 10m, 1h30m, 2d or PT10M", "DURATION", parse_duration),
    Option("--shift-by", "forward by N records, or back with -N", "N", _whole_number_with_sign),
    Option("--to-offset", "to this offset", "N", whole_number),
    Option("--to-current", "to where it is; to the end where nothing is committed"),
    Option("--from-file", "to what a CSV file says: topic,partition,offset", "FILE"),
)

RESET_OPTIONS = (
    Option("--topic", "a topic, or some of its partitions", "TOPIC[:0,1]", parse_topic, repeated=True),
    Option("--all-topics", "every partition that the group has committed an offset of"),
    *TARGETS,
    Option("--execute", "do it; without this it is only shown"),
    Option("--dry-run", "only show it, as without --execute"),
    Option("--export", "print the new offsets as CSV, for --from-file"),
)
