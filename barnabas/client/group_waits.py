"""What keeps groups waiting: transactions that are open, and whose they are.

Rules:
- Who reads committed records gets none from the first open transaction on, the last stable offset. A group does not say
  how it reads: this is told where it has something left to read and there is such an offset.
- A consumer that asks where its group is waits as long as a transaction has committed an offset and is open.
- Which transaction that is cannot be asked. Those are named that are open where the group keeps its offsets.
- Nothing more is asked of the cluster as long as nobody waits.
"""

from collections.abc import Iterable, Mapping, Sequence

from barnabas.broker.coordinator.key_hash import java_hash
from barnabas.client.admin import LATEST, Isolation
from barnabas.client.client import Client
from barnabas.client.group_lag import PartitionLag, log_offsets
from barnabas.client.group_offsets import unstable_offsets
from barnabas.client.transactions import OpenTransaction, open_transactions, transactional_ids
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import TopicPartition

GROUP_OFFSETS_TOPIC = "__consumer_offsets"


class Blamed(NamedTuple):
    """A transaction that is open."""

    transactional_id: str | None
    """None if no coordinator knows the producer: the transaction hangs."""
    producer_id: int
    last_timestamp_ms: int


class Wait(NamedTuple):
    """Why a group waits in a partition."""

    last_stable_offset: int | None
    """Where readers of committed records stop, if that is before the end."""
    stopped_by: Blamed | None
    """The transaction that begins there, if the cluster tells."""
    is_unstable: bool
    """Whether it depends on a transaction which offset is committed."""
    unstable_by: tuple[Blamed, ...]
    """That transaction, or several of which it is one, if the cluster tells."""


Waits = dict[TopicPartition, Wait]


def group_waits(client: Client, lags: Mapping[str, Sequence[PartitionLag]]) -> dict[str, Waits]:
    """Returns, by group, the partitions in which it waits."""
    stops = _stops(client, lags)
    unstable = {name: unstable_offsets(client, name, [each.partition for each in lags[name]]) for name in lags}
    held_back = {name for name, partitions in unstable.items() if partitions}
    if not stops and not held_back:
        return {name: {} for name in lags}
    places = _places(client, held_back)
    opened = _open(client, {*stops, *places.values()})

    def wait(name: str, each: PartitionLag) -> Wait:
        first = min(opened.get(each.partition, ()), default=None)
        is_unstable = each.partition in unstable[name]
        by = [blamed for _, blamed in opened.get(places[name], ())] if is_unstable and name in places else []
        stop = stops.get(each.partition) if each.lag else None
        return Wait(stop, None if stop is None or first is None else first[1], is_unstable, tuple(by))

    return {
        name: {each.partition: wait(name, each) for each in theirs if each.partition in {*stops, *unstable[name]}}
        for name, theirs in lags.items()
    }


def _stops(client: Client, lags: Mapping[str, Sequence[PartitionLag]]) -> dict[TopicPartition, int]:
    """Returns the last stable offsets that are before the end. The ends were asked for before: what has come since then
    makes no difference."""
    ends = {
        each.partition: each.log_end_offset
        for theirs in lags.values()
        for each in theirs
        if each.lag and each.log_end_offset is not None
    }
    stable = log_offsets(client, ends, LATEST, isolation=Isolation.READ_COMMITTED)
    return {partition: offset for partition, offset in stable.items() if offset < ends[partition]}


def _places(client: Client, group_ids: Iterable[str]) -> dict[str, TopicPartition]:
    """Returns where these groups keep their offsets."""
    names = list(group_ids)
    topic = client.metadata([GROUP_OFFSETS_TOPIC]).topics.get(GROUP_OFFSETS_TOPIC) if names else None
    if topic is None:
        return {}
    count = len(topic.partitions)
    return {name: TopicPartition(GROUP_OFFSETS_TOPIC, java_hash(name) % count) for name in names}


def _open(client: Client, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, list[tuple[int, Blamed]]]:
    """Returns the open transactions of each partition with their first offsets; none that this client may not see, or
    that a broker of old cannot tell."""
    try:
        found = open_transactions(client, partitions)
        names = transactional_ids(client, {each.producer_id for each in found})
    except KafkaError:
        return {}
    opened: dict[TopicPartition, list[tuple[int, Blamed]]] = {}
    for each in found:
        opened.setdefault(each.partition, []).append((each.start_offset, _blamed(each, names)))
    return opened


def _blamed(transaction: OpenTransaction, names: Mapping[int, str]) -> Blamed:
    producer_id = transaction.producer_id
    return Blamed(names.get(producer_id), producer_id, transaction.last_timestamp_ms)
