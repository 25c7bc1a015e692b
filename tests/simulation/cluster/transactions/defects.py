"""Defects of transactions that are planted in whole brokers, one at a time, as somebody might make them by mistake.

The list is the one that the project began with; each row says which invariants may notice it, in which profile, and
within how many seeds.
"""

from barnabas.broker.transactions import rules
from barnabas.broker.transactions.flushed_first import FlushedFirst
from barnabas.broker.transactions.markers.sender import MarkerSender
from barnabas.storage.opening.recovery import LogLoader
from barnabas.storage.producer_state import ProducerState
from tests.simulation.cluster.defects.planted import Defect
from tests.simulation.cluster.defects.plants import replaced
from tests.simulation.cluster.settings import Settings
from tests.simulation.cluster.transactions import late_marker, plants, power

TRANSACTIONAL = Settings(
    replication_factor=3,
    min_insync_replicas=2,
    producers=1,
    interval_ms=300,
    admin_interval_ms=3_000,
    session_timeout_ms=2_000,
    heartbeat_interval_ms=500,
    lag_time_max_ms=700,
    transactional=2,
    copiers=1,
    old_rules=1,
    faults=40,
)
"""Clients of both versions, one that copies, and leaders who lose patience soon."""
PATIENT = TRANSACTIONAL._replace(lag_time_max_ms=30_000)
"""Followers that cannot be reached stay in sync for long, and hold up what is to be committed."""
V1 = TRANSACTIONAL._replace(old_rules=3, transactional=3, copiers=0)
V2 = TRANSACTIONAL._replace(old_rules=0)
ALONE = TRANSACTIONAL._replace(brokers=1, voters=1, replication_factor=1, min_insync_replicas=1, segment_bytes=600)
"""One broker, whose logs have many segments: what it has lost nobody else has."""
LEADERS_CHANGE = ("kill", "elect", "isolate", "pause")

DEFECTS: dict[str, Defect] = {
    "markers leave before the decision is committed": Defect(
        plants.markers_leave_before_the_decision_is_committed,
        ("TI1", "TI3", "TI8"),
        ("cut both ways", "kill"),
        PATIENT._replace(transaction_timeout_ms=1_000),
        seeds=20,
    ),
    "markers leave before the decision is on the disk": Defect(
        replaced(FlushedFirst, "send", plants.sent_at_once), ("TI1",), seeds=100, simulate=power.simulate
    ),
    "the next producer id is not stored": Defect(
        plants.the_next_producer_id_is_not_stored,
        ("TI9",),
        ("cut both ways", "kill"),
        V2._replace(first_producer_epoch=32_764, transactions_of_an_id=3, transaction_timeout_ms=15_000),
        seeds=20,
    ),
    "who has expired is fenced": Defect(
        plants.who_has_expired_is_fenced, ("TI9",), (), V1._replace(id_expiration_ms=1_000)
    ),
    "an end is answered when it is appended": Defect(
        plants.ends_are_answered_at_once, ("TI3",), ("cut both ways", "kill"), PATIENT, seeds=20
    ),
    "a transaction is complete with its first marker": Defect(
        replaced(MarkerSender, "_done", plants.done_with_the_first),
        ("TI4", "TI5", "TI8"),
        LEADERS_CHANGE,
        TRANSACTIONAL._replace(replication_factor=1, min_insync_replicas=1),
    ),
    "the epoch before is as good as the present one": Defect(
        plants.retries_are_taken_for_requests, ("TI4", "TI1", "TI3", "TI9"), ("stall", "connection cut"), V2
    ),
    "any guard will do": Defect(
        replaced(ProducerState, "_check_guard", plants.any_guard_will_do), ("TI4", "TI5"), ("stall",), V1
    ),
    "former coordinators are obeyed": Defect(
        plants.former_coordinators_are_obeyed, ("TI3", "TI4"), seeds=4, simulate=late_marker.simulate
    ),
    "a marker is taken once": Defect(plants.a_marker_is_taken_once, ("TI8",), ("connection cut", "kill", "elect"), V2),
    "what is marked is stable": Defect(plants.what_is_marked_is_stable, ("TI3", "TI6"), LEADERS_CHANGE, TRANSACTIONAL),
    "snapshots forget what is open": Defect(
        plants.snapshots_forget_what_is_open, ("TI2", "TI3", "TI6"), ("kill", "clean stop"), ALONE
    ),
    "recovery keeps the rows that are there": Defect(
        replaced(LogLoader, "_replace_aborted", plants.keep_the_rows_that_are_there), ("TI2",), ("power cut",), ALONE
    ),
    "the list of aborted transactions begins one marker too early": Defect(
        plants.rows_begin_one_marker_too_early, ("TI2",), (), TRANSACTIONAL
    ),
    "of two committed offsets that of the transaction is in force": Defect(
        plants.the_last_commit_wins, ("TI7",), ("kill",), TRANSACTIONAL
    ),
    "what takes too long is aborted in its epoch": Defect(
        replaced(rules, "fence", plants.abort_in_the_same_epoch),
        ("TI1", "TI3", "TI4", "TI5"),
        ("pause", "isolate", "stall"),
        TRANSACTIONAL._replace(transaction_timeout_ms=1_000),
    ),
}

IN_EVERY_TEST_RUN = [what for what, defect in DEFECTS.items() if defect.seeds <= 5]
"""Those that are found in a second or two."""
