"""The limits that Kafka's tools put on the copying of replicas, and take away afterwards.

A rate is a setting of brokers; which replicas it concerns is one of topics: on the leader's side all that have a
partition before it moves, on the follower's those that are new.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from barnabas.client.admin import Resource, alter_configs
from barnabas.client.client import Client
from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.types import TopicPartition

_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_LEADERS = "leader.replication.throttled.replicas"
_FOLLOWERS = "follower.replication.throttled.replicas"


def throttled_replicas(
    before: Mapping[TopicPartition, Sequence[int]], after: Mapping[TopicPartition, Sequence[int]]
) -> dict[str, dict[str, str]]:
    """Returns the settings of each topic that has a replica to copy."""
    entries: dict[str, tuple[list[str], list[str]]] = {}
    for name, replicas in sorted(after.items()):
        if new := [replica for replica in replicas if replica not in before[name]]:
            leaders, followers = entries.setdefault(name.topic, ([], []))
            leaders += [f"{name.partition}:{replica}" for replica in before[name]]
            followers += [f"{name.partition}:{replica}" for replica in new]
    return {
        topic: {_LEADERS: ",".join(leaders), _FOLLOWERS: ",".join(followers)}
        for topic, (leaders, followers) in entries.items()
    }


def set_throttles(
    client: Client,
    bytes_per_second: int,
    before: Mapping[TopicPartition, Sequence[int]],
    after: Mapping[TopicPartition, Sequence[int]],
) -> None:
    for topic, settings in throttled_replicas(before, after).items():
        alter_configs(client, Resource(ResourceType.TOPIC, topic), settings, ())
    concerned = {replica for name in after for replica in (*before[name], *after[name])}
    for broker_id in sorted(concerned & client.metadata(()).brokers.keys()):
        rates = dict.fromkeys(_RATES, str(bytes_per_second))
        alter_configs(client, Resource(ResourceType.BROKER, str(broker_id)), rates, ())


def clear_throttles(client: Client, topics: Iterable[str], brokers: Collection[int]) -> None:
    for topic in sorted(set(topics)):
        alter_configs(client, Resource(ResourceType.TOPIC, topic), {}, (_LEADERS, _FOLLOWERS))
    for broker_id in sorted(brokers):
        alter_configs(client, Resource(ResourceType.BROKER, str(broker_id)), {}, _RATES)
