from collections.abc import Callable
from random import Random

import pytest

from barnabas.broker.fetch_sessions import EVICTION_MS, FetchSession, FetchSessions, Key, PartitionFetch
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.fetch import EpochEndOffset, PartitionData

MAX_INT32 = 2**31 - 1


def want(topic: str | bytes, partition: int = 0, fetch_offset: int = 0) -> PartitionFetch:
    return PartitionFetch((topic, partition), fetch_offset, 1_048_576, -1, -1)


def data(
    *, records: bytes = b"", high_watermark: int = 0, log_start_offset: int = 0, error_code: int = 0
) -> PartitionData:
    return PartitionData(
        partition_index=0,
        error_code=error_code,
        high_watermark=-1 if error_code else high_watermark,
        log_start_offset=-1 if error_code else log_start_offset,
        aborted_transactions=None,
        records=records,
    )


def sessions(slots: int = 10) -> FetchSessions:
    return FetchSessions(slots, Random(1))


def created(
    cache: FetchSessions, *asked: PartitionFetch, uses_topic_ids: bool = False, now_ms: int = 0
) -> FetchSession:
    session = cache.create(list(asked), uses_topic_ids=uses_topic_ids, now_ms=now_ms)
    assert session is not None
    return session


def resumed(cache: FetchSessions, session: FetchSession, epoch: int, now_ms: int = 0) -> FetchSession:
    return cache.resume(session.id, epoch, uses_topic_ids=session.uses_topic_ids, now_ms=now_ms)


def keys(session: FetchSession) -> list[Key]:
    return [asked.key for asked in session.asked()]


# ---- epochs


def test_each_fetch_of_a_session_carries_the_next_epoch() -> None:
    cache = sessions()
    session = created(cache, want("orders"))
    for epoch in range(1, 6):
        assert resumed(cache, session, epoch) is session


@pytest.mark.parametrize(
    ("session_id_offset", "epoch", "uses_topic_ids", "expected"),
    [
        (1, 1, False, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),  # evicted, or of a broker before this one
        (0, 2, False, ErrorCode.INVALID_FETCH_SESSION_EPOCH),  # one of its fetches was lost
        (0, MAX_INT32, False, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (0, 1, True, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),  # the client was upgraded in the middle
        (0, 2, True, ErrorCode.INVALID_FETCH_SESSION_EPOCH),  # Kafka looks at the epoch first
    ],
)
def test_a_fetch_that_does_not_fit_its_session_is_refused(
    session_id_offset: int, epoch: int, uses_topic_ids: bool, expected: ErrorCode
) -> None:
    cache = sessions()
    session = created(cache, want("orders"))
    with pytest.raises(KafkaError) as refused:
        cache.resume(session.id + session_id_offset, epoch, uses_topic_ids=uses_topic_ids, now_ms=0)
    assert refused.value.code == expected


def test_a_refused_fetch_leaves_the_session_as_it_was() -> None:
    cache = sessions()
    session = created(cache, want("orders"))
    for epoch in (5, 2, 0):
        with pytest.raises(KafkaError):
            resumed(cache, session, epoch)
    assert resumed(cache, session, 1) is session


def test_a_session_by_topic_id_refuses_names() -> None:
    cache = sessions()
    session = created(cache, want(b"i" * 16), uses_topic_ids=True)
    with pytest.raises(KafkaError) as refused:
        cache.resume(session.id, 1, uses_topic_ids=False, now_ms=0)
    assert refused.value.code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_the_epoch_after_the_largest_is_1_since_0_would_ask_for_a_new_session() -> None:
    cache = sessions()
    session = created(cache, want("orders"))
    session.epoch = MAX_INT32
    resumed(cache, session, MAX_INT32)
    assert resumed(cache, session, 1) is session


def test_a_session_that_was_ended_is_not_found() -> None:
    cache = sessions()
    session = created(cache, want("orders"))
    cache.remove(session.id)
    cache.remove(session.id)
    with pytest.raises(KafkaError) as refused:
        resumed(cache, session, 1)
    assert refused.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


# ---- partitions


@pytest.mark.parametrize(
    ("changed", "forgotten", "expected"),
    [
        ([], [], [("a", 0), ("b", 0)]),
        ([want("c")], [], [("a", 0), ("b", 0), ("c", 0)]),  # new ones stand last in line
        ([want("a", 0, 9)], [], [("a", 0), ("b", 0)]),  # one that only moves on keeps its place
        ([], [("a", 0)], [("b", 0)]),
        ([], [("a", 0), ("b", 0)], []),
        ([], [("z", 3)], [("a", 0), ("b", 0)]),  # was never known
        ([want("a", 0, 9)], [("a", 0)], [("b", 0)]),  # in both lists: Kafka forgets last
        ([want("a", 1)], [("a", 0)], [("b", 0), ("a", 1)]),
    ],
)
def test_an_incremental_fetch_changes_the_partitions(
    changed: list[PartitionFetch], forgotten: list[Key], expected: list[Key]
) -> None:
    session = created(sessions(), want("a"), want("b"))
    session.update(changed, forgotten)
    assert keys(session) == expected
    assert len(session) == len(expected)


def test_an_update_replaces_the_offset_and_keeps_what_the_client_was_told() -> None:
    session = created(sessions(), want("a"))
    session.news(("a", 0), data(high_watermark=5))
    session.update([want("a", 0, 5)], [])
    assert [asked.fetch_offset for asked in session.asked()] == [5]
    assert not session.news(("a", 0), data(high_watermark=5))


def test_a_partition_that_is_forgotten_and_comes_back_is_new() -> None:
    session = created(sessions(), want("a"), want("b"))
    session.news(("a", 0), data(high_watermark=5))
    session.update([], [("a", 0)])
    session.update([want("a")], [])
    assert session.news(("a", 0), data(high_watermark=5))


def test_names_and_ids_of_the_same_letters_are_different_topics() -> None:
    session = FetchSession(1, True, [want(b"a" * 16), want(b"b" * 16)], 0)
    session.update([], [("a" * 16, 0)])
    assert keys(session) == [(b"a" * 16, 0), (b"b" * 16, 0)]


# ---- what is told


def diverging() -> PartitionData:
    answer = data(high_watermark=5)
    answer.diverging_epoch = EpochEndOffset(epoch=1, end_offset=3)
    return answer


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda: data(high_watermark=5), False),  # nothing the client does not know
        (lambda: data(high_watermark=5, records=b"batch"), True),
        (lambda: data(high_watermark=6), True),
        (lambda: data(high_watermark=5, log_start_offset=2), True),  # records were deleted
        (lambda: data(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER), True),
        (diverging, True),  # a truncation must be told even though nothing else changed
    ],
)
def test_only_news_are_told(answer: Callable[[], PartitionData], expected: bool) -> None:
    session = created(sessions(), want("a"))
    assert session.news(("a", 0), data(high_watermark=5)), "the first answer is always news"
    assert session.news(("a", 0), answer()) is expected


def test_an_error_is_told_again_until_it_is_over_and_its_end_is_told_too() -> None:
    session = created(sessions(), want("a"))
    session.news(("a", 0), data(high_watermark=5))
    error = ErrorCode.OFFSET_OUT_OF_RANGE
    assert session.news(("a", 0), data(error_code=error))
    assert session.news(("a", 0), data(error_code=error))
    assert session.news(("a", 0), data(high_watermark=5))
    assert not session.news(("a", 0), data(high_watermark=5))


def test_who_gave_records_goes_to_the_end_of_the_line() -> None:
    session = created(sessions(), want("a"), want("b"), want("c"))
    session.news(("a", 0), data(records=b"batch"))
    assert keys(session) == [("b", 0), ("c", 0), ("a", 0)]
    session.news(("b", 0), data(high_watermark=9))
    assert keys(session) == [("b", 0), ("c", 0), ("a", 0)], "a high watermark alone takes no room in a reply"
    session.news(("b", 0), data(records=b"batch"))
    session.news(("c", 0), data(records=b"batch"))
    assert keys(session) == [("a", 0), ("b", 0), ("c", 0)]


def test_a_partition_forgotten_while_its_fetch_waited_is_told_once_more() -> None:
    session = created(sessions(), want("a"), want("b"))
    session.update([], [("a", 0)])
    assert session.news(("a", 0), data())
    assert keys(session) == [("b", 0)]


# ---- the cache


def test_ids_are_positive_and_never_shared() -> None:
    cache = sessions(1_000)
    ids = {created(cache, want("a")).id for _ in range(1_000)}
    assert len(ids) == len(cache) == 1_000
    assert all(0 < session_id < 2**31 for session_id in ids)


def test_an_id_that_is_taken_or_zero_is_not_given_again() -> None:
    class Dice(Random):
        def __init__(self) -> None:
            super().__init__()
            self.numbers = iter([7, 0, 7, 8])

        def getrandbits(self, _bits: int, /) -> int:
            return next(self.numbers)

    cache = FetchSessions(10, Dice())
    assert [created(cache, want("a")).id for _ in range(2)] == [7, 8]


def test_a_fetch_of_nothing_makes_a_session_too() -> None:
    assert len(created(sessions())) == 0


def test_without_slots_there_are_no_sessions() -> None:
    assert sessions(0).create([want("a")], uses_topic_ids=True, now_ms=0) is None


@pytest.mark.parametrize(
    ("idle_ms", "is_evicted"),
    [
        (EVICTION_MS, True),
        (EVICTION_MS - 1, False),  # its client may well come back
        (0, False),
    ],
)
def test_a_full_cache_gives_up_only_a_session_that_was_long_unused(idle_ms: int, is_evicted: bool) -> None:
    cache = sessions(2)
    oldest, other = created(cache, want("a")), created(cache, want("b"))
    resumed(cache, other, 1, now_ms=1)
    newest = cache.create([want("c")], uses_topic_ids=False, now_ms=idle_ms)
    assert (newest is not None) is is_evicted
    assert len(cache) == 2
    if is_evicted:
        with pytest.raises(KafkaError):
            resumed(cache, oldest, 1)
    else:
        resumed(cache, oldest, 1)
    resumed(cache, other, 2)


def test_the_session_that_goes_is_the_one_unused_for_longest_not_the_one_made_first() -> None:
    cache = sessions(2)
    first, second = created(cache, want("a")), created(cache, want("b"))
    resumed(cache, first, 1, now_ms=1_000)
    created(cache, want("c"), now_ms=EVICTION_MS + 500)
    assert resumed(cache, first, 2) is first
    with pytest.raises(KafkaError):
        resumed(cache, second, 1)
