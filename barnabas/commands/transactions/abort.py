"""`barnabas transactions abort`: by the coordinator where there is one, or by a marker where the transaction hangs."""

from typing import Any

from barnabas.client.admin import require_partitions
from barnabas.client.client import Client
from barnabas.client.group_offsets import by_topic
from barnabas.client.transactions import (
    ONGOING,
    describe_transaction,
    hanging_transactions,
    open_transactions,
    terminate,
    transactional_ids,
    write_abort_marker,
)
from barnabas.commands.cluster_options import connect
from barnabas.commands.group_choice import TopicChoice
from barnabas.options import Arguments, Failure, UsageError
from barnabas.output import plural, print_json
from barnabas.protocol.types import TopicPartition


def abort(arguments: Arguments) -> int:
    if (arguments.id is None) == (arguments.topic is None):
        raise UsageError("name a transactional id, or a partition with --topic TOPIC:PARTITION and --start-offset")
    if (arguments.topic is None) != (arguments.start_offset is None):
        raise UsageError("--topic and --start-offset belong together")
    if arguments.topic is not None and len(arguments.topic.partitions or ()) != 1:
        raise UsageError(f"--topic {arguments.topic}: name one partition, as in orders:0")
    with connect(arguments) as client:
        if arguments.id is not None:
            text, what = _abort_by_id(client, arguments.id)
        else:
            text, what = _abort_hanging(client, arguments.topic, arguments.start_offset)
    if arguments.json:
        print_json(what)
    else:
        print(text)
    return 0


def _abort_by_id(client: Client, transactional_id: str) -> tuple[str, dict[str, Any]]:
    """Returns what was done, in words and as JSON."""
    transaction = describe_transaction(client, transactional_id)
    if not transaction.is_open:
        raise Failure(f"transactional id {transactional_id} has no open transaction: it is {transaction.state}")
    if transaction.state != ONGOING:
        raise Failure(
            f"transactional id {transactional_id} is {transaction.state}: that is decided, and markers are on their way"
        )
    terminate(client, transaction)
    text = (
        f"transaction of {transactional_id} aborted in {plural(len(transaction.partitions), 'partition')}, "
        f"producer {transaction.producer_id} with epoch {transaction.producer_epoch} is fenced"
    )
    fenced = {"producer_id": transaction.producer_id, "producer_epoch": transaction.producer_epoch}
    return text, {"transactional_id": transactional_id, "partitions": by_topic(transaction.partitions), **fenced}


def _abort_hanging(client: Client, choice: TopicChoice, start_offset: int) -> tuple[str, dict[str, Any]]:
    topic = client.topic(choice.topic)
    require_partitions(topic, choice.partitions or ())
    partition = TopicPartition(topic.name, (choice.partitions or (0,))[0])
    found = [each for each in open_transactions(client, [partition]) if each.start_offset == start_offset]
    if not found:
        raise Failure(
            f"{partition} has no open transaction that began at offset {start_offset}",
            f"`barnabas transactions find-hanging --topic {choice}` shows those that hang",
        )
    if not hanging_transactions(client, found):
        transactional_id = transactional_ids(client, [found[0].producer_id])[found[0].producer_id]
        raise Failure(
            f"that transaction does not hang: it is the open one of {transactional_id}",
            f"`barnabas transactions abort {transactional_id}` ends it in all its partitions",
        )
    write_abort_marker(client, found[0])
    producer_id = found[0].producer_id
    text = f"transaction of producer {producer_id} in {partition} aborted, from offset {start_offset} on"
    return text, {**partition._asdict(), "producer_id": producer_id, "start_offset": start_offset}
