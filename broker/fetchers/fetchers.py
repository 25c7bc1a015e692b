"""The followed partitions of this broker, and the fetchers that feed them: one for each broker that leads any of them.

Whoever knows the metadata calls `follow` and `stop` as they change. Both may be called again with what is true already,
and for thousands of partitions in one turn: the requests leave at the end of the turn, one to each leader.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.base.environment import Environment
from barnabas.base.network import Address
from barnabas.broker.cluster.inter_broker import address_of
from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.network.buffers import Buffers
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import TopicPartition
from barnabas.replication.metadata.image import MetadataImage

if TYPE_CHECKING:
    from barnabas.broker.fetchers.leader_fetcher import LeaderFetcher
    from barnabas.broker.replicas.follower import FollowerPartition
    from barnabas.broker.replicas.throttles import Throttle


class Follower(NamedTuple):
    """Who this broker is for the leaders that it fetches from."""

    node_id: int
    broker_epoch: Callable[[], int]
    """The epoch of its registration, as it is now."""
    config: Callable[[], BrokerConfig]
    throttle: "Throttle"


class Leader(NamedTuple):
    broker_id: int
    address: Address


def leader_at(image: MetadataImage, broker_id: int, inter_broker_listener: str) -> Leader | None:
    """Returns where brokers reach this one; None while it is not registered."""
    broker = image.brokers.get(broker_id)
    address = None if broker is None else address_of(broker, inter_broker_listener)
    return None if address is None else Leader(broker_id, address)


class Fetchers:
    def __init__(self, follower: Follower, environment: Environment, buffers: Buffers) -> None:
        self._follower = follower
        self._environment = environment
        self._buffers = buffers
        self._by_leader: dict[Leader, LeaderFetcher] = {}
        self._leader_of: dict[TopicPartition, Leader] = {}
        self._is_closed = False

    def follow(self, partition: "FollowerPartition", leader: Leader) -> None:
        """Fetches the partition from this leader, in the epoch that the partition has now.

        Nothing changes if that is what happens already, but a partition that waits for a better moment is tried at
        once. Another leader, a later epoch or another log of that name begins anew at the log's end.
        """
        if self._is_closed:
            return
        name = partition.topic_partition
        before = self._leader_of.get(name)
        if before is not None and before != leader:
            self._by_leader[before].stop(name)
        self._leader_of[name] = leader
        self._fetcher(leader).follow(partition)

    def stop(self, topic_partition: TopicPartition) -> None:
        """Fetches the partition no more. An answer that is under way changes nothing."""
        leader = self._leader_of.pop(topic_partition, None)
        if leader is not None:
            self._by_leader[leader].stop(topic_partition)

    def leader_of(self, topic_partition: TopicPartition) -> Leader | None:
        """Returns from whom the partition is fetched."""
        return self._leader_of.get(topic_partition)

    def close(self) -> None:
        """Gives up every connection; nothing is followed any more."""
        self._is_closed = True
        self._leader_of.clear()
        for fetcher in self._by_leader.values():
            fetcher.close()
        self._by_leader.clear()

    def _fetcher(self, leader: Leader) -> "LeaderFetcher":
        from barnabas.broker.fetchers.leader_fetcher import LeaderFetcher  # a broker that follows nobody needs none

        fetcher = self._by_leader.get(leader)
        if fetcher is None:
            fetcher = LeaderFetcher(leader, self._follower, self._environment, self._buffers, self._has_nothing)
            self._by_leader[leader] = fetcher
        return fetcher

    def _has_nothing(self, fetcher: "LeaderFetcher") -> None:
        """Closes the connection to a broker that leads nothing that is followed here."""
        if self._by_leader.get(fetcher.leader) is fetcher:
            del self._by_leader[fetcher.leader]
            fetcher.close()
