"""`barnabas topics`: create, list, describe, alter, delete."""

from typing import Any

from barnabas.client import admin
from barnabas.client.admin import Resource
from barnabas.client.client import Client
from barnabas.client.cluster import Topic
from barnabas.client.errors import NoSuchTopic
from barnabas.commands.cluster_options import CLUSTER_OPTIONS, connect
from barnabas.options import Arguments, Command, Option, UsageError, key_value, positive_number
from barnabas.output import plural, print_json, print_table
from barnabas.protocol.config_types import ConfigSource, ResourceType
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.types import uuid_text


def create(arguments: Arguments) -> int:
    with connect(arguments) as client:
        created = admin.create_topic(
            client,
            arguments.name,
            arguments.partitions or -1,
            arguments.replication_factor or -1,
            dict(arguments.config),
        )
    if arguments.json:
        print_json(created._asdict())
    else:
        size = f" with {plural(created.num_partitions, 'partition')}" if created.num_partitions > 0 else ""
        print(f"topic {created.name} created{size}")
    return 0


def list_topics(arguments: Arguments) -> int:
    with connect(arguments) as client:
        cluster = client.metadata()
    topics = [topic for _, topic in sorted(cluster.topics.items()) if arguments.internal or not topic.is_internal]
    rows = [(topic.name, len(topic.partitions), _replication_factor(topic)) for topic in topics]
    if arguments.json:
        print_json(
            [{"name": name, "num_partitions": count, "replication_factor": factor} for name, count, factor in rows]
        )
    else:
        print_table(("TOPIC", "PARTITIONS", "REPLICAS"), rows)
    return 0


def _replication_factor(topic: Topic) -> int:
    return max((len(partition.replicas) for partition in topic.partitions), default=0)


def describe(arguments: Arguments) -> int:
    with connect(arguments) as client:
        topics = _wanted(client, arguments.name)
        descriptions = [_description(client, topic) for topic in topics]
    if arguments.json:
        print_json(descriptions)
        return 0
    for number, description in enumerate(descriptions):
        print("\n" * (number > 0), end="")
        _print_description(description)
    return 0


def _wanted(client: Client, names: list[str]) -> list[Topic]:
    cluster = client.metadata(names or None)
    for name, error in cluster.errors.items():
        raise NoSuchTopic(name) if error == NoSuchTopic.code else KafkaError(f"topic {name}", error)
    topics = [cluster.topics[name] for name in names or sorted(cluster.topics)]
    return topics if names else [topic for topic in topics if not topic.is_internal]


def _description(client: Client, topic: Topic) -> dict[str, Any]:
    resource = Resource(ResourceType.TOPIC, topic.name)
    configs = admin.describe_configs(client, [resource])[resource]
    led = [partition.partition_index for partition in topic.partitions if partition.leader_id >= 0]
    starts, ends = (admin.list_offsets(client, topic, at, led) for at in (admin.EARLIEST, admin.LATEST))
    return {
        "name": topic.name,
        "topic_id": uuid_text(topic.topic_id),
        "is_internal": topic.is_internal,
        "replication_factor": _replication_factor(topic),
        "configs": {entry.name: entry.value for entry in configs if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG},
        "partitions": [
            {
                "partition": partition.partition_index,
                "leader": partition.leader_id if partition.leader_id >= 0 else None,
                "leader_epoch": partition.leader_epoch,
                "replicas": partition.replicas,
                "isr": partition.isr,
                "offline_replicas": partition.offline_replicas,
                "start_offset": starts.get(partition.partition_index),
                "end_offset": ends.get(partition.partition_index),
            }
            for partition in topic.partitions
        ],
    }


def _print_description(topic: dict[str, Any]) -> None:
    configs = ", ".join(f"{key}={value}" for key, value in topic["configs"].items())
    partitions = plural(len(topic["partitions"]), "partition")
    replicas = plural(topic["replication_factor"], "replica")
    print(f"{topic['name']}  ({partitions}, {replicas}, id {topic['topic_id']})")
    print(f"configs: {configs or 'all at their defaults'}")
    columns = ("partition", "leader", "replicas", "isr", "start_offset", "end_offset")
    rows = [[_cell(partition[column]) for column in columns] for partition in topic["partitions"]]
    print_table(("PARTITION", "LEADER", "REPLICAS", "ISR", "START", "END"), rows)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def alter(arguments: Arguments) -> int:
    if not (arguments.partitions or arguments.config or arguments.delete_config):
        raise UsageError("nothing to change: give --partitions, --config or --delete-config")
    with connect(arguments) as client:
        client.topic(arguments.name)
        if arguments.partitions:
            admin.create_partitions(client, arguments.name, arguments.partitions)
        if arguments.config or arguments.delete_config:
            resource = Resource(ResourceType.TOPIC, arguments.name)
            admin.alter_configs(client, resource, dict(arguments.config), arguments.delete_config)
    _done(arguments, [arguments.name], "altered")
    return 0


def delete(arguments: Arguments) -> int:
    deleted: list[str] = []
    try:
        with connect(arguments) as client:
            for name in arguments.name:
                admin.delete_topic(client, name)
                deleted.append(name)
                if not arguments.json:
                    print(f"topic {name} deleted")
    finally:
        if arguments.json:  # also when one of them could not be deleted: those before it are gone
            print_json({"deleted": deleted})
    return 0


def _done(arguments: Arguments, names: list[str], what: str) -> None:
    if arguments.json:
        print_json({what: names})
    else:
        print(*(f"topic {name} {what}" for name in names), sep="\n")


_PARTITIONS = Option("-p --partitions", "how many partitions", "N", positive_number)
_CONFIG = Option(
    "-c --config", "a topic configuration, such as retention.ms=60000", "KEY=VALUE", key_value, repeated=True
)

COMMANDS = (
    Command(
        "topics create",
        "Create a topic.",
        create,
        (
            _PARTITIONS._replace(help="how many partitions (default: the broker's num.partitions)"),
            Option("-r --replication-factor", "replicas of each partition", "N", positive_number),
            _CONFIG,
            *CLUSTER_OPTIONS,
        ),
        "NAME",
        (
            "barnabas topics create orders --partitions 3",
            "barnabas topics create payments --config flush.messages=1   # acknowledge after an fsync",
        ),
    ),
    Command(
        "topics list",
        "List the topics.",
        list_topics,
        (Option("--internal", "internal topics too"), *CLUSTER_OPTIONS),
        examples=("barnabas topics list", "barnabas topics list --json | jq -r '.[].name'"),
    ),
    Command(
        "topics describe",
        "Show partitions, leaders, replicas, offsets and configuration of topics.",
        describe,
        CLUSTER_OPTIONS,
        "[NAME...]",
        ("barnabas topics describe", "barnabas topics describe orders payments"),
    ),
    Command(
        "topics alter",
        "Add partitions to a topic, or change its configuration.",
        alter,
        (
            _PARTITIONS._replace(help="how many partitions to have; more than now"),
            _CONFIG,
            Option("-d --delete-config", "a key that goes back to its default", "KEY", repeated=True),
            *CLUSTER_OPTIONS,
        ),
        "NAME",
        (
            "barnabas topics alter orders --partitions 6",
            "barnabas topics alter orders --config retention.ms=60000 --delete-config cleanup.policy",
        ),
    ),
    Command(
        "topics delete",
        "Delete topics and everything in them.",
        delete,
        CLUSTER_OPTIONS,
        "NAME...",
        ("barnabas topics delete orders payments",),
    ),
)
