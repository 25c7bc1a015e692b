"""Plans where replicas go. Nothing is asked or changed here.

Rules, in their order:
- A replica stays where it is if its broker may have it: every move copies a whole log.
- The replicas of a partition are in as many racks as there are.
- No broker has two replicas more than another, as far as racks allow; the topic that lies most on one side moves first.
- Preferred leaders are spread as evenly. That is a matter of their order, and moves no data.
"""

from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence

from barnabas.options import Failure
from barnabas.protocol.types import TopicPartition

Racks = Mapping[int, str | None]
"""The brokers that may have replicas, each with its rack."""


class Spread:
    """An assignment that is made better step by step."""

    def __init__(self, assignments: Mapping[TopicPartition, Sequence[int]], racks: Racks) -> None:
        self.replicas = {name: list(replicas) for name, replicas in sorted(assignments.items())}
        self._racks = racks
        self._load: Counter[int] = Counter(dict.fromkeys(racks, 0))
        self._topic_load: Counter[tuple[str, int]] = Counter()
        for name, replicas in self.replicas.items():
            for broker_id in replicas:
                self._count(name, broker_id, 1)

    def _count(self, name: TopicPartition, broker_id: int, by: int) -> None:
        self._load[broker_id] += by
        self._topic_load[name.topic, broker_id] += by

    def _put(self, name: TopicPartition, position: int, broker_id: int) -> None:
        """Moves the replica at this position; one position after the last adds another."""
        replicas = self.replicas[name]
        if position < len(replicas):
            self._count(name, replicas[position], -1)
            replicas[position] = broker_id
        else:
            replicas.append(broker_id)
        self._count(name, broker_id, 1)

    # ---- which brokers, and how many

    def resize(self, name: TopicPartition, factor: int) -> None:
        """Gives a partition so many replicas. Those at the end go first."""
        replicas = self.replicas[name]
        for broker_id in replicas[factor:]:
            self._count(name, broker_id, -1)
        del replicas[factor:]
        while len(replicas) < factor:
            self._put(name, len(replicas), self._best_for(name, replicas))

    def leave(self, broker_ids: Collection[int]) -> None:
        """Replaces the replicas that are on these brokers."""
        for name, replicas in self.replicas.items():
            for position, broker_id in enumerate(replicas):
                if broker_id in broker_ids:
                    rest = [other for other in replicas if other != broker_id]
                    self._put(name, position, self._best_for(name, rest))

    def _best_for(self, name: TopicPartition, beside: Sequence[int]) -> int:
        """Returns the broker for one more replica: in a rack of its own if possible, and with little on it."""
        used = Counter(self._racks.get(broker_id) for broker_id in beside)
        able = [broker_id for broker_id in self._racks if broker_id not in self.replicas[name]]
        if not able:
            raise Failure(
                f"{name} needs {len(beside) + 1} replicas, and only {len(self._racks)} brokers may have one",
                "start another broker, or give the topic fewer replicas first",
            )
        return min(
            able, key=lambda each: (used[self._racks[each]], self._load[each], self._topic_load[name.topic, each], each)
        )

    # ---- racks and load

    def use_all_racks(self) -> None:
        """Moves replicas that share a rack while another rack has none."""
        racks = set(self._racks.values())
        for name, replicas in self.replicas.items():
            while len(used := {self._racks[each] for each in replicas}) < min(len(racks), len(replicas)):
                seen = Counter(self._racks[each] for each in replicas)
                position = max(index for index, each in enumerate(replicas) if seen[self._racks[each]] > 1)
                free = [each for each, rack in self._racks.items() if rack not in used]
                self._put(name, position, min(free, key=lambda each: (self._load[each], each)))

    def balance(self) -> None:
        """Moves replicas from those that have most to those that have least."""
        while self._balance_once():
            pass

    def _balance_once(self) -> bool:
        by_load = sorted(self._racks, key=lambda each: (self._load[each], each))
        for heavy in reversed(by_load):
            for light in by_load:
                if self._load[heavy] - self._load[light] < 2:
                    break
                if self._move_one(heavy, light):
                    return True
        return False

    def _move_one(self, heavy: int, light: int) -> bool:
        able = [
            name
            for name, replicas in self.replicas.items()
            if heavy in replicas and light not in replicas and self._may_replace(replicas, heavy, light)
        ]
        if not able:
            return False
        name = max(able, key=lambda each: self._topic_load[each.topic, heavy] - self._topic_load[each.topic, light])
        self._put(name, self.replicas[name].index(heavy), light)
        return True

    def _may_replace(self, replicas: list[int], old: int, new: int) -> bool:
        """Returns whether the replicas are in as many racks afterwards."""
        others = {self._racks[each] for each in replicas if each != old}
        return self._racks[new] == self._racks[old] or self._racks[new] not in others or self._racks[old] in others

    # ---- leaders

    def balance_leaders(self) -> None:
        """Exchanges the first replica of partitions until nobody is preferred for two more than another."""
        leads = Counter(dict.fromkeys(self._racks, 0)) + Counter(each[0] for each in self.replicas.values() if each)
        counts = {broker_id: leads[broker_id] for broker_id in self._racks}
        while True:
            for heavy in sorted(counts, key=lambda each: (-counts[each], each)):
                path = self._way_to_fewer(heavy, counts)
                if path:
                    break
            else:
                return
            counts[heavy] -= 1
            counts[path[-1][1]] += 1
            for name, broker_id in path:
                _prefer(self.replicas[name], broker_id)

    def _way_to_fewer(self, heavy: int, counts: Mapping[int, int]) -> list[tuple[TopicPartition, int]]:
        """Returns the partitions to give on, each with its next leader, from a broker to one that leads two fewer."""
        led: dict[int, list[TopicPartition]] = {}
        for name, replicas in self.replicas.items():
            led.setdefault(replicas[0], []).append(name)
        came_from: dict[int, tuple[int, TopicPartition]] = {}
        waiting = deque([heavy])
        while waiting:
            broker_id = waiting.popleft()
            if counts[heavy] - counts[broker_id] >= 2:
                path = []
                while broker_id != heavy:
                    previous, name = came_from[broker_id]
                    path.append((name, broker_id))
                    broker_id = previous
                return path[::-1]
            for name in led.get(broker_id, ()):
                for other in self.replicas[name][1:]:
                    if other != heavy and other not in came_from:
                        came_from[other] = (broker_id, name)
                        waiting.append(other)
        return []


def _prefer(replicas: list[int], broker_id: int) -> None:
    replicas.remove(broker_id)
    replicas.insert(0, broker_id)


Plan = dict[TopicPartition, tuple[int, ...]]


def spread_evenly(
    assignments: Mapping[TopicPartition, Sequence[int]], racks: Racks, replication_factor: int | None = None
) -> Plan:
    """Returns all replicas as they should be."""
    spread = Spread(assignments, racks)
    if replication_factor is not None:
        for name in spread.replicas:
            spread.resize(name, replication_factor)
    spread.leave({each for replicas in assignments.values() for each in replicas} - racks.keys())
    spread.use_all_racks()
    spread.balance()
    spread.balance_leaders()
    return _changed(assignments, spread)


def drained(assignments: Mapping[TopicPartition, Sequence[int]], racks: Racks, broker_id: int) -> Plan:
    """Returns where the replicas of a broker should go; `racks` has the others. Nothing else moves."""
    spread = Spread(assignments, racks)
    spread.leave({broker_id})
    return _changed(assignments, spread)


def _changed(assignments: Mapping[TopicPartition, Sequence[int]], spread: Spread) -> Plan:
    return {
        name: tuple(replicas)
        for name, replicas in spread.replicas.items()
        if tuple(assignments[name]) != tuple(replicas)
    }
