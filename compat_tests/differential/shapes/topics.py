"""Topics, their configurations and what is told of the cluster."""

from typing import Any

from compat_tests.differential.world import INT32_MAX, INVALID_NAMES, STRANGE_ID, World

TOPIC_CONFIGS: tuple[tuple[str, str | None], ...] = (
    ("retention.ms", "-1"),
    ("retention.ms", "-2"),
    ("retention.bytes", "1000000"),
    ("segment.bytes", "1048576"),
    ("segment.bytes", "13"),
    ("segment.ms", "0"),
    ("segment.ms", "600000"),
    ("cleanup.policy", "compact"),
    ("cleanup.policy", "compact,delete"),
    ("cleanup.policy", "none"),
    ("cleanup.policy", ""),
    ("compression.type", "producer"),
    ("compression.type", "zip"),
    ("max.message.bytes", "500"),
    ("max.message.bytes", "-1"),
    ("max.message.bytes", "many"),
    ("message.timestamp.type", "LogAppendTime"),
    ("message.timestamp.type", "Never"),
    ("message.timestamp.before.max.ms", "60000"),
    ("message.timestamp.after.max.ms", "1000"),
    ("min.insync.replicas", "1"),
    ("min.insync.replicas", "0"),
    ("min.cleanable.dirty.ratio", "0.25"),
    ("min.cleanable.dirty.ratio", "1.5"),
    ("unclean.leader.election.enable", "true"),
    ("unclean.leader.election.enable", "perhaps"),
    ("preallocate", "TRUE"),
    ("flush.ms", "9223372036854775807"),
    ("flush.ms", "9223372036854775808"),
    ("file.delete.delay.ms", " 1000 "),
    ("index.interval.bytes", "4096"),
    ("delete.retention.ms", "1e3"),
    ("no.such.key", "1"),
    ("", "1"),
    ("retention.ms", None),
    ("retention.ms", ""),
)
GROUP_CONFIGS: tuple[tuple[str, str | None], ...] = (
    ("consumer.session.timeout.ms", "50000"),
    ("consumer.session.timeout.ms", "1"),
    ("consumer.heartbeat.interval.ms", "6000"),
    ("consumer.heartbeat.interval.ms", "0"),
    ("consumer.heartbeat.interval.ms", "60000"),
    ("consumer.heartbeat.interval.ms", "x"),
    ("no.such.key", "1"),
)
BROKER_CONFIGS: tuple[tuple[str, str | None], ...] = (
    ("message.max.bytes", "2000000"),
    ("log.retention.ms", "x"),
    ("node.id", "7"),
    ("log.cleaner.threads", "1"),
)

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


def create_topics(world: World, version: int) -> dict[str, Any]:
    def assignment() -> dict[str, Any]:
        return {
            "PartitionIndex": world.pick(world.one(0, 1), 5, -1),
            "BrokerIds": world.pick([1], [], [1, 1], [2], [-1], [1, 2]),
        }

    def config() -> dict[str, Any]:
        name, value = world.one(*TOPIC_CONFIGS)
        return {"Name": name, "Value": value}

    def topic() -> dict[str, Any]:
        assigned = world.random.random() < 0.2
        return {
            "Name": world.pick(world.new_topic(), world.known_topic(), world.one(*INVALID_NAMES), "__consumer_offsets"),
            "NumPartitions": -1 if assigned else world.pick(world.one(1, 2, 3), -1, 0, -2, INT32_MAX),
            "ReplicationFactor": -1 if assigned else world.pick(1, -1, 0, 2, -2, 32_767),
            "Assignments": world.some(assignment, 2) if assigned else [],
            "Configs": world.some(config, 2) if world.flag() else [],
        }

    return {
        "Topics": world.some(topic, 2),
        "timeoutMs": 10_000,
        "validateOnly": world.random.random() < 0.3,
    }


def delete_topics(world: World, version: int) -> dict[str, Any]:
    def name() -> str:
        return world.pick(
            world.new_topic(), world.known_topic(), f"{world.prefix}-nope", world.one(*INVALID_NAMES), p=0.5
        )

    def state() -> dict[str, Any]:
        by_name = {"Name": name(), "TopicId": bytes(16)}
        by_id = {"Name": None, "TopicId": world.pick(STRANGE_ID, world.topic_id(), p=0.4)}
        return world.pick(world.one(by_name, by_id), {"Name": None}, {"Name": name(), "TopicId": STRANGE_ID}, p=0.15)

    return {"Topics": world.some(state, 2), "TopicNames": world.some(name, 2), "TimeoutMs": 10_000}


def create_partitions(world: World, version: int) -> dict[str, Any]:
    def topic() -> dict[str, Any]:
        count = world.pick(world.one(2, 3, 4), 1, 0, -1, INT32_MAX, p=0.3)
        assignments: Any = world.pick(None, [{"BrokerIds": [1]}], [{"BrokerIds": [2]}], [{"BrokerIds": []}], [], p=0.3)
        return {"Name": world.topic(), "Count": count, "Assignments": assignments}

    return {"Topics": world.some(topic, 2), "TimeoutMs": 10_000, "ValidateOnly": world.random.random() < 0.3}


def metadata(world: World, version: int) -> dict[str, Any]:
    def topic() -> dict[str, Any]:
        name = world.pick(world.topic(), "__consumer_offsets", p=0.1)
        if version >= 12 and world.flag():
            return {"TopicId": world.topic_id(), "Name": world.pick(None, name, p=0.1)}
        return {"TopicId": world.pick(bytes(16), STRANGE_ID, p=0.05) if version >= 10 else bytes(16), "Name": name}

    return {
        "Topics": world.pick(world.some(topic, 3), None if version else [], [], p=0.15),
        "AllowAutoTopicCreation": world.flag(),
        "IncludeClusterAuthorizedOperations": world.flag(),
        "IncludeTopicAuthorizedOperations": world.flag(),
    }


def describe_topic_partitions(world: World, version: int) -> dict[str, Any]:
    names = sorted({world.pick(world.topic(), "__consumer_offsets", p=0.1) for _ in range(world.random.randint(1, 3))})
    cursor = {"TopicName": world.one(*names, world.topic()), "PartitionIndex": world.pick(world.one(0, 1), 5, -1)}
    return {
        "Topics": [{"Name": name} for name in world.pick(names, [*names, names[0]], p=0.1)],
        "ResponsePartitionLimit": world.pick(world.one(1, 2, 2_000), 0, -1, INT32_MAX),
        "Cursor": world.pick(None, cursor, p=0.3),
    }


def describe_cluster(world: World, version: int) -> dict[str, Any]:
    return {
        "IncludeClusterAuthorizedOperations": world.flag(),
        "EndpointType": world.pick(1, 2, 0, -1, 7, p=0.2),
        "IncludeFencedBrokers": world.flag(),
    }


def describe_log_dirs(world: World, version: int) -> dict[str, Any]:
    def topic() -> dict[str, Any]:
        return {"Topic": world.topic(), "Partitions": world.some(world.partition, 3)}

    return {"Topics": world.pick(world.some(topic, 2), None, [], p=0.2)}


def alter_replica_log_dirs(world: World, version: int) -> dict[str, Any]:
    """Names one partition: in what order Kafka answers about several is up to a hash map."""
    topic = {"Name": world.topic(), "Partitions": [world.partition()]}
    return {"Dirs": [{"Path": world.pick("/nowhere", "/", p=0.2), "Topics": [topic]}]}


def api_versions(world: World, version: int) -> dict[str, Any]:
    return {
        "ClientSoftwareName": world.pick("client", "", "-x", "a b", "é", "x" * 300, p=0.3),
        "ClientSoftwareVersion": world.pick("1.0", "", "1 0", p=0.2),
    }


def resource(world: World) -> dict[str, Any]:
    """Returns a resource that may have a configuration, or not."""
    return world.pick(
        {"ResourceType": TOPIC, "ResourceName": world.topic()},
        {"ResourceType": GROUP, "ResourceName": world.group()},
        {"ResourceType": BROKER, "ResourceName": world.one("1", "", "2", "x", "-1")},
        {"ResourceType": world.one(0, 1, 3, 99, -1), "ResourceName": "1"},
        p=0.45,
    )


def configs_of(world: World, resource_type: int) -> tuple[tuple[str, str | None], ...]:
    return {GROUP: GROUP_CONFIGS, BROKER: BROKER_CONFIGS}.get(resource_type, TOPIC_CONFIGS)


def describe_configs(world: World, version: int) -> dict[str, Any]:
    def one_resource() -> dict[str, Any]:
        of = resource(world)
        keys = [name for name, _ in world.random.sample(configs_of(world, of["ResourceType"]), 3)]
        return {**of, "ConfigurationKeys": world.pick(keys, None, [], [*keys, keys[0]], p=0.4)}

    return {
        "Resources": world.some(one_resource, 2),
        "IncludeSynonyms": world.flag(),
        "IncludeDocumentation": world.random.random() < 0.2,
    }


def altered(world: World, **more: Any) -> dict[str, Any]:
    """Returns changes. Those of brokers are only validated: they would reach every other story."""
    resources = world.some(lambda: resource(world), 2)

    def config(of: dict[str, Any]) -> dict[str, Any]:
        name, value = world.one(*configs_of(world, of["ResourceType"]))
        return {"Name": name, "Value": value, **{key: make() for key, make in more.items()}}

    return {
        "Resources": [{**of, "Configs": world.some(lambda of=of: config(of), 2)} for of in resources],
        "ValidateOnly": any(of["ResourceType"] == BROKER for of in resources) or world.random.random() < 0.3,
    }


def alter_configs(world: World, version: int) -> dict[str, Any]:
    return altered(world)


def incremental_alter_configs(world: World, version: int) -> dict[str, Any]:
    return altered(world, ConfigOperation=lambda: world.pick(world.one(0, 0, 1, 2, 3), 4, -1, p=0.1))


def list_config_resources(world: World, version: int) -> dict[str, Any]:
    return {
        "ResourceTypes": world.pick([TOPIC], [], [GROUP], [BROKER], [TOPIC, GROUP], [TOPIC, TOPIC], [0], [99], p=0.6)
    }


SHAPES = {
    "CreateTopics": create_topics,
    "DeleteTopics": delete_topics,
    "CreatePartitions": create_partitions,
    "Metadata": metadata,
    "DescribeTopicPartitions": describe_topic_partitions,
    "DescribeCluster": describe_cluster,
    "DescribeLogDirs": describe_log_dirs,
    "AlterReplicaLogDirs": alter_replica_log_dirs,
    "ApiVersions": api_versions,
    "DescribeConfigs": describe_configs,
    "AlterConfigs": alter_configs,
    "IncrementalAlterConfigs": incremental_alter_configs,
    "ListConfigResources": list_config_resources,
}
