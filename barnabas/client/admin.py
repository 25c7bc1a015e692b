"""What an administrator asks of a cluster: topics, partitions, configurations, offsets.

Each function imports the one message it sends: a command pays only for what it uses.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum

from barnabas.client.client import Client
from barnabas.client.cluster import Partition, Topic
from barnabas.client.connection import Connection
from barnabas.client.errors import RETRIABLE, check
from barnabas.options import Failure
from barnabas.protocol.config_types import ConfigSource, ResourceType
from barnabas.protocol.named_tuple import NamedTuple

LATEST = -1
EARLIEST = -2


class Isolation(IntEnum):
    """Which records a consumer sees of transactions: all, or those that were committed, up to the first open one."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class Resource(NamedTuple):
    type: ResourceType
    name: str
    """A topic's name, a broker's node id, or the empty string for the default of all brokers."""

    def __str__(self) -> str:
        if self.type is ResourceType.TOPIC:
            return f"topic {self.name}"
        return f"broker {self.name}" if self.name else "the default of all brokers"


class ConfigEntry(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    documentation: str | None

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT_CONFIG


class CreatedTopic(NamedTuple):
    name: str
    num_partitions: int
    replication_factor: int


def _timeout_ms(client: Client) -> int:
    return int(client.timeout_s * 1000)


# ---- topics


def create_topic(
    client: Client, name: str, num_partitions: int = -1, replication_factor: int = -1, configs: Mapping[str, str] = {}
) -> CreatedTopic:
    """Creates a topic. -1 leaves a number to the broker's own default."""
    from barnabas.protocol.messages.create_topics import (
        CreatableTopic,
        CreatableTopicConfig,
        CreateTopicsRequest,
        CreateTopicsResponse,
    )

    topic = CreatableTopic(
        name=name,
        num_partitions=num_partitions,
        replication_factor=replication_factor,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=_timeout_ms(client))
    (result,) = client.request(request, CreateTopicsResponse).topics
    check(result.error_code, result.error_message, f"topic {name} was not created")
    return CreatedTopic(name, result.num_partitions, result.replication_factor)


def delete_topic(client: Client, name: str) -> None:
    from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState

    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=_timeout_ms(client)
    )
    (result,) = client.request(request, DeleteTopicsResponse).responses
    check(result.error_code, result.error_message, f"topic {name} was not deleted")


def unregister_broker(client: Client, broker_id: int) -> None:
    from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

    response = client.request(UnregisterBrokerRequest(broker_id=broker_id), UnregisterBrokerResponse)
    check(response.error_code, response.error_message, f"broker {broker_id} was not unregistered")


def create_partitions(client: Client, name: str, count: int) -> None:
    from barnabas.protocol.messages.create_partitions import (
        CreatePartitionsRequest,
        CreatePartitionsResponse,
        CreatePartitionsTopic,
    )

    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=_timeout_ms(client), validate_only=False)
    (result,) = client.request(request, CreatePartitionsResponse).results
    check(result.error_code, result.error_message, f"topic {name} was not given {count} partitions")


# ---- configurations


def _connection_for(client: Client, resource: Resource) -> Connection:
    """Returns the connection to ask: only a broker itself knows its configuration."""
    if resource.type is ResourceType.BROKER and resource.name:
        return client.node(int(resource.name))
    return client.any_node()


def describe_configs(
    client: Client, resources: Sequence[Resource], *, keys: Sequence[str] | None = None, documentation: bool = False
) -> dict[Resource, list[ConfigEntry]]:
    """Returns the configurations of resources that one connection can answer for: any topics, or one broker. `keys`
    are those to return, if not all."""
    from barnabas.protocol.messages.describe_configs import (
        DescribeConfigsRequest,
        DescribeConfigsResource,
        DescribeConfigsResponse,
    )

    wanted = [
        DescribeConfigsResource(resource_type=resource.type, resource_name=resource.name, configuration_keys=keys)
        for resource in resources
    ]
    request = DescribeConfigsRequest(resources=wanted, include_documentation=documentation)
    response = _connection_for(client, resources[0]).request(request, DescribeConfigsResponse)
    found: dict[Resource, list[ConfigEntry]] = {}
    for result in response.results:
        resource = Resource(ResourceType(result.resource_type), result.resource_name)
        check(result.error_code, result.error_message, f"the configuration of {resource} cannot be read")
        found[resource] = [
            ConfigEntry(
                entry.name,
                entry.value,
                ConfigSource(entry.config_source),
                entry.read_only,
                entry.is_sensitive,
                entry.documentation,
            )
            for entry in result.configs
        ]
    return found


def alter_configs(client: Client, resource: Resource, sets: Mapping[str, str], deletes: Iterable[str]) -> None:
    from barnabas.protocol.messages.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )

    set_operation, delete_operation = 0, 1
    configs = [AlterableConfig(name=key, config_operation=set_operation, value=value) for key, value in sets.items()]
    configs += [AlterableConfig(name=key, config_operation=delete_operation, value=None) for key in deletes]
    wanted = AlterConfigsResource(resource_type=resource.type, resource_name=resource.name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[wanted], validate_only=False)
    (result,) = _connection_for(client, resource).request(request, IncrementalAlterConfigsResponse).responses
    check(result.error_code, result.error_message, f"the configuration of {resource} was not changed")


# ---- offsets


def list_offsets(
    client: Client,
    topic: Topic,
    timestamp: int,
    partitions: Iterable[int] | None = None,
    *,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> dict[int, int]:
    """Returns the first offset at or after `timestamp`, or at EARLIEST or LATEST; -1 where there is none. For who reads
    committed records the end is the last stable offset."""
    from barnabas.protocol.messages.list_offsets import (
        ListOffsetsPartition,
        ListOffsetsRequest,
        ListOffsetsResponse,
        ListOffsetsTopic,
    )

    def ask(connection: Connection, theirs: list[Partition]) -> dict[int, int]:
        wanted = [ListOffsetsPartition(partition_index=each.partition_index, timestamp=timestamp) for each in theirs]
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation,
            topics=[ListOffsetsTopic(name=topic.name, partitions=wanted)],
            timeout_ms=_timeout_ms(client),
        )
        offsets = {}
        for answer in connection.request(request, ListOffsetsResponse).topics[0].partitions:
            if answer.error_code in RETRIABLE:
                continue
            check(answer.error_code, None, f"partition {answer.partition_index} of topic {topic.name}")
            offsets[answer.partition_index] = answer.offset
        return offsets

    indexes = [partition.partition_index for partition in topic.partitions] if partitions is None else partitions
    return client.on_leaders(topic.name, ask, indexes)


def require_partitions(topic: Topic, partitions: Iterable[int]) -> None:
    known = {partition.partition_index for partition in topic.partitions}
    for index in partitions:
        if index not in known:
            raise Failure(
                f"topic {topic.name} has no partition {index}: it has {len(known)}, counted from 0",
                f"`barnabas topics describe {topic.name}` shows them",
            )
