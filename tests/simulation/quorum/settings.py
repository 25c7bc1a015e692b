"""What a seed draws before it begins: how large the quorum is, how slow its disks and its network are, what goes wrong.

Each kind of fault is on in half of the seeds, so that some seeds have many of one kind and none of the others (swarm
testing). One seed in ten has none at all.
"""

from random import Random
from typing import NamedTuple

from barnabas.replication.quorum.settings import QuorumConfig

FAULTS = (
    "kill",
    "cut_power",
    "cut_power_of_all",
    "pause",
    "isolate",
    "cut_one_way",
    "heal_network",
    "reset_connection",
    "hit_new_leaders",
    "hit_voters",
    "resign",
    "snapshot",
    "add_voter",
    "remove_voter",
    "wipe",
)


class Settings(NamedTuple):
    voters: int = 3
    observers: int = 0
    kraft_version: int = 1
    config: QuorumConfig = QuorumConfig()
    latency_ms_max: int = 2
    slow_share: float = 0.0
    sync_ms_max: int = 3
    append_interval_ms: int = 40
    fetch_batches_max: int = 5
    piece_bytes: int = 60
    faults: tuple[str, ...] = ()
    faults_count: int = 0
    duration_ms: int = 2_000


def drawn(seed: int, **fixed: object) -> Settings:
    """Draws the settings of a seed; `fixed` ones are given."""
    random = Random(f"{seed}/settings")
    voters = random.choice((1, 2, 3, 3, 3, 3, 4, 5))
    fetch_timeout_ms = random.choice((150, 300, 600))
    config = QuorumConfig(
        election_timeout_ms=fetch_timeout_ms // random.choice((2, 4)),
        fetch_timeout_ms=fetch_timeout_ms,
        election_backoff_max_ms=random.choice((50, 200)),
        retry_backoff_ms=random.choice((5, 20)),
        retry_backoff_max_ms=80,
        response_timeout_ms=random.choice((fetch_timeout_ms // 2, fetch_timeout_ms)),
        fetch_max_wait_ms=fetch_timeout_ms // random.choice((4, 8)),
    )
    settings = Settings(
        voters=voters,
        observers=random.choice((0, 0, 1)) if voters > 3 else random.choice((0, 1, 2)),
        kraft_version=random.choice((0, 1, 1)),
        config=config,
        latency_ms_max=random.choice((0, 1, 2, 8)),
        slow_share=random.choice((0.0, 0.0, 0.02, 0.1)),
        sync_ms_max=random.choice((0, 2, 5, 15)),
        append_interval_ms=random.choice((20, 50, 100)),
        fetch_batches_max=random.choice((1, 3, 100)),
        piece_bytes=random.choice((30, 60, 100)),
        faults=tuple(kind for kind in FAULTS if random.random() < 0.5),
        faults_count=0 if random.random() < 0.1 else random.choice((3, 6, 12, 20)),
        duration_ms=random.choice((600, 1_200)),
    )
    return settings._replace(**fixed)  # type: ignore[arg-type]
