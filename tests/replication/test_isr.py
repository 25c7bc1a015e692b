"""What a leader makes of its followers' fetches: what is committed, who is in sync, and what it asks for."""

from collections.abc import Mapping, Sequence

import pytest

from barnabas.replication.isr import InSyncReplicas
from barnabas.replication.metadata.image import PartitionImage

LEADER, NEAR, FAR = 1, 2, 3
EPOCHS = {NEAR: 20, FAR: 30}
LAG_MS = 30_000
START_MS = 1_000_000
UNKNOWN = -1


class Brokers:
    def __init__(self, epochs: Mapping[int, int]) -> None:
        self.epochs = dict(epochs)

    def active_epoch(self, broker_id: int) -> int | None:
        return self.epochs.get(broker_id)


class Leader:
    """The replicas of a partition, as its leader knows them. Its log has 10 records when its epoch begins."""

    def __init__(self, isr: Sequence[int], *, log_end_offset: int = 10, min_in_sync: int = 1) -> None:
        self.brokers = Brokers(EPOCHS)
        self.replicas = InSyncReplicas(LEADER, self.brokers, lag_max_ms=LAG_MS)
        self.now_ms = START_MS
        self.log_end_offset = log_end_offset
        self.min_in_sync = min_in_sync
        self.image = PartitionImage(LEADER, 5, 7, (LEADER, NEAR, FAR), tuple(isr))
        assert self.replicas.adopt(self.image, log_end_offset, self.now_ms)
        self.replicas.own_offset = log_end_offset

    def append(self, count: int) -> None:
        self.log_end_offset += count
        self.replicas.own_offset = self.log_end_offset

    def fetched(self, replica: int, offset: int, *, after_ms: int = 0, broker_epoch: int | None = None) -> None:
        self.now_ms += after_ms
        follower = self.replicas.followers[replica]
        follower.fetched(offset, self.log_end_offset, self.now_ms)
        follower.broker_epoch = EPOCHS[replica] if broker_epoch is None else broker_epoch

    @property
    def high_watermark(self) -> int:
        return self.replicas.high_watermark(self.min_in_sync, self.log_end_offset, self.now_ms)


# ---- what is committed


@pytest.mark.parametrize(
    ("isr", "fetched", "high_watermark"),
    [
        ([LEADER], {}, 10),  # nobody else has to have it
        ([LEADER, NEAR], {NEAR: 7}, 7),  # the slowest in-sync replica decides
        ([LEADER, NEAR, FAR], {NEAR: 7, FAR: 4}, 4),
        ([LEADER, NEAR], {NEAR: 7, FAR: 4}, 7),  # one that is out of sync, and far behind, holds nobody up
        ([LEADER, NEAR], {}, UNKNOWN),  # a member that has not fetched so far may have nothing
    ],
)
def test_the_high_watermark_is_what_every_in_sync_replica_has(
    isr: list[int], fetched: dict[int, int], high_watermark: int
) -> None:
    leader = Leader(isr)
    for replica, offset in fetched.items():
        leader.fetched(replica, offset)
    assert leader.high_watermark == high_watermark


def test_the_leaders_own_share_counts_like_any_other() -> None:
    leader = Leader([LEADER, NEAR])
    leader.replicas.own_offset = 6  # what is on its disk
    leader.fetched(NEAR, 10)
    assert leader.high_watermark == 6


@pytest.mark.parametrize(("isr", "high_watermark"), [([LEADER], UNKNOWN), ([LEADER, NEAR], 10)])
def test_nothing_is_committed_while_too_few_are_in_sync(isr: list[int], high_watermark: int) -> None:
    leader = Leader(isr, min_in_sync=2)
    leader.fetched(NEAR, 10)
    assert leader.high_watermark == high_watermark
    assert leader.replicas.are_too_few(2) == (high_watermark == UNKNOWN)


def test_a_topic_cannot_ask_for_more_replicas_than_it_has() -> None:
    assert not Leader([LEADER, NEAR, FAR]).replicas.are_too_few(4)


def test_one_that_is_about_to_join_holds_the_high_watermark_until_it_lags() -> None:
    leader = Leader([LEADER, NEAR])
    leader.fetched(NEAR, 10)
    leader.fetched(FAR, 10)
    leader.append(5)
    leader.fetched(NEAR, 15)
    assert leader.high_watermark == 10, "it would otherwise race ahead of one that has all but the last records"
    leader.fetched(NEAR, 15, after_ms=LAG_MS + 1)
    assert leader.high_watermark == 15


# ---- who joins


def test_a_follower_joins_when_it_has_all_that_is_committed() -> None:
    leader = Leader([LEADER, NEAR])
    leader.fetched(FAR, 10)
    change = leader.replicas.propose_expansion(FAR, 10)
    assert change is not None
    assert (change.isr, change.leader_epoch, change.partition_epoch) == ((LEADER, NEAR, FAR), 5, 7)
    assert change.broker_epochs == (-1, -1, EPOCHS[FAR])
    assert leader.replicas.maximal_isr == (LEADER, NEAR, FAR)


@pytest.mark.parametrize(
    ("offset", "high_watermark", "why_not"),
    [
        (9, 8, "it lacks the records of the leader's predecessor: it has not reached the start of the epoch"),
        (11, 12, "it lacks records that are committed"),
    ],
)
def test_a_follower_that_lacks_records_does_not_join(offset: int, high_watermark: int, why_not: str) -> None:
    leader = Leader([LEADER])
    leader.append(5)
    leader.fetched(FAR, offset)
    assert leader.replicas.propose_expansion(FAR, high_watermark) is None, why_not


@pytest.mark.parametrize(
    ("epoch", "broker_epoch"),
    [
        (None, 30),  # fenced, shutting down, or not registered
        (31, 30),  # it has registered again since: it may have lost its disk (KIP-903)
        (30, 31),  # the leader's metadata are older than the follower's life
        (30, -1),
    ],
)
def test_a_follower_joins_only_in_the_life_that_the_cluster_knows(epoch: int | None, broker_epoch: int) -> None:
    leader = Leader([LEADER])
    leader.brokers.epochs = {} if epoch is None else {FAR: epoch}
    leader.fetched(FAR, 10, broker_epoch=broker_epoch)
    assert leader.replicas.propose_expansion(FAR, 10) is None


def test_one_change_at_a_time_is_asked_for() -> None:
    leader = Leader([LEADER])
    leader.fetched(NEAR, 10)
    leader.fetched(FAR, 10)
    change = leader.replicas.propose_expansion(NEAR, 10)
    assert change is not None
    assert leader.replicas.propose_expansion(FAR, 10) is None
    assert leader.replicas.propose_shrinking(10, leader.now_ms + 2 * LAG_MS) is None
    assert leader.replicas.committed(change, (LEADER, NEAR), partition_epoch=8)
    assert leader.replicas.isr == (LEADER, NEAR)
    following = leader.replicas.propose_expansion(FAR, 10)
    assert following is not None
    assert following.partition_epoch == 8


# ---- who leaves


def test_a_follower_that_has_fallen_behind_leaves() -> None:
    leader = Leader([LEADER, NEAR, FAR])
    leader.append(5)
    leader.fetched(NEAR, 15, after_ms=LAG_MS)
    leader.fetched(FAR, 12, after_ms=1)
    assert leader.replicas.propose_shrinking(leader.log_end_offset, leader.now_ms - 1) is None
    change = leader.replicas.propose_shrinking(leader.log_end_offset, leader.now_ms)
    assert change is not None
    assert change.isr == (LEADER, NEAR)


def test_a_follower_that_asks_for_what_was_the_end_at_its_fetch_before_keeps_pace() -> None:
    leader = Leader([LEADER, NEAR])
    for _ in range(5):
        end = leader.log_end_offset
        leader.append(3)
        leader.fetched(NEAR, end, after_ms=LAG_MS)
    assert leader.replicas.propose_shrinking(leader.log_end_offset, leader.now_ms) is None


def test_one_that_is_asked_to_leave_counts_until_the_controller_has_agreed() -> None:
    leader = Leader([LEADER, NEAR])
    leader.fetched(NEAR, 10)
    leader.append(5)
    leader.now_ms += 2 * LAG_MS
    change = leader.replicas.propose_shrinking(leader.log_end_offset, leader.now_ms)
    assert change is not None
    assert leader.high_watermark == 10
    assert leader.replicas.committed(change, (LEADER,), partition_epoch=8)
    assert leader.high_watermark == 15


# ---- answers and metadata


def test_an_answer_that_the_metadata_have_overtaken_changes_nothing() -> None:
    leader = Leader([LEADER])
    leader.fetched(NEAR, 10)
    change = leader.replicas.propose_expansion(NEAR, 10)
    assert change is not None
    assert leader.replicas.adopt(leader.image._replace(isr=(LEADER, FAR), partition_epoch=9), 10, leader.now_ms)
    assert not leader.replicas.committed(change, (LEADER, NEAR), partition_epoch=8)
    assert leader.replicas.isr == (LEADER, FAR)


def test_metadata_that_an_answer_has_overtaken_change_nothing() -> None:
    leader = Leader([LEADER])
    leader.fetched(NEAR, 10)
    change = leader.replicas.propose_expansion(NEAR, 10)
    assert change is not None
    assert leader.replicas.committed(change, (LEADER, NEAR), partition_epoch=9)
    assert not leader.replicas.adopt(leader.image._replace(partition_epoch=8), 10, leader.now_ms)
    assert leader.replicas.isr == (LEADER, NEAR)


def test_metadata_that_tell_what_an_answer_told_leave_the_change_that_was_asked_for_since() -> None:
    leader = Leader([LEADER])
    leader.fetched(NEAR, 10)
    first = leader.replicas.propose_expansion(NEAR, 10)
    assert first is not None
    assert leader.replicas.committed(first, (LEADER, NEAR), partition_epoch=8)
    leader.fetched(FAR, 10)
    second = leader.replicas.propose_expansion(FAR, 10)
    assert leader.replicas.adopt(leader.image._replace(isr=(LEADER, NEAR), partition_epoch=8), 10, leader.now_ms)
    leader.append(1)
    leader.fetched(NEAR, 11, after_ms=LAG_MS + 1)
    assert (leader.replicas.proposed, leader.high_watermark) == (second, 10), "the controller may have let it join"


def test_a_refused_change_leaves_what_is_committed() -> None:
    leader = Leader([LEADER])
    leader.fetched(NEAR, 10)
    change = leader.replicas.propose_expansion(NEAR, 10)
    assert change is not None
    leader.replicas.refused(change)
    assert leader.replicas.maximal_isr == (LEADER,)
    assert leader.replicas.propose_expansion(NEAR, 10) is not None


def test_what_followers_told_in_another_epoch_does_not_count() -> None:
    leader = Leader([LEADER, NEAR])
    leader.fetched(NEAR, 10)
    assert leader.high_watermark == 10
    leader.replicas.adopt(leader.image._replace(leader_epoch=6, partition_epoch=8), 10, leader.now_ms)
    assert leader.high_watermark == UNKNOWN
    assert leader.replicas.propose_shrinking(10, leader.now_ms + LAG_MS) is None, "an in-sync replica gets its time"


def test_the_log_starts_where_every_living_replica_starts() -> None:
    leader = Leader([LEADER, NEAR, FAR])
    for replica, start in ((NEAR, 4), (FAR, 2)):
        leader.replicas.followers[replica].log_start_offset = start
    assert leader.replicas.low_watermark(5) == 2
    leader.brokers.epochs = {NEAR: 20}
    assert leader.replicas.low_watermark(5) == 4
