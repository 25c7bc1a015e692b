"""Which partitions and brokers a command line names, and where their replicas are."""

from collections.abc import Iterable

from barnabas.client.client import Client
from barnabas.client.cluster import Partition, partitions_of
from barnabas.client.errors import NoSuchTopic, check
from barnabas.client.replicas.reassignments import Refusals
from barnabas.commands.hints import hint_for
from barnabas.options import Failure, UsageError
from barnabas.output import plural
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import TopicPartition

_NAMED_MAX = 10
"""How many partitions a line names."""


class BrokerChoice(NamedTuple):
    rack: str | None
    is_fenced: bool


def find_partitions(client: Client, topics: Iterable[str] | None = None) -> dict[TopicPartition, Partition]:
    """Returns the partitions of these topics, or of all. Raises if there is no such topic."""
    cluster = client.metadata(topics)
    for name, error in cluster.errors.items():
        if error == NoSuchTopic.code:
            raise NoSuchTopic(name)
        check(error, None, f"topic {name}")
    return partitions_of(cluster)


def require_partition(name: TopicPartition, partitions: dict[TopicPartition, Partition]) -> Partition:
    if (found := partitions.get(name)) is None:
        raise Failure(f"there is no partition {name}", f"`barnabas topics describe {name.topic}` shows those there are")
    return found


def registered_brokers(client: Client) -> dict[int, BrokerChoice]:
    """Returns every broker that the cluster knows, also those that are down."""
    request = DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=True)
    response = client.request(request, DescribeClusterResponse)
    check(response.error_code, response.error_message, "the cluster cannot be described")
    return {
        broker.broker_id: BrokerChoice(broker.rack, broker.is_fenced)
        for broker in sorted(response.brokers, key=lambda broker: broker.broker_id)
    }


def require_broker(broker_id: int, brokers: dict[int, BrokerChoice]) -> None:
    if broker_id not in brokers:
        known = ", ".join(map(str, brokers))
        raise Failure(
            f"there is no broker {broker_id}: the cluster has {known}", "`barnabas cluster status` shows them"
        )


def parse_broker_id(text: str) -> int:
    if not (text.isdecimal() and text.isascii()):
        raise ValueError("must be a node id, such as 4")
    return int(text)


def broker_id_of(text: str) -> int:
    """Parses a positional."""
    try:
        return parse_broker_id(text)
    except ValueError as error:
        raise UsageError(f"{text}: {error}") from None


def parse_broker_ids(text: str) -> tuple[int, ...]:
    """Parses `1,2,3`."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and part.isascii() for part in parts):
        raise ValueError("must be node ids, such as 1,2,3")
    return tuple(dict.fromkeys(map(int, parts)))


def named(partitions: Iterable[TopicPartition]) -> str:
    """Names the first few."""
    names = [str(each) for each in partitions]
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return ", ".join(names[:_NAMED_MAX]) + more


def check_refusals(refusals: Refusals, what: str) -> None:
    """Raises Failure with the controller's reasons."""
    if refusals:
        reasons = [f"{name}: {message or code.name} ({code.name})" for name, (code, message) in refusals.items()]
        more = f"; and {len(reasons) - 3} more" if len(reasons) > 3 else ""
        code = next(iter(refusals.values()))[0]
        raise Failure(f"{plural(len(reasons), 'partition')} {what}: {'; '.join(reasons[:3])}{more}", hint_for(code))
