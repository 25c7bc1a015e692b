"""`barnabas transactions find-hanging`: what is open in a partition for longer than any transaction may be, and unknown
to every coordinator. Readers of committed records wait behind it, and nothing beyond it is compacted."""

import time
from collections.abc import Iterable
from typing import Any

from barnabas.client.client import Client
from barnabas.client.cluster import Cluster, partitions_of
from barnabas.client.errors import NoSuchTopic
from barnabas.client.transactions import OpenTransaction, hanging_transactions, open_transactions
from barnabas.commands.cluster_options import connect
from barnabas.commands.group_choice import TopicChoice
from barnabas.options import Arguments, Failure
from barnabas.output import human_duration, iso_time, plural, print_json, print_table, say
from barnabas.protocol.types import TopicPartition


def find_hanging(arguments: Arguments) -> int:
    with connect(arguments) as client:
        looked_at = _chosen(client, arguments.topic, arguments.broker)
        now_ms = time.time_ns() // 1_000_000
        latest_ms = now_ms - arguments.max_transaction_timeout
        old = [each for each in open_transactions(client, looked_at) if each.last_timestamp_ms < latest_ms]
        found = hanging_transactions(client, old)
    if arguments.json:
        print_json([_as_json(each) for each in found])
    elif found:
        _print(found, now_ms)
    else:
        say(f"no transaction hangs in {plural(len(looked_at), 'partition')}")
    return 0


def _chosen(client: Client, choices: list[TopicChoice], broker_id: int | None) -> list[TopicPartition]:
    """Returns the partitions that are named, or all, and have a leader."""
    cluster = client.metadata({choice.topic for choice in choices} if choices else None)
    _require(cluster, choices)
    if broker_id is not None and broker_id not in cluster.brokers:
        raise Failure(f"the cluster has no broker {broker_id}", "`barnabas cluster status` shows its brokers")
    return [
        name
        for name, partition in partitions_of(cluster).items()
        if partition.leader_id >= 0
        and (broker_id is None or partition.leader_id == broker_id)
        and (not choices or any(choice.topic == name.topic and choice.has(name.partition) for choice in choices))
    ]


def _require(cluster: Cluster, choices: Iterable[TopicChoice]) -> None:
    for choice in choices:
        topic = cluster.topics.get(choice.topic)
        if topic is None:
            raise NoSuchTopic(choice.topic)
        for index in choice.partitions or ():
            if index >= len(topic.partitions):
                raise Failure(f"topic {choice.topic} has no partition {index}: it has {len(topic.partitions)}")


def _print(found: list[OpenTransaction], now_ms: int) -> None:
    print_table(
        ("TOPIC", "PARTITION", "PRODUCER ID", "EPOCH", "START OFFSET", "LAST WRITE", "AGE"),
        [
            (
                *each.partition,
                each.producer_id,
                each.producer_epoch,
                each.start_offset,
                iso_time(each.last_timestamp_ms),
                human_duration((now_ms - each.last_timestamp_ms) / 1000),
            )
            for each in found
        ],
    )
    topic, index = found[0].partition
    say(
        f"`barnabas transactions abort --topic {topic}:{index} --start-offset {found[0].start_offset}` ends the first; "
        "what it has written there is not committed"
    )


def _as_json(each: OpenTransaction) -> dict[str, Any]:
    return each.partition._asdict() | {name: value for name, value in each._asdict().items() if name != "partition"}
