"""What the active controller looks at from time to time: leaders that are not the preferred ones, and partitions that
have none. Pure: time is handed in.

Rules:
- Every `leader.imbalance.check.interval.seconds` the first replica of each partition leads again, where it can and
  `auto.leader.rebalance.enable` says so. A broker must have been there for a while: clients stay away from one that has
  just restarted, and its caches are cold. Kafka does not wait.
- Every `unclean.leader.election.interval.ms` partitions without a leader take any replica that is alive, where the
  topic allows it: its configuration may have changed since the last leader was lost.
- A check elects `ELECTIONS_MAX` leaders at most. If there may be more, the next one is due a moment later.
"""

from collections.abc import Callable, Iterator
from itertools import islice

from barnabas.protocol.errors import KafkaError
from barnabas.protocol.stored.metadata_records import PartitionChangeRecord
from barnabas.replication.controller.broker_sessions import BrokerSessions
from barnabas.replication.controller.partitions.circumstances import allows_unclean_elections
from barnabas.replication.controller.partitions.leader_control import elected
from barnabas.replication.controller.partitions.partition_changes import Election
from barnabas.replication.controller.settings import ControllerSettings
from barnabas.replication.metadata.image import NO_LEADER, MetadataImage

ELECTIONS_MAX = 1_000
SETTLED_MS = 300_000
MOMENT_MS = 100


class LeaderChecks:
    """When each check is due, and what it decides then."""

    def __init__(self, settings: ControllerSettings, *, now_ms: int) -> None:
        self._preferred_due_ms = now_ms + settings.leader_imbalance_check_interval_ms
        self._unclean_due_ms = now_ms + settings.unclean_leader_election_interval_ms

    @property
    def due_ms(self) -> int:
        return min(self._preferred_due_ms, self._unclean_due_ms)

    def check(
        self, image: MetadataImage, settings: ControllerSettings, sessions: BrokerSessions, *, now_ms: int
    ) -> list[PartitionChangeRecord]:
        """Returns the records of a check that is due; none if none is."""
        if now_ms >= self._unclean_due_ms:
            records = list(islice(_unclean_elections(image, settings), ELECTIONS_MAX))
            self._unclean_due_ms = _next(now_ms, settings.unclean_leader_election_interval_ms, records)
            return records
        if now_ms < self._preferred_due_ms:
            return []

        def is_settled(broker_id: int) -> bool:
            began_ms = sessions.began_ms(broker_id)
            return began_ms is not None and now_ms - began_ms >= SETTLED_MS

        records = []
        if settings.auto_leader_rebalance_enable:
            records = list(islice(_preferred_elections(image, settings, is_settled), ELECTIONS_MAX))
        self._preferred_due_ms = _next(now_ms, settings.leader_imbalance_check_interval_ms, records)
        return records


def _next(now_ms: int, interval_ms: int, records: list[PartitionChangeRecord]) -> int:
    return now_ms + (MOMENT_MS if len(records) >= ELECTIONS_MAX else interval_ms)


def _preferred_elections(
    image: MetadataImage, settings: ControllerSettings, is_settled: Callable[[int], bool]
) -> Iterator[PartitionChangeRecord]:
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            preferred = partition.replicas[0]
            if partition.leader not in (preferred, NO_LEADER) and preferred in partition.isr and is_settled(preferred):
                yield from _election(topic.name, index, Election.PREFERRED, image, settings)


def _unclean_elections(image: MetadataImage, settings: ControllerSettings) -> Iterator[PartitionChangeRecord]:
    for topic in image.topics.values():
        leaderless = [index for index, partition in enumerate(topic.partitions) if partition.leader == NO_LEADER]
        if leaderless and allows_unclean_elections(topic.name, image, settings):
            for index in leaderless:
                yield from _election(topic.name, index, Election.UNCLEAN, image, settings)


def _election(
    topic: str, index: int, election: Election, image: MetadataImage, settings: ControllerSettings
) -> Iterator[PartitionChangeRecord]:
    try:
        yield elected(topic, index, election, image, settings)
    except KafkaError:
        return  # nobody can be elected so far
