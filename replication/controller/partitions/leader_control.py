"""Decides on ElectLeaders: the preferred replica leads again, or any that is alive leads a partition without a leader.

Every partition stands or falls alone. A request for all partitions is answered only about those that needed an
election.
"""

from collections.abc import Iterable

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from barnabas.protocol.stored.metadata_records import PartitionChangeRecord
from barnabas.replication.controller.decision import Decision, refused
from barnabas.replication.controller.partitions.circumstances import circumstances_of
from barnabas.replication.controller.partitions.partition_changes import Candidates, Election, partition_change
from barnabas.replication.controller.settings import ControllerSettings, Deciding
from barnabas.replication.metadata.image import NO_LEADER, MetadataImage

ELECTIONS = {0: Election.PREFERRED, 1: Election.UNCLEAN}


def elect_leaders(
    request: ElectLeadersRequest, image: MetadataImage, deciding: Deciding
) -> Decision[ElectLeadersResponse]:
    election = ELECTIONS.get(request.election_type)
    if election is None:
        raise refused(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}.")
    records: list[PartitionChangeRecord] = []
    results: list[ReplicaElectionResult] = []
    for topic, partitions in _asked_for(request, image):
        found = [_elect(topic, index, election, image, deciding.settings, records) for index in partitions]
        if request.topic_partitions is None:
            found = [result for result in found if result.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        results.append(ReplicaElectionResult(topic=topic, partition_result=found))
    return Decision(records, ElectLeadersResponse(replica_election_results=results))


def _asked_for(request: ElectLeadersRequest, image: MetadataImage) -> Iterable[tuple[str, Iterable[int]]]:
    if request.topic_partitions is None:
        return [(topic.name, range(len(topic.partitions))) for topic in image.topics.values()]
    return [(topic.topic, topic.partitions) for topic in request.topic_partitions]


def _elect(
    topic: str,
    index: int,
    election: Election,
    image: MetadataImage,
    settings: ControllerSettings,
    records: list[PartitionChangeRecord],
) -> PartitionResult:
    """Adds the record of an election to `records`; returns how the election went."""
    try:
        records.append(elected(topic, index, election, image, settings))
    except KafkaError as error:
        return PartitionResult(partition_id=index, error_code=error.code, error_message=error.message)
    return PartitionResult(partition_id=index, error_code=ErrorCode.NONE, error_message=None)


def elected(
    topic: str, index: int, election: Election, image: MetadataImage, settings: ControllerSettings
) -> PartitionChangeRecord:
    """Returns the record of an election. Raises KafkaError if none is needed, or nobody can be elected."""
    partition = image.partition(topic, index)
    if partition is None:
        raise refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {topic}-{index}.")
    is_preferred = election is Election.PREFERRED
    if partition.leader == partition.replicas[0] if is_preferred else partition.leader != NO_LEADER:
        raise refused(ErrorCode.ELECTION_NOT_NEEDED, "The partition has the leader that it should have.")
    topic_image, candidates = image.topics[topic], Candidates(image.brokers)
    circumstances = circumstances_of(topic_image, image, settings, candidates)._replace(election=election)
    change = partition_change(topic_image.topic_id, index, partition, partition, circumstances)
    if change is None and is_preferred:
        raise refused(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader is not in sync or not active.")
    if change is None:
        raise refused(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "No replica is active.")
    return change
