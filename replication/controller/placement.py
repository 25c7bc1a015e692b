"""Where the replicas of new partitions go: striped over the racks, and over the brokers of each rack, as Kafka does it.

Rules:
- The first replica, which will lead, is never on a fenced broker; the others are on one only when no other is left.
- Every next partition starts one rack further, and every rack gives its next broker: leaders, too, spread evenly.
- After as many partitions as there are unfenced brokers the lists are shuffled, or the same brokers would always share
  their partitions.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from barnabas.base.environment import Random
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.named_tuple import NamedTuple

T = TypeVar("T")


class UsableBroker(NamedTuple):
    broker_id: int
    rack: str | None = None
    fenced: bool = False


def place(
    partitions: int, replication_factor: int, brokers: Iterable[UsableBroker], random: Random
) -> list[tuple[int, ...]]:
    """Returns the replicas of each partition, the preferred leader first."""
    racks = _Racks(brokers, random)
    if replication_factor <= 0:
        raise _invalid(f"Invalid replication factor {replication_factor}: it must be positive.")
    if racks.unfenced_count == 0:
        raise _invalid("All brokers are currently fenced.")
    if replication_factor > racks.count:
        raise _invalid(
            f"The target replication factor of {replication_factor} cannot be reached "
            f"because only {racks.count} broker(s) are registered."
        )
    return [racks.place(replication_factor) for _ in range(partitions)]


def _invalid(reason: str) -> KafkaError:
    return KafkaError(reason, ErrorCode.INVALID_REPLICATION_FACTOR)


class _Brokers:
    """Gives out each broker once per round, and starts the next round one further."""

    def __init__(self, broker_ids: Iterable[int], random: Random) -> None:
        self.ids = sorted(broker_ids)
        self.offset = random.randrange(len(self.ids)) if self.ids else 0
        self.index = 0
        self.round = 0

    def next(self, round_: int) -> int | None:
        if not self.ids:
            return None
        if self.round != round_:
            self.round, self.index, self.offset = round_, 0, (self.offset + 1) % len(self.ids)
        if self.index >= len(self.ids):
            return None
        self.index += 1
        return self.ids[(self.index - 1 + self.offset) % len(self.ids)]


class _Rack:
    def __init__(self, brokers: Sequence[UsableBroker], random: Random) -> None:
        self.fenced = _Brokers((broker.broker_id for broker in brokers if broker.fenced), random)
        self.unfenced = _Brokers((broker.broker_id for broker in brokers if not broker.fenced), random)

    def next(self, round_: int) -> int | None:
        broker_id = self.unfenced.next(round_)
        return self.fenced.next(round_) if broker_id is None else broker_id


class _Racks:
    def __init__(self, brokers: Iterable[UsableBroker], random: Random) -> None:
        by_rack: dict[str, list[UsableBroker]] = {}
        for broker in brokers:
            by_rack.setdefault(broker.rack or "", []).append(broker)
        self.random = random
        self.racks = [_Rack(by_rack[name], random) for name in sorted(by_rack)]
        self.count = sum(map(len, by_rack.values()))
        self.unfenced_count = sum(len(rack.unfenced.ids) for rack in self.racks)
        self.offset = random.randrange(len(self.racks)) if self.racks else 0
        self.round = 0

    def place(self, replication_factor: int) -> tuple[int, ...]:
        if self.round == self.unfenced_count and self.unfenced_count > 1:
            self._shuffle()
            self.round = 0
        replicas, leader_rack = self._leader()
        index = self.offset % len(self.racks)
        skip: int | None = leader_rack
        while len(replicas) < replication_factor:
            if index == skip:
                skip = None  # the leader's rack has given its replica of the first turn
            elif (broker_id := self.racks[index].next(self.round)) is not None:
                replicas.append(broker_id)
            index = (index + 1) % len(self.racks)
        self.round += 1
        self.offset = (self.offset + 1) % len(self.racks)
        return tuple(replicas)

    def _leader(self) -> tuple[list[int], int]:
        index = self.offset % len(self.racks)
        while (broker_id := self.racks[index].unfenced.next(self.round)) is None:
            index = (index + 1) % len(self.racks)
        return [broker_id], index

    def _shuffle(self) -> None:
        _shuffle(self.racks, self.random)
        for rack in self.racks:
            _shuffle(rack.fenced.ids, self.random)
            _shuffle(rack.unfenced.ids, self.random)


def _shuffle(entries: list[T], random: Random) -> None:
    for index in range(len(entries) - 1, 0, -1):
        other = random.randrange(index + 1)
        entries[index], entries[other] = entries[other], entries[index]
