"""The APIs that a client can call. Dispatch, version checks, ApiVersions and the table in the docs come from here."""

from collections.abc import Callable
from typing import Any, NamedTuple

from barnabas.broker.handlers import (
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_config_resources,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from barnabas.protocol.api_keys import ApiKey


class Handler(NamedTuple):
    handle: Callable[..., Any]
    request: Any
    versions: range
    """What ApiVersions says; what is served is the part of it that the request declares."""


HANDLERS = {
    ApiKey.PRODUCE: Handler(produce.handle, produce.ProduceRequest, range(0, 14)),
    ApiKey.FETCH: Handler(fetch.handle, fetch.FetchRequest, range(4, 19)),
    ApiKey.LIST_OFFSETS: Handler(list_offsets.handle, list_offsets.ListOffsetsRequest, range(1, 12)),
    ApiKey.METADATA: Handler(metadata.handle, metadata.MetadataRequest, range(0, 14)),
    ApiKey.FIND_COORDINATOR: Handler(find_coordinator.handle, find_coordinator.FindCoordinatorRequest, range(0, 7)),
    ApiKey.API_VERSIONS: Handler(api_versions.handle, api_versions.ApiVersionsRequest, range(0, 5)),
    ApiKey.CREATE_TOPICS: Handler(create_topics.handle, create_topics.CreateTopicsRequest, range(2, 8)),
    ApiKey.DELETE_TOPICS: Handler(delete_topics.handle, delete_topics.DeleteTopicsRequest, range(1, 7)),
    ApiKey.DELETE_RECORDS: Handler(delete_records.handle, delete_records.DeleteRecordsRequest, range(0, 3)),
    ApiKey.INIT_PRODUCER_ID: Handler(init_producer_id.handle, init_producer_id.InitProducerIdRequest, range(0, 6)),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Handler(
        offset_for_leader_epoch.handle, offset_for_leader_epoch.OffsetForLeaderEpochRequest, range(2, 5)
    ),
    ApiKey.DESCRIBE_CONFIGS: Handler(describe_configs.handle, describe_configs.DescribeConfigsRequest, range(1, 5)),
    ApiKey.ALTER_CONFIGS: Handler(alter_configs.handle, alter_configs.AlterConfigsRequest, range(0, 3)),
    ApiKey.DESCRIBE_LOG_DIRS: Handler(describe_log_dirs.handle, describe_log_dirs.DescribeLogDirsRequest, range(1, 6)),
    ApiKey.CREATE_PARTITIONS: Handler(create_partitions.handle, create_partitions.CreatePartitionsRequest, range(0, 4)),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Handler(
        incremental_alter_configs.handle, incremental_alter_configs.IncrementalAlterConfigsRequest, range(0, 2)
    ),
    ApiKey.DESCRIBE_CLUSTER: Handler(describe_cluster.handle, describe_cluster.DescribeClusterRequest, range(0, 3)),
    ApiKey.DESCRIBE_PRODUCERS: Handler(
        describe_producers.handle, describe_producers.DescribeProducersRequest, range(0, 1)
    ),
    ApiKey.LIST_CONFIG_RESOURCES: Handler(
        list_config_resources.handle, list_config_resources.ListConfigResourcesRequest, range(0, 2)
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Handler(
        describe_topic_partitions.handle, describe_topic_partitions.DescribeTopicPartitionsRequest, range(0, 1)
    ),
}
