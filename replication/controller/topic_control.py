"""Decides on topics and partitions: CreateTopics, DeleteTopics, CreatePartitions.

Rules:
- Every topic of a request stands or falls alone; the records of those that stand are appended together.
- A name that a request gives twice is refused, both times, before anything else about it is checked.
- Of several things wrong with a topic the first in this order is reported: it exists, its name, its configs, its
  partitions.
- A new partition is led by its first replica that is active; its in-sync replicas are those that are active.
- A request that would create more than `RECORDS_MAX` partitions is refused whole: POLICY_VIOLATION.
Deviations: results come in the order of the request (Kafka shuffles deletions and puts duplicates last); of two names
in one request that collide in `.` and `_` the second is refused, as if the first existed already.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from barnabas.base.environment import Random
from barnabas.base.uuids import random_uuid
from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from barnabas.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord
from barnabas.protocol.stored.metadata_records import ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from barnabas.protocol.types import ZERO_UUID, Uuid
from barnabas.replication.controller.decision import RECORDS_MAX, Decision, refused
from barnabas.replication.controller.partitions.directories import default_directory
from barnabas.replication.controller.placement import UsableBroker, place
from barnabas.replication.controller.settings import Deciding, Schema, TopicDefaults
from barnabas.replication.controller.topic_names import check_topic_name
from barnabas.replication.metadata.image import (
    CLUSTER_METADATA_TOPIC,
    MetadataImage,
    TopicImage,
    metric_name,
)

T = TypeVar("T")
Replicas = Sequence[int]


# ---- CreateTopics


def create_topics(
    request: CreateTopicsRequest, image: MetadataImage, deciding: Deciding
) -> Decision[CreateTopicsResponse]:
    settings, random = deciding.settings, deciding.random
    defaults = settings.defaults
    records: list[MetadataRecord] = []
    results: list[CreatableTopicResult] = []
    taken: dict[str, str] = {}
    described: dict[tuple[tuple[str, str], ...], Sequence[CreatableTopicConfigs]] = {}
    too_many = sum(_partitions_asked_for(topic, defaults) for topic in request.topics) > RECORDS_MAX
    for topic, times in _distinct(request.topics, lambda topic: topic.name):
        try:
            _refuse_if(times > 1, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            _refuse_if(too_many, ErrorCode.POLICY_VIOLATION, f"More than {RECORDS_MAX} partitions in one request.")
            configs = _new_topic_configs(topic, image, taken, settings.schemas.topic)
            replicas = _new_topic_replicas(topic, image, defaults, random)
            topic_records = _topic_records(topic.name, configs, replicas, image, random)
            taken[metric_name(topic.name)] = topic.name
            records += topic_records
            key = tuple(configs.items())
            if key not in described:  # topics of one request are mostly alike, and each has dozens of configs
                described[key] = settings.describe_topic_configs(configs)
            results.append(_created(topic.name, topic_records[0], replicas, described[key]))
        except KafkaError as error:
            results.append(CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message))
    response = CreateTopicsResponse(topics=results)
    return Decision([] if request.validate_only else records, response)


def _partitions_asked_for(topic: CreatableTopic, defaults: TopicDefaults) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return defaults.num_partitions if topic.num_partitions == -1 else max(0, topic.num_partitions)


def _new_topic_configs(
    topic: CreatableTopic, image: MetadataImage, taken: Mapping[str, str], schema: Schema
) -> dict[str, str]:
    """Returns the configs of a new topic, after checking all that does not depend on the brokers."""
    if topic.name == CLUSTER_METADATA_TOPIC:
        raise refused(ErrorCode.INVALID_REQUEST, f"{CLUSTER_METADATA_TOPIC} is the controller's own.")
    if topic.name in image.topics:
        raise refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
    check_topic_name(topic.name)
    _check_collision(topic.name, image, taken)
    without_value = [config.name for config in topic.configs if config.value is None]
    if without_value:
        raise refused(ErrorCode.INVALID_CONFIG, f"No value was given for {', '.join(without_value)}")
    configs = {config.name: config.value for config in topic.configs if config.value is not None}
    schema.with_overrides(configs)
    return configs


def _check_collision(name: str, image: MetadataImage, taken: Mapping[str, str]) -> None:
    """Raises if another topic has the same name in metrics, where a `.` becomes a `_`."""
    key = metric_name(name)
    existing = image.topics_by_metric_name.get(key, ())
    colliding = existing[0] if existing else taken.get(key)
    if colliding is not None:
        raise refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with topic '{colliding}'.")


def _new_topic_replicas(
    topic: CreatableTopic, image: MetadataImage, defaults: TopicDefaults, random: Random
) -> list[Replicas]:
    if topic.assignments:
        return _assigned_replicas(topic, image)
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise refused(
            ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be above 0, or -1 for the default."
        )
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        raise refused(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be above 0, or -1 for the default.")
    num_partitions = defaults.num_partitions if topic.num_partitions == -1 else topic.num_partitions
    replication_factor = defaults.replication_factor if topic.replication_factor == -1 else topic.replication_factor
    return _placed_replicas(num_partitions, replication_factor, image, random)


def _assigned_replicas(topic: CreatableTopic, image: MetadataImage) -> list[Replicas]:
    if topic.replication_factor != -1 or topic.num_partitions != -1:
        raise refused(
            ErrorCode.INVALID_REQUEST,
            "With a manual assignment the numbers of partitions and replicas must both be -1.",
        )
    by_partition: dict[int, Replicas] = {}
    for assignment in topic.assignments:
        if assignment.partition_index in by_partition:
            raise _invalid_assignment(f"Partition {assignment.partition_index} is assigned more than once.")
        factor = len(next(iter(by_partition.values()))) if by_partition else None
        check_assignment(assignment.partition_index, assignment.broker_ids, factor, image)
        by_partition[assignment.partition_index] = assignment.broker_ids
    if by_partition.keys() != set(range(len(by_partition))):
        raise _invalid_assignment("Partitions must be numbered from 0 without a gap.")
    return [by_partition[partition] for partition in range(len(by_partition))]


def check_assignment(
    partition: int, broker_ids: Replicas, replication_factor: int | None, image: MetadataImage
) -> None:
    if not broker_ids:
        raise _invalid_assignment(f"Partition {partition} is assigned to no broker.")
    for broker_id in broker_ids:
        if broker_id not in image.brokers:
            raise _invalid_assignment(
                f"Partition {partition} is assigned to broker {broker_id}, which is not registered."
            )
    if len(set(broker_ids)) != len(broker_ids):
        raise _invalid_assignment(f"Partition {partition} is assigned to the same broker more than once.")
    if replication_factor is not None and len(broker_ids) != replication_factor:
        raise _invalid_assignment(
            f"Partition {partition} has {len(broker_ids)} replica(s) where others have {replication_factor}."
        )
    if not any(image.brokers[broker_id].is_active for broker_id in broker_ids):
        raise _invalid_assignment(f"All brokers of partition {partition} are fenced or in controlled shutdown.")


def _invalid_assignment(reason: str) -> KafkaError:
    return refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)


def _placed_replicas(
    num_partitions: int, replication_factor: int, image: MetadataImage, random: Random
) -> list[Replicas]:
    brokers = [
        UsableBroker(broker.broker_id, broker.rack, fenced=not broker.is_active) for broker in image.brokers.values()
    ]
    try:
        placed = place(num_partitions, replication_factor, brokers, random)
    except KafkaError as error:
        raise refused(
            error.code, f"Unable to replicate the partition {replication_factor} time(s): {error.message}"
        ) from None
    return list(placed)


def _topic_records(
    name: str, configs: Mapping[str, str], replicas: Sequence[Replicas], image: MetadataImage, random: Random
) -> list[MetadataRecord]:
    """Returns the topic, then its configs, then its partitions: a reader knows the configs when a partition appears."""
    topic_id = random_uuid(random)
    records: list[MetadataRecord] = [TopicRecord(name=name, topic_id=topic_id)]
    records += [
        ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=name, name=key, value=value)
        for key, value in configs.items()
    ]
    records += [partition_record(topic_id, partition, ids, image) for partition, ids in enumerate(replicas)]
    return records


def partition_record(topic_id: Uuid, partition: int, replicas: Replicas, image: MetadataImage) -> PartitionRecord:
    isr = [broker_id for broker_id in replicas if image.brokers[broker_id].is_active]
    return PartitionRecord(
        partition_id=partition,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=isr,
        removing_replicas=[],
        adding_replicas=[],
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[default_directory(image.brokers[broker_id]) for broker_id in replicas],
    )


def _created(
    name: str, record: MetadataRecord, replicas: Sequence[Replicas], configs: Sequence[CreatableTopicConfigs]
) -> CreatableTopicResult:
    assert isinstance(record, TopicRecord)
    return CreatableTopicResult(
        name=name,
        topic_id=record.topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=len(replicas),
        replication_factor=len(replicas[0]),
        configs=configs,
    )


# ---- DeleteTopics


def delete_topics(
    request: DeleteTopicsRequest, image: MetadataImage, deciding: Deciding
) -> Decision[DeleteTopicsResponse]:
    disabled = ErrorCode.TOPIC_DELETION_DISABLED if deciding.context.api_version >= 3 else ErrorCode.INVALID_REQUEST
    asked = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    records: list[MetadataRecord] = []
    results: list[DeletableTopicResult] = []
    distinct = _distinct(asked, lambda state: (state.name, state.topic_id) if _is_well_formed(state) else id(state))
    given_twice = _given_by_name_and_id(distinct, image)
    for state, times in distinct:
        if state.name is None and times == 1 and state.topic_id in given_twice:
            continue  # the answer to its name is for both
        try:
            _refuse_if(not deciding.settings.delete_topic_enable, disabled, "Topic deletion is disabled.")
            topic = _deletable(state, times, image)
            if topic.topic_id in given_twice:
                state = DeleteTopicState(name=topic.name, topic_id=topic.topic_id)
                raise refused(ErrorCode.INVALID_REQUEST, "The topic is given by its name and by its id.")
            records.append(RemoveTopicRecord(topic_id=topic.topic_id))
            results.append(DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=ErrorCode.NONE))
        except KafkaError as error:
            results.append(_not_deleted(state, error))
    return Decision(records, DeleteTopicsResponse(responses=results))


def _is_well_formed(state: DeleteTopicState) -> bool:
    return (state.name is None) == (state.topic_id != ZERO_UUID)


def _given_by_name_and_id(distinct: Iterable[tuple[DeleteTopicState, int]], image: MetadataImage) -> set[Uuid]:
    """Returns the ids of topics that are given by name and by id. A name that is given twice is refused already and
    does not count; an id that is given twice does."""
    well_formed = [(state, times) for state, times in distinct if _is_well_formed(state)]
    ids = {state.topic_id for state, _ in well_formed if state.name is None}
    names = [state.name for state, times in well_formed if state.name is not None and times == 1]
    return {topic.topic_id for name in names if (topic := image.topics.get(name)) is not None and topic.topic_id in ids}


def _deletable(state: DeleteTopicState, times: int, image: MetadataImage) -> TopicImage:
    by_name, by_id = state.name is not None, state.topic_id != ZERO_UUID
    _refuse_if(not by_name and not by_id, ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    _refuse_if(by_name and by_id, ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    _refuse_if(times > 1, ErrorCode.INVALID_REQUEST, f"Duplicate topic {'name' if by_name else 'id'}.")
    if state.name is None:
        topic = image.topics_by_id.get(state.topic_id)
        _refuse_if(topic is None, ErrorCode.UNKNOWN_TOPIC_ID, "No topic has this id.")
    else:
        topic = image.topics.get(state.name)
        _refuse_if(topic is None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{state.name}'.")
    assert topic is not None
    return topic


def _not_deleted(state: DeleteTopicState, error: KafkaError) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=state.name, topic_id=state.topic_id, error_code=error.code, error_message=error.message
    )


# ---- CreatePartitions


def create_partitions(
    request: CreatePartitionsRequest, image: MetadataImage, deciding: Deciding
) -> Decision[CreatePartitionsResponse]:
    records: list[MetadataRecord] = []
    results: list[CreatePartitionsTopicResult] = []
    for topic, times in _distinct(request.topics, lambda topic: topic.name):
        try:
            _refuse_if(times > 1, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            added = _added_partitions(topic, image, RECORDS_MAX - len(records), deciding.random)
            records += added
            results.append(CreatePartitionsTopicResult(name=topic.name, error_code=ErrorCode.NONE))
        except KafkaError as error:
            results.append(
                CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=error.message or None)
            )
    response = CreatePartitionsResponse(results=results)
    return Decision([] if request.validate_only else records, response)


def _added_partitions(
    asked: CreatePartitionsTopic, image: MetadataImage, partitions_max: int, random: Random
) -> list[PartitionRecord]:
    topic = image.topics.get(asked.name)
    if topic is None:
        raise refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    first = len(topic.partitions)
    added = asked.count - first
    if added <= 0:
        raise refused(
            ErrorCode.INVALID_PARTITIONS, f"The topic has {first} partition(s); {asked.count} is no increase."
        )
    if asked.assignments is not None and len(asked.assignments) != added:
        raise _invalid_assignment(f"{added} partition(s) are to be added, but {len(asked.assignments)} assigned.")
    _refuse_if(
        added > partitions_max, ErrorCode.POLICY_VIOLATION, f"More than {RECORDS_MAX} partitions in one request."
    )
    if asked.assignments is None:
        replicas = _placed_replicas(added, topic.replication_factor, image, random)
    else:
        replicas = [assignment.broker_ids for assignment in asked.assignments]
        for index, broker_ids in enumerate(replicas):
            check_assignment(first + index, broker_ids, topic.replication_factor, image)
    return [partition_record(topic.topic_id, first + index, ids, image) for index, ids in enumerate(replicas)]


# ---- what they share


def _distinct(entries: Iterable[T], key: Callable[[T], object]) -> list[tuple[T, int]]:
    """Returns the first entry of each key, and how many entries have that key."""
    first: dict[object, T] = {}
    times: Counter[object] = Counter()
    for entry in entries:
        first.setdefault(key(entry), entry)
        times[key(entry)] += 1
    return [(entry, times[name]) for name, entry in first.items()]


def _refuse_if(condition: bool, code: ErrorCode, reason: str) -> None:
    if condition:
        raise refused(code, reason)
