"""Balances a group whose members are subscribed to different topics.

1. Every member keeps what it has of the topics it is still subscribed to.
2. What nobody has is given, topic by topic, to the subscriber that has the least. Topics with many partitions for each
   subscriber come first: the others can even out later what those leave uneven.
3. Topic by topic partitions move from the subscriber with the most to the one with the least, until these two differ
   by one at most; and again over all topics while that changes anything.

Step 3 finds the best balance where the subscribers of a topic all have the same subscriptions. Where subscriptions
overlap in part it comes close: each round about halves what is uneven, and the number of rounds is bounded.
"""

from collections.abc import Collection
from heapq import heapify, heappop, heapreplace

from barnabas.broker.groups.assignors.assignor import GroupAssignment, GroupSpec, PartitionCount
from barnabas.broker.groups.assignors.ownership import retained, size_of, unowned, with_added
from barnabas.protocol.types import Uuid

MAX_ROUNDS = 16


def assign(spec: GroupSpec, partition_count: PartitionCount) -> GroupAssignment:
    balancer = _Balancer(spec, partition_count)
    balancer.assign_unowned()
    balancer.balance()
    return balancer.assignment


class _Balancer:
    def __init__(self, spec: GroupSpec, partition_count: PartitionCount) -> None:
        subscribers: dict[Uuid, list[str]] = {}
        for member_id, member in spec.members.items():
            for topic_id in member.topic_ids:
                subscribers.setdefault(topic_id, []).append(member_id)
        counts = {topic_id: max(partition_count(topic_id), 0) for topic_id in subscribers}
        self._subscribers = {
            topic_id: subscribers[topic_id]
            for topic_id in sorted(
                subscribers,
                key=lambda topic_id: (
                    -counts[topic_id] / len(subscribers[topic_id]),
                    len(subscribers[topic_id]),
                    topic_id,
                ),
            )
        }
        self._counts = counts
        self.assignment: GroupAssignment = {
            member_id: retained(member, counts) for member_id, member in spec.members.items()
        }
        self._sizes = {member_id: size_of(partitions) for member_id, partitions in self.assignment.items()}

    def assign_unowned(self) -> None:
        free = unowned(self.assignment.values(), self._counts)
        for topic_id in self._subscribers:
            if topic_id in free:
                self._give(topic_id, free[topic_id])

    def balance(self) -> None:
        if _is_even(self._sizes.values()):
            return
        topics = [topic_id for topic_id, subscribers in self._subscribers.items() if len(subscribers) > 1]
        unchanged = 0
        for _ in range(MAX_ROUNDS):
            for topic_id in topics:
                unchanged = 0 if self._balance_topic(topic_id) else unchanged + 1
                if unchanged == len(topics):
                    return

    def _give(self, topic_id: Uuid, partitions: list[int]) -> None:
        takers = self._by_size(topic_id)
        added: dict[str, list[int]] = {}
        for partition in partitions:
            size, rank, member_id = takers[0]
            added.setdefault(member_id, []).append(partition)
            heapreplace(takers, (size + 1, rank, member_id))
        for member_id, more in added.items():
            self.assignment[member_id] = with_added(self.assignment[member_id], {topic_id: more})
            self._sizes[member_id] += len(more)

    def _balance_topic(self, topic_id: Uuid) -> bool:
        """Moves partitions of one topic. Returns whether any moved.

        Both heaps hold every subscriber, and a move updates only the entry it came from. That suffices: as long as two
        members differ by more than one, the giver has not become the smallest, nor the taker the largest.
        """
        if _is_even([self._sizes[member_id] for member_id in self._subscribers[topic_id]]):
            return False
        takers = self._by_size(topic_id)
        owned = {member_id: sorted(self.assignment[member_id].get(topic_id, ())) for _, _, member_id in takers}
        givers = [(-size, -rank, member_id) for size, rank, member_id in takers if owned[member_id]]
        heapify(givers)
        moved: dict[str, list[int]] = {}
        while givers:
            negative_size, negative_rank, giver = givers[0]
            size, rank, taker = takers[0]
            if -negative_size - size <= 1:
                break
            moved.setdefault(taker, []).append(owned[giver].pop())
            heapreplace(takers, (size + 1, rank, taker))
            if owned[giver]:
                heapreplace(givers, (negative_size + 1, negative_rank, giver))
            else:
                heappop(givers)
        for taker, partitions in moved.items():
            owned[taker] += partitions
        if moved:
            self._settle(topic_id, owned)
        return bool(moved)

    def _settle(self, topic_id: Uuid, owned: dict[str, list[int]]) -> None:
        for member_id, partitions in owned.items():
            before = self.assignment[member_id].get(topic_id, frozenset())
            after = frozenset(partitions)
            if before == after:
                continue
            self._sizes[member_id] += len(after) - len(before)
            rest = {topic: kept for topic, kept in self.assignment[member_id].items() if topic != topic_id}
            self.assignment[member_id] = {**rest, topic_id: after} if after else rest

    def _by_size(self, topic_id: Uuid) -> list[tuple[int, int, str]]:
        """Returns (size, rank, member id) of the topic's subscribers, the one with the least first. This is a heap."""
        ordered = sorted(self._subscribers[topic_id], key=self._sizes.__getitem__)
        return [(self._sizes[member_id], rank, member_id) for rank, member_id in enumerate(ordered)]


def _is_even(sizes: Collection[int]) -> bool:
    return max(sizes) - min(sizes) <= 1
