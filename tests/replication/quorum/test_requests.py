"""What a node answers to requests that it cannot serve, error by error; and to those that it can."""

from typing import Any

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumTopic,
)
from barnabas.protocol.stored.quorum_state import QuorumStateData
from barnabas.replication.metadata.image import CLUSTER_METADATA_TOPIC
from barnabas.replication.quorum.core import QuorumCore
from barnabas.replication.quorum.effects import Committed
from barnabas.replication.quorum.exchange.effects import ReadSnapshot, Respond
from barnabas.replication.quorum.log_view import OffsetAndEpoch
from barnabas.replication.quorum.messages import (
    begin_quorum_epoch_request,
    end_quorum_epoch_request,
    fetch_snapshot_request,
    partition_of,
    vote_request,
)
from barnabas.replication.quorum.states import Role
from tests.replication.quorum.cores import (
    CONFIG,
    fetch,
    identity,
    key,
    leader,
    log_of,
    new_core,
    response_to,
    vote,
    voter_set,
)

OTHERS = identity(2)
SNAPSHOT = OffsetAndEpoch(3, 1)
MISDIRECTED = vote_request(OTHERS, key(1, directory=7), 6, OffsetAndEpoch(9, 4), pre_vote=False)


def follower() -> QuorumCore:
    """Node 1 follows node 3 in epoch 5; its log ends at 9 in epoch 4."""
    stored = QuorumStateData(leader_id=3, leader_epoch=5)
    core, _ = new_core(stored, log=log_of((0, 9, 4)))
    return core


def error_of(core: QuorumCore, request: Any) -> ErrorCode:
    response = response_to(core, request)
    partition = partition_of(response)
    return ErrorCode(response.error_code if partition is None else partition.error_code)


def snapshot_request(epoch: int, snapshot: OffsetAndEpoch = SNAPSHOT, position: int = 0) -> Any:
    return fetch_snapshot_request(OTHERS, CONFIG, epoch, snapshot, position)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (vote(4, end=(9, 3)), ErrorCode.FENCED_LEADER_EPOCH),
        (vote(6, end=(9, 6)), ErrorCode.INVALID_REQUEST),  # a log of the epoch that it wants to begin
        (vote(6, end=(9, 7), pre_vote=True), ErrorCode.INVALID_REQUEST),
        (vote(6, end=(9, 6), pre_vote=True), ErrorCode.NONE),
        (vote(6, end=(-1, 4)), ErrorCode.INVALID_REQUEST),
        (
            vote_request(OTHERS, key(1, directory=7), 6, OffsetAndEpoch(9, 4), pre_vote=False),
            ErrorCode.INVALID_VOTER_KEY,
        ),
        (begin_quorum_epoch_request(OTHERS, key(1), 4), ErrorCode.FENCED_LEADER_EPOCH),
        (begin_quorum_epoch_request(OTHERS, key(1, directory=7), 6), ErrorCode.INVALID_VOTER_KEY),
        (begin_quorum_epoch_request(OTHERS, key(1), 6), ErrorCode.NONE),
        (end_quorum_epoch_request(OTHERS, 4, []), ErrorCode.FENCED_LEADER_EPOCH),
        (end_quorum_epoch_request(OTHERS, 6, []), ErrorCode.NONE),
        (fetch(4, 9, 4), ErrorCode.FENCED_LEADER_EPOCH),
        (fetch(6, 9, 4), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (fetch(5, 9, 4), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (fetch(5, 9, 6), ErrorCode.INVALID_REQUEST),  # a record of an epoch that is still to come
        (fetch(5, 9, -1), ErrorCode.INVALID_REQUEST),
        (snapshot_request(4), ErrorCode.FENCED_LEADER_EPOCH),
        (snapshot_request(6), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (snapshot_request(5), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_a_follower_answers(request_: Any, expected: ErrorCode) -> None:
    assert error_of(follower(), request_) == expected


@pytest.mark.parametrize(
    "request_",
    [vote(6), begin_quorum_epoch_request(OTHERS, key(1), 6), end_quorum_epoch_request(OTHERS, 6, []), fetch(5, 9, 4),
     snapshot_request(5)],
    ids=lambda request: type(request).__name__,
)  # fmt: skip
def test_a_request_of_another_cluster_is_refused(request_: Any) -> None:
    request_.cluster_id = "another"
    assert error_of(follower(), request_) == ErrorCode.INCONSISTENT_CLUSTER_ID
    request_.cluster_id = "cluster"


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (snapshot_request(1, OffsetAndEpoch(2, 1)), ErrorCode.SNAPSHOT_NOT_FOUND),
        (snapshot_request(1, OffsetAndEpoch(0, 0)), ErrorCode.SNAPSHOT_NOT_FOUND),  # everybody has a bootstrap snapshot
        (snapshot_request(1, position=100), ErrorCode.POSITION_OUT_OF_RANGE),
        (snapshot_request(1, position=-1), ErrorCode.POSITION_OUT_OF_RANGE),
        (snapshot_request(1, position=99), ErrorCode.NONE),
    ],
)
def test_a_leader_serves_its_snapshots(request_: Any, expected: ErrorCode) -> None:
    core = leader()
    core.receive_request("ack", fetch(1, 3, 1), now_ms=2)
    core.snapshot_taken(SNAPSHOT, 100)
    assert error_of(core, request_) == expected


def test_a_piece_of_a_snapshot_is_read_by_the_shell() -> None:
    core = leader()
    core.receive_request("ack", fetch(1, 3, 1), now_ms=2)
    core.snapshot_taken(SNAPSHOT, 100)
    effects = core.receive_request("piece", snapshot_request(1, position=40), now_ms=3)
    reads = [effect.read for effect in effects if isinstance(effect, Respond)]
    assert reads == [ReadSnapshot(SNAPSHOT, 40, CONFIG.snapshot_max_bytes)]


def test_a_leader_that_shuts_down_alone_is_not_available() -> None:
    core = leader(voter_set(1))
    core.shut_down(now_ms=2)
    assert error_of(core, fetch(1, 3, 1)) == ErrorCode.BROKER_NOT_AVAILABLE


# ---- fetches


def test_a_fetch_waits_for_news_and_the_high_watermark_is_news() -> None:
    core = leader()
    told = core.receive_request("2", fetch(1, 3, 1), now_ms=2)
    assert [effect for effect in told if isinstance(effect, Committed)] == [Committed(3)]
    assert [effect.token for effect in told if isinstance(effect, Respond)] == ["2"]  # KIP-1166
    assert core.receive_request("2", fetch(1, 3, 1, high_watermark=3), now_ms=3) == []
    end_offset, effects = core.append("payload", 2, now_ms=4)
    assert end_offset == 5
    assert [effect.token for effect in effects if isinstance(effect, Respond)] == ["2"]


def test_a_parked_fetch_is_answered_when_its_time_is_over_or_the_leader_is_gone() -> None:
    core = leader()
    core.receive_request("2", fetch(1, 3, 1), now_ms=2)
    core.receive_request("parked", fetch(1, 3, 1, high_watermark=3), now_ms=3)
    late = core.tick(now_ms=3 + CONFIG.fetch_max_wait_ms)
    assert [effect.token for effect in late if isinstance(effect, Respond)] == ["parked"]
    core.receive_request("parked", fetch(1, 3, 1, high_watermark=3), now_ms=600)
    effects = core.receive_request("vote", vote(2, end=(9, 1)), now_ms=601)
    answers = {effect.token: effect.response for effect in effects if isinstance(effect, Respond)}
    parked = partition_of(answers["parked"])
    assert parked is not None
    assert parked.error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_fetches_that_were_parked_in_the_same_moment_are_answered_in_one_turn() -> None:
    core = leader()
    core.receive_request("2", fetch(1, 3, 1), now_ms=2)
    for token, now_ms in (("first", 10), ("with it", 25), ("later", 60)):
        core.receive_request(token, fetch(1, 3, 1, high_watermark=3), now_ms=now_ms)
    answered = [
        [effect.token for effect in core.tick(now_ms=now_ms + CONFIG.fetch_max_wait_ms) if isinstance(effect, Respond)]
        for now_ms in (9, 10, 59, 60)
    ]
    assert answered == [[], ["first", "with it"], [], ["later"]]


def test_a_diverging_fetch_acknowledges_nothing() -> None:
    core = leader()
    response = response_to(core, fetch(1, 5, 0))
    answer = partition_of(response)
    assert answer is not None
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 0)
    assert not core.replica.state.progress  # type: ignore[attr-defined]


def test_a_leader_without_a_majority_resigns() -> None:
    core = leader()
    core.receive_request("2", fetch(1, 3, 1), now_ms=1_000)
    core.tick(now_ms=1_000 + CONFIG.check_quorum_ms - 1)
    assert core.is_leader
    core.tick(now_ms=1_000 + CONFIG.check_quorum_ms)
    assert core.replica.state.role is Role.RESIGNED


def test_the_high_watermark_needs_the_leaders_own_disk_or_two_others() -> None:
    core = leader()
    core.receive_request("2", fetch(1, 3, 1), now_ms=2)
    core.append("payload", 2, now_ms=3)  # not synced here
    core.receive_request("2", fetch(1, 5, 1), now_ms=4)
    assert core.high_watermark == 3
    core.receive_request("3", fetch(1, 5, 1, node_id=3), now_ms=5)
    assert core.high_watermark == 5


# ---- DescribeQuorum


def test_only_the_leader_describes_the_quorum() -> None:
    topic = DescribeQuorumTopic(
        topic_name=CLUSTER_METADATA_TOPIC, partitions=[DescribeQuorumPartition(partition_index=0)]
    )
    request = DescribeQuorumRequest(topics=[topic])
    assert error_of(follower(), request) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    core = leader()
    core.receive_request("2", fetch(1, 3, 1), now_ms=2)
    core.receive_request("9", fetch(1, 0, 0, node_id=9), now_ms=2)
    response = response_to(core, request, now_ms=7)
    answer = response.topics[0].partitions[0]
    assert (answer.leader_id, answer.leader_epoch, answer.high_watermark) == (1, 1, 3)
    voters = [(voter.replica_id, voter.log_end_offset, voter.last_fetch_timestamp) for voter in answer.current_voters]
    assert voters == [(1, 3, 7), (2, 3, 2), (3, -1, -1)]
    assert [observer.replica_id for observer in answer.observers] == [9]
    assert [node.node_id for node in response.nodes] == [1, 2, 3]
