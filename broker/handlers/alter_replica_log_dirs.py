"""AlterReplicaLogDirs (34), versions 1 and 2: moves replicas of this broker to others of its log dirs.

A replica stays in the dir in which it was created. To name that dir succeeds; to name another one of this broker's is
refused with INVALID_REPLICA_ASSIGNMENT, as Kafka refuses a dir that is cordoned. All other errors are Kafka's.
"""

import os

from barnabas.broker.distinct_partitions import distinct_partitions
from barnabas.broker.node import Node
from barnabas.broker.replicas.partition import Role
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from barnabas.protocol.types import TopicPartition
from barnabas.storage.log_dir import LogDir

_NAME_LENGTH_MAX = 255
_FUTURE_SUFFIX_LENGTH = len(".-future") + 32
"""Kafka moves a replica to a folder whose name has this much more, and refuses names that do not fit."""


def handle(node: Node, request: AlterReplicaLogDirsRequest, _context: RequestContext) -> AlterReplicaLogDirsResponse:
    asked = (
        (topic.name, index, entry.path)
        for entry in request.dirs
        for topic in entry.topics
        for index in topic.partitions
    )
    dirs = {os.path.abspath(log_dir.path): log_dir for log_dir in node.logs.log_dirs}
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=topic,
                partitions=[
                    AlterReplicaLogDirPartitionResult(
                        partition_index=index, error_code=_error(node, TopicPartition(topic, index), dirs.get(path))
                    )
                    for index, path in paths.items()
                ],
            )
            for topic, paths in distinct_partitions(asked).items()
        ]
    )


def _error(node: Node, partition: TopicPartition, destination: LogDir | None) -> ErrorCode:
    if len(str(partition)) + _FUTURE_SUFFIX_LENGTH > _NAME_LENGTH_MAX:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if destination is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if destination.error is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    role = node.replicas.role(*partition)
    if role is Role.OFFLINE:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if role is None:
        is_elsewhere = node.image.partition(*partition) is not None
        return ErrorCode.REPLICA_NOT_AVAILABLE if is_elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    is_there = node.logs.dir_of(partition) in (destination, None)
    return ErrorCode.NONE if is_there else ErrorCode.INVALID_REPLICA_ASSIGNMENT
