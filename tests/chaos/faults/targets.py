"""Who leads, controls and coordinates at this moment, as any broker says that answers."""

from random import Random

from barnabas.client.client import Client, Coordinated
from barnabas.client.errors import Unreachable
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopic,
)
from tests.chaos.cluster import Cluster
from tests.chaos.faults import plan
from tests.chaos.faults.effects import Ids
from tests.chaos.faults.plan import Fault
from tests.chaos.world import BROKERS

TOPIC, TABLE, TRANSACTIONS = "chaos", "chaos-table", "chaos-transactions"
PARTITIONS, TABLE_PARTITIONS = 4, 2
GROUPS = ("librdkafka", "kafka-python", "java")
TRANSACTIONAL_IDS = ("chaos-1", "chaos-2")


def victims_of(fault: Fault, cluster: Cluster) -> Ids:
    """Returns the brokers that a fault hits. Where nobody says who they are, they are drawn."""
    random = Random(fault.number)
    if fault.target == plan.ALL:
        return frozenset(BROKERS)
    if fault.target == plan.TWO:
        return frozenset(random.sample(BROKERS, 2))
    if fault.target.startswith("broker "):
        return frozenset((int(fault.target.removeprefix("broker ")),))
    try:
        with cluster.client(timeout_s=1.0) as client:
            return _named(fault.target, client, random)
    except (KafkaError, Unreachable, OSError):
        return frozenset((random.choice(BROKERS),))


def _named(target: str, client: Client, random: Random) -> Ids:
    if target == plan.CONTROLLER:
        return frozenset((controller(client),))
    if target == plan.COORDINATOR:
        key = random.choice((*GROUPS, *TRANSACTIONAL_IDS))
        what = Coordinated.GROUP if key in GROUPS else Coordinated.TRANSACTIONAL_ID
        return frozenset((client.coordinator(key, what),))
    partition = random.choice(client.topic(TOPIC).partitions)
    if target == plan.FOLLOWER:
        return frozenset((random.choice([each for each in partition.replicas if each != partition.leader_id]),))
    if target == plan.LEADER_AND_CONTROLLER:
        return frozenset((partition.leader_id, controller(client)))
    return frozenset((partition.leader_id,))


def controller(client: Client) -> int:
    """Returns the leader of the quorum."""
    topic = DescribeQuorumTopic(
        topic_name="__cluster_metadata", partitions=[DescribeQuorumPartition(partition_index=0)]
    )
    response = client.request(DescribeQuorumRequest(topics=[topic]), DescribeQuorumResponse)
    leader: int = response.topics[0].partitions[0].leader_id if response.topics else -1
    if leader not in BROKERS:
        raise Unreachable("nobody says who the controller is")
    return leader
