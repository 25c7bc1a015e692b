"""The follower's half of a fetch session."""

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.replication.follower.fetch_session import FetchPosition, FollowerSession, Key

TOPIC, OTHER = b"t" * 16, b"o" * 16
A, B, C = (TOPIC, 0), (TOPIC, 1), (OTHER, 0)


def at(offset: int, leader_epoch: int = 1) -> FetchPosition:
    return FetchPosition(offset, leader_epoch, -1, 0)


def named(request: FetchRequest) -> dict[Key, int]:
    return {
        (topic.topic_id, each.partition): each.fetch_offset for topic in request.topics for each in topic.partitions
    }


def forgotten(request: FetchRequest) -> set[Key]:
    return {(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions}


def answered(session_id: int = 9, error_code: int = 0) -> FetchResponse:
    return FetchResponse(session_id=session_id, error_code=error_code, responses=[])


def established(*keys: Key) -> FollowerSession:
    session = FollowerSession(1_000)
    for key in keys:
        session.ask(key, at(0))
    assert session.accept(session.next_request(), answered())
    return session


def test_the_first_request_names_everything_and_the_next_what_changed() -> None:
    session = FollowerSession(1_000)
    for key in (A, B, C):
        assert session.ask(key, at(0))
    first = session.next_request()
    assert (first.session_id, first.session_epoch, named(first)) == (0, 0, {A: 0, B: 0, C: 0})
    assert first.topics[0].partitions[0].partition_max_bytes == 1_000
    assert session.accept(first, answered())
    assert session.is_established
    assert not session.ask(A, at(0))
    assert session.ask(B, at(5))
    second = session.next_request()
    assert (second.session_id, second.session_epoch, named(second)) == (9, 1, {B: 5})
    assert session.accept(second, answered())
    third = session.next_request()
    assert (third.session_epoch, named(third)) == (2, {})


def test_what_is_forgotten_and_asked_for_again_is_only_named() -> None:
    session = established(A, B)
    session.forget(A)
    session.forget(B)
    session.forget(C)
    session.ask(B, at(0, leader_epoch=2))
    request = session.next_request()
    assert (named(request), forgotten(request)) == ({B: 0}, {A})
    assert len(session) == 1


def test_an_epoch_follows_the_largest_with_one() -> None:
    session = established(A)
    session._next_epoch = 2**31 - 1
    session.next_request()
    assert session.next_request().session_epoch == 1


def test_a_leader_that_remembers_nothing_gets_whole_requests() -> None:
    session = FollowerSession(1_000)
    session.ask(A, at(0))
    assert session.accept(session.next_request(), answered(0))
    request = session.next_request()
    assert (request.session_id, request.session_epoch, named(request)) == (0, 0, {A: 0})


@pytest.mark.parametrize(
    ("error", "session_id"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 9),  # closes the old one
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 9),
        (ErrorCode.UNKNOWN_SERVER_ERROR, 9),
    ],
)
def test_a_session_that_the_leader_refuses_starts_anew(error: ErrorCode, session_id: int) -> None:
    session = established(A, B)
    session.forget(B)
    assert not session.accept(session.next_request(), answered(0, error))
    request = session.next_request()
    assert (request.session_id, request.session_epoch, named(request)) == (session_id, 0, {A: 0})
    assert forgotten(request) == set()


def test_a_lost_answer_starts_anew_and_names_everything() -> None:
    session = established(A, B)
    session.ask(A, at(4))
    session.next_request()
    session.lost()
    request = session.next_request()
    assert (request.session_id, request.session_epoch, named(request)) == (9, 0, {A: 4, B: 0})


def test_a_leader_that_closes_the_session_has_answered_all_the_same() -> None:
    session = established(A)
    assert session.accept(session.next_request(), answered(0))
    assert session.next_request().session_epoch == 0


def test_an_answer_of_an_earlier_session_counts_no_more() -> None:
    session = established(A)
    old = session.next_request()
    session.lost()
    assert session.accept(session.next_request(), answered(10))
    assert not session.accept(old, answered(9))
