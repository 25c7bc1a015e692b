"""What a seed draws before it begins: how large the cluster is, how patient its nodes are, and what goes wrong.

Each kind of fault is on in half of the seeds, so that some seeds have many of one kind and none of the others. One seed
in ten has none at all.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.simulation.scheduler import random_of

KINDS = (
    "kill",
    "power cut",
    "power cut of all",
    "pause",
    "isolate",
    "cut one way",
    "cut both ways",
    "split",
    "ring",
    "heal network",
    "connection cut",
    "stall",
    "refuse connects",
    "slow connects",
    "slow node",
    "clean stop",
    "restart all",
    "full disk",
    "failing disk",
    "slow disk",
    "wipe",
    "wipe all",
    "reassign",
    "configure",
    "recreate",
    "elect",
    "resign",
    "remove voter",
    "add voter",
    "clock jump",
    "rot",
)


class Settings(NamedTuple):
    brokers: int = 3
    voters: int = 3
    session_timeout_ms: int = 9_000
    heartbeat_interval_ms: int = 2_000
    fetch_timeout_ms: int = 2_000
    election_timeout_ms: int = 1_000
    snapshot_bytes: int = 1 << 20
    producers: int = 4
    interval_ms: int = 500
    """Between two batches of a producer, on average."""
    admin_interval_ms: int = 700
    members: int = 0
    """Of each of the two groups."""
    replication_factor: int = 1
    min_insync_replicas: int = 1
    """May be more than there are replicas: then all of these are needed, and more as soon as there are more."""
    has_elr: bool = True
    """Whether those who leave the in-sync replicas below the minimum may still lead."""
    is_unclean: bool = False
    """Whether one of the topics would rather lose records than wait for its leader."""
    lag_time_max_ms: int = 30_000
    fetch_wait_max_ms: int = 500
    """How long a follower that has everything waits for more."""
    segment_bytes: int = 1 << 20
    is_recreated_flushed: bool = True
    """Whether the topic that is deleted and created again is flushed at once."""
    acks_leader: int = 0
    """How many of the producers are content with acks=1."""
    near_readers: bool = False
    """Whether each partition has one more reader, who reads from any replica."""
    transactional: int = 0
    """How many producers send in transactions."""
    copiers: int = 0
    """How many clients copy records and commit what they have read in one transaction."""
    old_rules: int = 0
    """How many of these keep to the rules of transactions of version 1."""
    transactions_of_an_id: int = 1 << 30
    """After how many a client takes another transactional id, as some do for each of their checkpoints."""
    id_expiration_ms: int = 604_800_000
    """After how long coordinators forget a transactional id that nobody uses."""
    transaction_timeout_ms: int = 5_000
    first_producer_epoch: int = 0
    """In which epoch new transactional ids begin: those that reach the last one get another producer id."""
    kinds: tuple[str, ...] = ()
    faults: int = 0
    calm_ms: int = 4_000
    faults_ms: int = 28_000
    heals_all: bool = True
    """Whether everything is mended in the end, or only a majority."""

    @property
    def properties(self) -> Mapping[str, str]:
        return {
            "broker.session.timeout.ms": str(self.session_timeout_ms),
            "broker.heartbeat.interval.ms": str(self.heartbeat_interval_ms),
            "controller.quorum.fetch.timeout.ms": str(self.fetch_timeout_ms),
            "controller.quorum.election.timeout.ms": str(self.election_timeout_ms),
            "metadata.log.max.record.bytes.between.snapshots": str(self.snapshot_bytes),
            "log.flush.interval.messages": "1",
            "offsets.topic.num.partitions": "3",
            "offsets.topic.replication.factor": str(self.replication_factor),
            "min.insync.replicas": str(self.min_insync_replicas),
            "transaction.state.log.num.partitions": "3",
            "transactional.id.expiration.ms": str(self.id_expiration_ms),
            "transaction.remove.expired.transaction.cleanup.interval.ms": str(
                min(self.id_expiration_ms // 2, 3_600_000)
            ),
            "barnabas.transaction.first.producer.epoch": str(self.first_producer_epoch),
            "transaction.state.log.replication.factor": str(self.replication_factor),
            "transaction.state.log.min.isr": str(self.min_insync_replicas),
            "replica.lag.time.max.ms": str(self.lag_time_max_ms),
            "replica.fetch.wait.max.ms": str(self.fetch_wait_max_ms),
            "controller.quorum.auto.join.enable": str("wipe all" in self.kinds).lower(),
            "group.consumer.heartbeat.interval.ms": "2000",
            "group.consumer.session.timeout.ms": "10000",
            "group.consumer.min.session.timeout.ms": "10000",
            "group.consumer.min.heartbeat.interval.ms": "2000",
            "group.initial.rebalance.delay.ms": "500",
        }


def drawn(seed: int, **fixed: Any) -> Settings:
    """Draws the settings of a seed; `fixed` ones are given."""
    random = random_of(seed, "cluster", "settings")
    brokers = random.choice((1, 2, 3, 3, 3, 3, 3, 4, 5))
    session_timeout_ms = random.choice((2_000, 4_000, 9_000))
    lag_time_max_ms = random.choice((700, 3_000, 30_000))
    replication_factor = random.randint(1, brokers) if random.random() < 0.5 else min(brokers, 3)
    settings = Settings(
        brokers=brokers,
        voters=random.choice((1, 3, 3, 3)) if brokers >= 3 else 1,
        session_timeout_ms=session_timeout_ms,
        heartbeat_interval_ms=session_timeout_ms // random.choice((4, 8)),
        fetch_timeout_ms=random.choice((800, 2_000)),
        election_timeout_ms=random.choice((400, 1_000)),
        snapshot_bytes=random.choice((3_000, 1 << 20)),
        producers=random.choice((2, 4, 6)),
        interval_ms=random.choice((200, 500, 1_500)),
        admin_interval_ms=random.choice((300, 1_000, 3_000)),
        members=random.choice((0, 0, 1, 2)),
        kinds=tuple(kind for kind in KINDS if kind != "rot" and random.random() < 0.5),
        faults=0 if random.random() < 0.1 else random.choice((3, 8, 16, 30)),
        heals_all=random.random() < 0.6,
        replication_factor=replication_factor,
        min_insync_replicas=random.randint(1, min(replication_factor, 3)),
        has_elr=random.random() < 0.6,
        is_unclean=random.random() < 0.3,
        lag_time_max_ms=lag_time_max_ms,
        fetch_wait_max_ms=min(random.choice((500, 2_000)), lag_time_max_ms * 2 // 3),
        segment_bytes=random.choice((600, 1 << 20)),
        acks_leader=random.choice((0, 0, 1)),
        is_recreated_flushed=random.random() < 0.5,
    )
    settings = settings._replace(**_more_in_sync_than_there_are(seed, settings) | _transactions(seed))
    if settings.replication_factor > 1 and random_of(seed, "cluster", "rot").random() < 1 / 4:
        settings = settings._replace(kinds=(*settings.kinds, "rot"))
    return settings._replace(**fixed)


def _more_in_sync_than_there_are(seed: int, settings: Settings) -> dict[str, Any]:
    """Draws a `min.insync.replicas` above the number of replicas, in one seed of eight, while replicas come and go."""
    random = random_of(seed, "cluster", "minimum")
    if random.random() >= 1 / 8:
        return {}
    replication_factor = random.choice((1, settings.replication_factor))
    return {
        "replication_factor": replication_factor,
        "min_insync_replicas": replication_factor + random.choice((1, 1, 2)),
        "kinds": tuple(kind for kind in KINDS if kind in settings.kinds or kind == "reassign"),
    }


def _transactions(seed: int) -> dict[str, Any]:
    """Draws who works in transactions: nobody in most of the seeds."""
    random = random_of(seed, "cluster", "transactions")
    if random.random() < 0.6:
        return {}
    transactional, copiers = random.choice(((1, 0), (2, 0), (0, 1), (1, 1)))
    return {
        "transactional": transactional,
        "copiers": copiers,
        "old_rules": random.randint(0, transactional + copiers),
        "transaction_timeout_ms": random.choice((2_000, 5_000, 15_000)),
        "first_producer_epoch": random.choice((0, 32_700, 32_764)),
    }
