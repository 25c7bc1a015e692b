"""Defects that are planted in whole brokers, one at a time: a simulation that finds none of them proves nothing.

Each is a small change of the real code, as somebody might make it by mistake. A row says which invariants may notice
it, in which profile, and within how many seeds. What only the quorum can do wrong is in `quorum/test_defects.py`.
"""

from collections.abc import Callable
from typing import NamedTuple

from barnabas.broker.coordinator.shard_runtime import ShardRuntime
from barnabas.broker.fetchers.followed_partition import FollowedPartition
from barnabas.broker.handlers.replica_fetch import _ReplicaFetch
from barnabas.broker.replicas.leader import LeaderPartition
from barnabas.broker.replicas.partition import Partition
from barnabas.protocol.errors import ErrorCode
from barnabas.replication.controller.partitions import alter_partition_control, circumstances
from barnabas.replication.isr import InSyncReplicas
from barnabas.storage import producer_snapshot, validation
from barnabas.storage.leader_epochs import LeaderEpochs
from barnabas.storage.log import Log
from tests.simulation.cluster.defects import plants
from tests.simulation.cluster.defects.plants import Plant, replaced
from tests.simulation.cluster.plan import plan_of
from tests.simulation.cluster.runs import Outcome, outcome_of
from tests.simulation.cluster.settings import Settings
from tests.simulation.cluster.shrinking import reason_of

REPLICATED = Settings(
    replication_factor=3,
    min_insync_replicas=2,
    interval_ms=100,
    admin_interval_ms=2_000,
    session_timeout_ms=2_000,
    heartbeat_interval_ms=500,
    lag_time_max_ms=700,
    faults=30,
)
"""Three replicas of everything, and leaders who lose patience soon. The kinds of fault are the defect's."""
RESTLESS = REPLICATED._replace(
    faults=60, interval_ms=50, producers=6, admin_interval_ms=3_000, election_timeout_ms=400, fetch_timeout_ms=800
)
"""The same with twice as many faults and records: leaders change while followers still cut their logs."""
GROUPS = REPLICATED._replace(members=2, producers=2, interval_ms=200)
LEADERS_CHANGE = ("kill", "elect", "isolate", "pause", "power cut")


class Defect(NamedTuple):
    plant: Callable[[], Plant]
    found_by: tuple[str, ...]
    kinds: tuple[str, ...] = ("kill",)
    settings: Settings = REPLICATED
    seeds: int = 5
    simulate: Callable[[int], None] | None = None
    """A world of its own, where that of many brokers is not the one to look in."""


DEFECTS: dict[str, Defect] = {
    "a leader commits what only it has": Defect(
        replaced(InSyncReplicas, "high_watermark", lambda self, *_: self.own_offset), ("I13",)
    ),
    "a majority commits, not those in sync": Defect(
        replaced(InSyncReplicas, "high_watermark", plants.high_watermark_of_a_majority), ("I10", "I13")
    ),
    "a follower acknowledges what is not on its disk": Defect(plants.what_is_not_on_the_disk_is_acknowledged, ("I13",)),
    "too few are enough": Defect(replaced(InSyncReplicas, "are_too_few", lambda *_: False), ("I12",), ("isolate",)),
    "a controller believes old leaders": Defect(
        replaced(alter_partition_control, "_why_refused", lambda *_: ErrorCode.NONE),
        ("I16", "I17"),
        ("kill", "isolate"),
        seeds=20,
    ),
    "anybody is elected": Defect(
        replaced(circumstances, "allows_unclean_elections", lambda *_: True), ("I18",), ("kill", "wipe", "isolate")
    ),
    "a follower cuts its log at its high watermark": Defect(
        replaced(FollowedPartition, "truncate", plants.cut_at_the_high_watermark),
        ("I9", "I10", "I13", "L3"),  # it never gets to where it could go on
        LEADERS_CHANGE,
        RESTLESS,
        seeds=20,
    ),
    "a leader does not see where logs part": Defect(
        replaced(_ReplicaFetch, "_diverging_epoch", staticmethod(lambda *_: None)),
        ("I9", "I10", "I13", "I15"),
        LEADERS_CHANGE,
        RESTLESS,
        seeds=20,
    ),
    "epochs are not cut with the log": Defect(
        replaced(LeaderEpochs, "truncate_from_end", lambda *_: None),
        ("I9", "I10", "I13", "L3"),  # leader and follower never agree on where they part
        LEADERS_CHANGE,
        RESTLESS,
        seeds=20,
    ),
    "the offsets of a log that parts are taken": Defect(
        plants.offsets_of_a_log_that_parts_are_taken, ("I9", "I13", "I14"), ("kill", "isolate"), seeds=20
    ),
    "who is about to leave counts no more": Defect(
        replaced(InSyncReplicas, "maximal_isr", property(plants.proposed_isr)),
        ("I10", "I12", "I13"),
        ("isolate", "pause"),
    ),
    "a leader that leads no more acknowledges": Defect(
        replaced(LeaderPartition, "fail", plants.acknowledge_all_that_waits),
        ("I11", "I12", "I14", "I19"),
        ("isolate", "pause"),
    ),
    "a commit is answered when it is appended": Defect(
        replaced(ShardRuntime, "_when_committed", plants.answer_at_once), ("I19",), ("isolate", "kill", "pause"), GROUPS
    ),
    "the mark of a clean stop stays": Defect(
        plants.clean_marks_stay, ("I10", "I13", "I22", "L3"), ("clean stop", "power cut", "kill"), RESTLESS, seeds=20
    ),
    "a controller sees only what is committed": Defect(
        plants.what_is_not_committed_is_not_seen,
        ("I16", "I17", "I20"),
        settings=REPLICATED._replace(calm_ms=10_000),  # the start itself takes its time
    ),
    "a leader serves followers of any epoch": Defect(
        replaced(Partition, "check_leader_epoch", lambda *_: None),
        ("I9", "I14", "I16"),
        ("reassign", "pause", "elect"),
        REPLICATED._replace(brokers=4),
    ),
    "who reaches the high watermark joins": Defect(
        plants.who_reaches_the_high_watermark_joins, ("I10",), LEADERS_CHANGE, RESTLESS, 20
    ),
    "nobody asks who joins": Defect(plants.nobody_asks_who_joins, ("I17",), ("cut one way", "cut both ways")),
    "whoever is left acknowledges": Defect(plants.whoever_is_left_acknowledges, ("I11", "I12"), ("isolate",)),
    "producers are not cut with the log": Defect(
        plants.producers_are_not_cut, ("I11", "I12", "I15"), LEADERS_CHANGE, RESTLESS, 20
    ),
    "a snapshot has one batch of each producer": Defect(
        replaced(producer_snapshot, "_rows_of", plants.row_of_the_last_batch),
        ("I11",),
        ("clean stop",),
        RESTLESS,
        seeds=20,
    ),
    "a cut segment goes on": Defect(plants.a_cut_segment_goes_on, ("I9", "I14"), LEADERS_CHANGE, RESTLESS, 20),
    "a follower takes what it gets": Defect(
        replaced(validation, "check_batches", plants.take_as_they_are),
        ("I9", "I14"),
        ("rot", "wipe", "elect", "kill"),
        seeds=20,
    ),
    "a replica that gets company forgets what it committed": Defect(
        replaced(Log, "note_high_watermark", lambda *_: None),
        ("I10", "I13"),
        ("kill", "reassign"),
        REPLICATED._replace(replication_factor=1),
        seeds=20,
    ),
    "who closes a connection is dead": Defect(plants.links_are_lives, ("I24", "L7"), ("connection cut",), seeds=20),
    "a session keeps a leader that leads no more": Defect(
        plants.sessions_keep_their_leader, ("I9", "I10", "I13", "I16"), LEADERS_CHANGE, RESTLESS, 20
    ),
}


IN_EVERY_TEST_RUN = [what for what, defect in DEFECTS.items() if defect.seeds <= 5]
"""Those that are found in a second or two."""


def profile_passes(defect: Defect, seeds: int) -> bool:
    """Returns whether nothing fails where the defect is not planted."""
    return all(_outcome_of(defect, seed).reason is None for seed in range(seeds))


def first_failure(defect: Defect) -> Outcome | None:
    """Plants the defect. Returns the first run that fails, if there is one within its seeds."""
    with defect.plant():
        for seed in range(defect.seeds):
            outcome = _outcome_of(defect, seed)
            if outcome.reason is not None:
                return outcome
    return None


def _outcome_of(defect: Defect, seed: int) -> Outcome:
    if defect.simulate is None:
        return outcome_of(plan_of(seed, defect.settings._replace(kinds=defect.kinds)))
    try:
        defect.simulate(seed)
    except Exception as error:
        return Outcome(seed, 0, 0, "", reason_of(error), str(error).partition("\n")[0])
    return Outcome(seed, 0, 0, "")
