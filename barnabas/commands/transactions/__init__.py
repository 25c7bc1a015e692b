"""`barnabas transactions`: list and describe are here; abort and find-hanging have modules of their own."""

import time
from typing import Any

from barnabas.client import transactions
from barnabas.client.group_offsets import by_topic
from barnabas.client.transactions import STATES, Transaction
from barnabas.commands.cluster_options import CLUSTER_OPTIONS, connect
from barnabas.commands.group_choice import parse_topic
from barnabas.commands.times import parse_duration
from barnabas.commands.transactions.abort import abort
from barnabas.commands.transactions.hanging import find_hanging
from barnabas.options import Arguments, Command, Option, whole_number
from barnabas.output import human_duration, iso_time, print_json, print_table, say


def _parse_state(text: str) -> str:
    for state in STATES:
        if state.lower() == text.lower():
            return state
    raise ValueError(f"must be one of {', '.join(STATES)}")


def list_transactions(arguments: Arguments) -> int:
    with connect(arguments) as client:
        listed = transactions.list_transactions(
            client,
            states=arguments.state,
            producer_ids=arguments.producer_id,
            duration_ms=-1 if arguments.longer_than is None else arguments.longer_than,
            pattern=arguments.pattern,
        )
    if arguments.json:
        print_json([each._asdict() for each in listed])
    elif listed:
        print_table(("TRANSACTIONAL ID", "PRODUCER ID", "STATE", "COORDINATOR"), listed)
    else:
        is_filtered = arguments.state or arguments.producer_id or arguments.pattern or arguments.longer_than is not None
        say("no transaction is like that" if is_filtered else "there are no transactions")
    return 0


def describe(arguments: Arguments) -> int:
    with connect(arguments) as client:
        found = [transactions.describe_transaction(client, name) for name in dict.fromkeys(arguments.id)]
    if arguments.json:
        print_json([_as_json(each) for each in found])
        return 0
    now_ms = time.time_ns() // 1_000_000
    for number, each in enumerate(found):
        print("\n" * (number > 0), end="")
        _print(each, now_ms)
    return 0


def _print(transaction: Transaction, now_ms: int) -> None:
    since = ""
    if transaction.is_open and transaction.start_ms is not None:
        age = human_duration(max(0, now_ms - transaction.start_ms) / 1000)
        since = f" since {iso_time(transaction.start_ms)}, for {age}"
    print(f"{transaction.transactional_id}  ({transaction.state}{since})")
    print(
        f"producer id: {transaction.producer_id}, epoch: {transaction.producer_epoch}, "
        f"timeout: {human_duration(transaction.timeout_ms / 1000)}, coordinator: node {transaction.coordinator_id}"
    )
    for topic, indexes in by_topic(transaction.partitions).items():
        print(f"{topic}:{','.join(map(str, indexes))}")


def _as_json(transaction: Transaction) -> dict[str, Any]:
    return transaction._asdict() | {"partitions": by_topic(transaction.partitions)}


_TOPIC = "TOPIC[:0,1]"

COMMANDS = (
    Command(
        "transactions list",
        "List the transactional ids that the brokers know, and the state of the last transaction of each.",
        list_transactions,
        (
            Option("-s --state", "only those in this state, such as ongoing", "STATE", _parse_state, repeated=True),
            Option("--producer-id", "only that of this producer", "ID", whole_number, repeated=True),
            Option("--longer-than", "only what began longer ago than this, or never did", "DURATION", parse_duration),
            Option("--pattern", "only ids that are matched as a whole by this regular expression", "REGEX"),
            *CLUSTER_OPTIONS,
        ),
        examples=(
            "barnabas transactions list",
            "barnabas transactions list --state ongoing --longer-than 10m",
            "barnabas transactions list --pattern 'payments-.*' --json | jq -r '.[].transactional_id'",
        ),
    ),
    Command(
        "transactions describe",
        "Show the last transaction of transactional ids: its state, its producer, and the partitions it writes to.",
        describe,
        CLUSTER_OPTIONS,
        "ID...",
        ("barnabas transactions describe payments-1",),
    ),
    Command(
        "transactions abort",
        "Abort the open transaction of a transactional id, or one that hangs in a partition.",
        abort,
        (
            Option("--topic", "the partition in which a transaction hangs", "TOPIC:PARTITION", parse_topic),
            Option("--start-offset", "where it began there, as find-hanging shows it", "OFFSET", whole_number),
            *CLUSTER_OPTIONS,
        ),
        "[ID]",
        (
            "barnabas transactions abort payments-1",
            "barnabas transactions abort --topic orders:0 --start-offset 4711",
            "",
            "With an ID its coordinator aborts the transaction everywhere; its producer is fenced and must start anew.",
            "With --topic a marker is written to that one partition, past any coordinator: for those that hang.",
        ),
    ),
    Command(
        "transactions find-hanging",
        "Find transactions that are open in a partition and that no coordinator will ever end.",
        find_hanging,
        (
            Option("--topic", "only in this topic, or in some of its partitions", _TOPIC, parse_topic, repeated=True),
            Option("--broker", "only where this broker leads", "ID", whole_number),
            Option(
                "--max-transaction-timeout",
                "the brokers' transaction.max.timeout.ms: younger ones are not looked at (default 15m)",
                "DURATION",
                parse_duration,
                900_000,
            ),
            *CLUSTER_OPTIONS,
        ),
        examples=(
            "barnabas transactions find-hanging",
            "barnabas transactions find-hanging --topic orders:0,1 --json",
        ),
    ),
)
