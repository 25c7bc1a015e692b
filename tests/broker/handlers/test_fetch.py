import os
import time
from typing import Any

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.fetch import FetchRequest, FetchTopic, ForgottenTopic
from barnabas.protocol.types import Uuid
from barnabas.testing import Broker
from tests.broker.wire import RawClient, batch_of, fetch_request, good, produce_request, records_of, values_of

NONE = ErrorCode.NONE
INDEX_INTERVAL_BYTES = 4_096
"""A read is cut at a place that the index knows, so it may be so much less than what was allowed."""


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    """Two partitions, empty."""
    name = f"fetch-{abs(hash(request.node.name))}"
    broker.create_topics({name: 2})
    return name


def fill(client: RawClient, topic: str, batches: int, *, partition: int = 0, size: int = 100) -> None:
    """Batches of one record each, `size` bytes of value."""
    for index in range(batches):
        value = b"%06d" % index + bytes(size - 6)
        assert client.produce(topic, batch_of([value]), partition=partition).error_code == NONE


def numbers(data: Any) -> list[int]:
    return [int((record.value or b"")[:6]) for record in records_of(data)]


def delete_topic(client: RawClient, name: str) -> None:
    answer = client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=10_000)).responses[0]
    assert answer.error_code == NONE


# ---- reading


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_reads_what_was_produced(client: RawClient, topic: str, version: int) -> None:
    client.produce(topic, good())
    client.produce(topic, good())
    wanted = topic if version < 13 else client.topic_id(topic)
    data = client.fetch(wanted, version=version)
    assert (data.error_code, data.high_watermark, data.last_stable_offset) == (NONE, 6, 6)
    assert data.log_start_offset == (0 if version >= 5 else -1)
    assert data.preferred_read_replica == -1
    assert [record.offset for record in records_of(data)] == [0, 1, 2, 3, 4, 5]
    assert values_of(data) == [b"value-0", b"value-1", b"value-2"] * 2


@pytest.mark.parametrize(
    ("offset", "first", "expected"),
    [
        (0, 0, NONE),
        (3, 3, NONE),
        (4, 3, NONE),  # inside a batch: the whole batch
        (5, 3, NONE),
        (6, None, NONE),  # at the end there is nothing yet
        (7, None, ErrorCode.OFFSET_OUT_OF_RANGE),
        (-1, None, ErrorCode.OFFSET_OUT_OF_RANGE),
        (2**63 - 1, None, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_where_a_fetch_begins(
    client: RawClient, topic: str, offset: int, first: int | None, expected: ErrorCode
) -> None:
    client.produce(topic, good())
    client.produce(topic, good())
    data = client.fetch(topic, offset)
    assert ErrorCode(data.error_code) is expected
    assert [record.offset for record in records_of(data)] == ([] if first is None else list(range(first, 6)))
    assert data.high_watermark == (6 if expected is NONE else -1)


def test_what_was_deleted_is_out_of_range(client: RawClient, topic: str) -> None:
    fill(client, topic, 5)
    delete = DeleteRecordsPartition(partition_index=0, offset=3)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[delete])], timeout_ms=10_000)
    assert client.call(request).topics[0].partitions[0].low_watermark == 3
    assert client.fetch(topic, 2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    data = client.fetch(topic, 3)
    assert (data.log_start_offset, numbers(data)) == (3, [3, 4])


@pytest.mark.parametrize(
    ("wanted", "partition", "expected"),
    [
        ("no-such-topic", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("payments", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("payments", -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (b"\1" * 16, 0, ErrorCode.UNKNOWN_TOPIC_ID),
        (bytes(16), 0, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_what_does_not_exist_is_told_at_once(
    client: RawClient, wanted: str, partition: int, expected: ErrorCode
) -> None:
    started = time.monotonic()
    data = client.fetch(wanted, partition=partition, max_wait_ms=15_000)
    assert time.monotonic() - started < 10
    assert (data.error_code, data.high_watermark, data.log_start_offset) == (expected, -1, -1)
    assert bytes(data.records or b"") == b""  # type: ignore[arg-type]


def test_an_error_of_one_partition_does_not_hide_the_others(client: RawClient, topic: str) -> None:
    client.produce(topic, good())
    partitions = client.call(fetch_request(topic, {0: 0, 1: 99, 2: 0}, max_wait_ms=15_000), 12).responses[0].partitions
    assert [(data.partition_index, ErrorCode(data.error_code)) for data in partitions] == [
        (0, NONE),
        (1, ErrorCode.OFFSET_OUT_OF_RANGE),
        (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert len(values_of(partitions[0])) == 3


def test_a_fetch_of_nothing_is_answered_at_once(client: RawClient) -> None:
    started = time.monotonic()
    answer = client.call(FetchRequest(max_wait_ms=15_000, min_bytes=1, topics=[]), 12)
    assert (answer.error_code, list(answer.responses)) == (NONE, [])
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(("isolation_level", "aborted"), [(0, None), (1, [])])
def test_only_those_who_read_committed_are_told_of_aborted_transactions(
    client: RawClient, topic: str, isolation_level: int, aborted: list[Any] | None
) -> None:
    client.produce(topic, good())
    data = client.fetch(topic, isolation_level=isolation_level)
    assert data.aborted_transactions == aborted
    assert len(values_of(data)) == 3


# ---- limits


def test_the_first_batch_comes_even_if_it_is_larger_than_every_limit(client: RawClient, topic: str) -> None:
    fill(client, topic, 3, size=5_000)
    assert numbers(client.fetch(topic, partition_max_bytes=1, max_bytes=1)) == [0]
    assert numbers(client.fetch(topic, 1, partition_max_bytes=0, max_bytes=0)) == [1]


def test_whole_batches_up_to_the_limit_of_the_partition(client: RawClient, topic: str) -> None:
    fill(client, topic, 10, size=1_000)
    size = len(batch_of([bytes(1_000)]))
    for limit in (size, 2 * size - 1, 2 * size, 5 * size + 1, 9 * size, 100 * size):
        data = client.fetch(topic, partition_max_bytes=limit)
        count = len(numbers(data))
        assert numbers(data) == list(range(count))
        assert len(bytes(data.records)) == count * size, "no half batches"  # type: ignore[arg-type]
        fitting = min(limit // size, 10)
        assert max(1, fitting - INDEX_INTERVAL_BYTES // size) <= count <= fitting, limit


def test_the_limit_of_the_request_holds_over_all_partitions(client: RawClient, topic: str) -> None:
    fill(client, topic, 10, size=1_000)
    fill(client, topic, 10, partition=1, size=1_000)
    size = len(batch_of([bytes(1_000)]))
    answer = client.call(fetch_request(topic, {0: 0, 1: 0}, max_bytes=12 * size), 12).responses[0].partitions
    assert [len(numbers(data)) for data in answer] == [10, 2]
    answer = client.call(fetch_request(topic, {1: 0, 0: 0}, max_bytes=size), 12).responses[0].partitions
    assert [len(numbers(data)) for data in answer] == [1, 0], "only the first of all is sure to come"


def test_fetch_max_bytes_of_the_broker_holds_for_everybody() -> None:
    with Broker({"orders": 1}, {"fetch.max.bytes": "5000"}) as broker, RawClient(broker.port) as client:
        fill(client, "orders", 20, size=1_000)
        assert numbers(client.fetch("orders")) == [0, 1, 2, 3]


# ---- waiting


def elapsed_ms(started: float) -> float:
    return (time.monotonic() - started) * 1_000


def test_with_nothing_to_give_a_fetch_waits_for_max_wait_ms(client: RawClient, topic: str) -> None:
    started = time.monotonic()
    data = client.fetch(topic, max_wait_ms=150)
    assert (values_of(data), data.error_code) == ([], NONE)
    assert 145 <= elapsed_ms(started) < 5_000


def test_a_waiting_fetch_is_answered_when_records_arrive(broker: Broker, client: RawClient, topic: str) -> None:
    with RawClient(broker.port) as producer:
        client.send(fetch_request(topic, {0: 0}, max_wait_ms=15_000), 12)
        started = time.monotonic()
        producer.produce(topic, good())
        assert len(values_of(client.receive().responses[0].partitions[0])) == 3
        assert elapsed_ms(started) < 5_000


def test_min_bytes_are_counted_over_several_partitions(broker: Broker, client: RawClient, topic: str) -> None:
    size = len(batch_of([bytes(100)]))
    with RawClient(broker.port) as producer:
        fill(producer, topic, 1)
        client.send(fetch_request(topic, {0: 0, 1: 0}, max_wait_ms=15_000, min_bytes=3 * size), 12)
        fill(producer, topic, 1, partition=1)
        assert is_silent(client), "two of three"
        fill(producer, topic, 1, partition=0)
        answer = client.receive().responses[0].partitions
        assert [len(numbers(data)) for data in answer] == [2, 1]


def test_what_is_there_is_given_after_max_wait_ms_even_if_it_is_too_little(client: RawClient, topic: str) -> None:
    fill(client, topic, 1)
    started = time.monotonic()
    assert numbers(client.fetch(topic, max_wait_ms=150, min_bytes=1_000_000)) == [0]
    assert elapsed_ms(started) >= 145


def test_enough_bytes_are_given_at_once(client: RawClient, topic: str) -> None:
    fill(client, topic, 10)
    started = time.monotonic()
    assert len(numbers(client.fetch(topic, max_wait_ms=15_000, min_bytes=1_000))) == 10
    assert elapsed_ms(started) < 5_000


@pytest.mark.parametrize(
    ("min_bytes", "limits"),
    [
        (1_000, {"partition_max_bytes": 1_000}),  # whole batches, so a little less than what was asked for
        (5_000, {"max_bytes": 1_000}),  # more than a fetch may bring is never waited for
        (1 << 30, {"max_bytes": 1_000}),
        (1_500, {"partition_max_bytes": 750}),  # of two partitions
    ],
)
def test_who_gets_as_much_as_the_limits_allow_does_not_wait(
    client: RawClient, topic: str, min_bytes: int, limits: dict[str, int]
) -> None:
    fill(client, topic, 30)
    fill(client, topic, 30, partition=1)
    started = time.monotonic()
    answer = client.call(fetch_request(topic, {0: 0, 1: 0}, max_wait_ms=15_000, min_bytes=min_bytes, **limits), 12)
    assert 0 < sum(len(numbers(data)) for data in answer.responses[0].partitions) < 60
    assert elapsed_ms(started) < 5_000


def test_a_partition_counts_for_no_more_than_was_asked_of_it(client: RawClient, topic: str) -> None:
    fill(client, topic, 30)
    started = time.monotonic()
    request = fetch_request(topic, {0: 0, 1: 0}, max_wait_ms=150, min_bytes=1_500, partition_max_bytes=1_000)
    assert numbers(client.call(request, 12).responses[0].partitions[0]), "there is more, but not for this fetch"
    assert elapsed_ms(started) >= 145


def test_nobody_waits_to_read_the_end_of_a_closed_segment(broker: Broker, client: RawClient) -> None:
    broker.create_topics({"rolled": 1}, {"segment.bytes": "1048576"})
    fill(client, "rolled", 3, size=500_000)
    started = time.monotonic()
    assert numbers(client.fetch("rolled", 1, max_wait_ms=15_000, min_bytes=10_000_000)) == [1]
    assert elapsed_ms(started) < 5_000


def test_a_fetch_of_no_bytes_does_not_wait(client: RawClient, topic: str) -> None:
    started = time.monotonic()
    answer = client.call(fetch_request(topic, {0: 0}, max_wait_ms=15_000, max_bytes=0), 12)
    assert answer.responses[0].partitions[0].error_code == NONE
    assert elapsed_ms(started) < 5_000


def test_a_partition_that_does_not_exist_does_not_hurry_the_others(
    broker: Broker, client: RawClient, topic: str
) -> None:
    client.send(fetch_request(topic, {0: 0, 7: 0}, max_wait_ms=15_000), 12)
    with RawClient(broker.port) as producer:
        producer.produce(topic, good(), partition=1)
        assert is_silent(client)
        producer.produce(topic, good())
    partitions = client.receive().responses[0].partitions
    assert [data.error_code for data in partitions] == [NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_records_of_other_partitions_wake_nobody(broker: Broker, client: RawClient, topic: str) -> None:
    with RawClient(broker.port) as producer:
        client.send(fetch_request(topic, {0: 0}, max_wait_ms=15_000), 12)
        fill(producer, topic, 5, partition=1)
        assert is_silent(client)
        fill(producer, topic, 1)
        assert numbers(client.receive().responses[0].partitions[0]) == [0]


def test_one_record_wakes_everybody_who_waits_for_it(broker: Broker, client: RawClient, topic: str) -> None:
    readers = [RawClient(broker.port) for _ in range(50)]
    for reader in readers:
        reader.send(fetch_request(topic, {0: 0, 1: 0}, max_wait_ms=15_000), 12)
    client.produce(topic, good(), partition=1)
    for reader in readers:
        with reader:
            assert [len(values_of(data)) for data in reader.receive().responses[0].partitions] == [0, 3]


def test_requests_behind_a_waiting_fetch_are_answered_after_it(client: RawClient, topic: str) -> None:
    client.send(fetch_request(topic, {0: 0}, max_wait_ms=100), 12)
    client.send(fetch_request(topic, {1: 0}, max_wait_ms=0), 12)
    assert [client.receive().responses[0].partitions[0].partition_index for _ in range(2)] == [0, 1]


def test_a_connection_can_feed_its_own_waiting_fetch(client: RawClient, topic: str) -> None:
    """Also in one write, where the fetch is answered while the produce is still being handled."""
    started = time.monotonic()
    frames = client.frame(fetch_request(topic, {0: 0}, max_wait_ms=15_000), 12)
    frames += client.frame(produce_request(topic, {0: good()}), 12)
    frames += client.frame(fetch_request(topic, {1: 0}, max_wait_ms=0), 12)
    client.socket.sendall(frames)
    assert len(values_of(client.receive().responses[0].partitions[0])) == 3
    assert client.receive().responses[0].partition_responses[0].base_offset == 0
    assert client.receive().error_code == NONE
    assert elapsed_ms(started) < 5_000


def is_silent(client: RawClient) -> bool:
    """Nothing has come yet. What was caused by a request that another client has an answer to would be here."""
    client.socket.setblocking(False)
    try:
        client.socket.recv(1)
        return False
    except BlockingIOError:
        return True
    finally:
        client.socket.settimeout(20)


# ---- topics that go away


@pytest.mark.parametrize("by_id", [False, True])
def test_a_fetch_that_waits_for_a_topic_is_told_when_the_topic_is_deleted(
    broker: Broker, client: RawClient, topic: str, by_id: bool
) -> None:
    wanted: str | Uuid = client.topic_id(topic) if by_id else topic
    client.send(fetch_request(wanted, {0: 0, 1: 0}, max_wait_ms=15_000), 18 if by_id else 12)
    started = time.monotonic()
    with RawClient(broker.port) as admin:
        delete_topic(admin, topic)
    answer = client.receive()
    assert elapsed_ms(started) < 10_000
    errors = {ErrorCode(data.error_code) for data in answer.responses[0].partitions}
    assert errors & {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_a_reader_in_the_middle_of_a_topic_that_is_deleted_gets_the_bytes_it_was_promised(
    broker: Broker, client: RawClient, topic: str
) -> None:
    value = os.urandom(900_000)
    client.produce(topic, batch_of([value]))
    with RawClient(broker.port) as reader:
        for _ in range(8):
            reader.send(fetch_request(topic, {0: 0}), 12)
        assert values_of(reader.receive().responses[0].partitions[0]) == [value], "it has begun"
        delete_topic(client, topic)
        for _ in range(7):
            data = reader.receive().responses[0].partitions[0]
            assert data.error_code != NONE or values_of(data) == [value]


def test_a_topic_that_was_made_again_is_another_topic(broker: Broker, client: RawClient, topic: str) -> None:
    before = client.topic_id(topic)
    client.produce(topic, good())
    delete_topic(client, topic)
    broker.create_topics({topic: 2})
    assert client.topic_id(topic) != before
    assert client.fetch(before).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    data = client.fetch(topic)
    assert (data.error_code, data.high_watermark) == (NONE, 0)


# ---- leader epochs


@pytest.mark.parametrize("version", [9, 12, 18])
def test_a_client_that_knows_a_newer_leader_epoch_is_told_to_wait(client: RawClient, topic: str, version: int) -> None:
    wanted: str | Uuid = topic if version < 13 else client.topic_id(topic)
    fetched = client.fetch(wanted, version=version, current_leader_epoch=1_000)
    assert fetched.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert client.fetch(wanted, version=version, current_leader_epoch=-1).error_code == NONE


def test_a_client_that_was_at_another_log_is_told_where_this_one_parts(client: RawClient, topic: str) -> None:
    fill(client, topic, 3)
    diverging = client.fetch(topic, 5, last_fetched_epoch=0).diverging_epoch
    assert (diverging.epoch, diverging.end_offset) == (0, 3)
    assert client.fetch(topic, 3, last_fetched_epoch=1_000).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    same = client.fetch(topic, 1, last_fetched_epoch=0)
    assert (same.diverging_epoch.epoch, numbers(same)) == (-1, [1, 2])
    committed = client.fetch(topic, 5, last_fetched_epoch=0, isolation_level=1)
    assert committed.aborted_transactions is None  # nothing came that could be filtered


# ---- sessions


def session_fetch(
    topic: str | Uuid | None,
    offsets: dict[int, int],
    *,
    session: tuple[int, int],
    forgotten: tuple[str | Uuid, list[int]] | None = None,
    **options: Any,
) -> FetchRequest:
    request = fetch_request(topic or "", offsets, session_id=session[0], session_epoch=session[1], **options)
    if topic is None:
        request.topics = []
    if forgotten is not None:
        name, partitions = forgotten
        gone = (
            ForgottenTopic(topic=name, partitions=partitions)
            if isinstance(name, str)
            else ForgottenTopic(topic_id=name, partitions=partitions)
        )
        request.forgotten_topics_data = [gone]
    return request


def told(answer: Any) -> dict[int, int]:
    """Partitions of the answer and how many records each has."""
    return {data.partition_index: len(records_of(data)) for topic in answer.responses for data in topic.partitions}


@pytest.mark.parametrize("version", [7, 12, 13, 18])
def test_a_session_tells_only_what_is_new(client: RawClient, topic: str, version: int) -> None:
    wanted: str | Uuid = topic if version < 13 else client.topic_id(topic)
    first = client.call(session_fetch(wanted, {0: 0, 1: 0}, session=(0, 0)), version)
    session_id = first.session_id
    assert session_id > 0
    assert told(first) == {0: 0, 1: 0}

    def go_on(
        epoch: int, topic: str | Uuid | None = None, offsets: dict[int, int] | None = None, **options: Any
    ) -> Any:
        answer = client.call(session_fetch(topic, offsets or {}, session=(session_id, epoch), **options), version)
        assert (answer.error_code, answer.session_id) == (NONE, session_id)
        return told(answer)

    assert go_on(1) == {}, "nothing is new"
    client.produce(topic, good())
    assert go_on(2) == {0: 3}
    assert go_on(3, wanted, {0: 3}) == {}, "the client has read it and says so"
    client.produce(topic, good())
    client.produce(topic, good(), partition=1)
    assert go_on(4) == {0: 3, 1: 3}
    assert go_on(5, wanted, {0: 6, 1: 3}) == {}
    client.produce(topic, good())
    client.produce(topic, good(), partition=1)
    assert go_on(6, forgotten=(wanted, [0])) == {1: 3}, "what was forgotten is not told"
    assert go_on(7, wanted, {0: 6, 1: 6}) == {0: 3}, "and may come back"


def test_an_error_in_a_session_is_told_every_time(client: RawClient, topic: str) -> None:
    session_id = client.call(session_fetch(topic, {0: 0, 1: 99}, session=(0, 0)), 12).session_id
    for epoch in (1, 2):
        answer = client.call(session_fetch(None, {}, session=(session_id, epoch)), 12)
        assert [(data.partition_index, data.error_code) for data in answer.responses[0].partitions] == [
            (1, ErrorCode.OFFSET_OUT_OF_RANGE)
        ]


def test_a_waiting_incremental_fetch_is_answered_with_the_partition_that_got_records(
    broker: Broker, client: RawClient, topic: str
) -> None:
    session_id = client.call(session_fetch(topic, {0: 0, 1: 0}, session=(0, 0)), 12).session_id
    client.send(session_fetch(None, {}, session=(session_id, 1), max_wait_ms=15_000), 12)
    with RawClient(broker.port) as producer:
        producer.produce(topic, good(), partition=1)
    assert told(client.receive()) == {1: 3}


def test_in_a_session_a_busy_partition_does_not_starve_the_others(client: RawClient, topic: str) -> None:
    fill(client, topic, 5, size=1_000)
    fill(client, topic, 5, partition=1, size=1_000)
    limit = 2 * len(batch_of([bytes(1_000)]))
    first = client.call(session_fetch(topic, {0: 0, 1: 0}, session=(0, 0), max_bytes=limit), 12)
    assert told(first) == {0: 2, 1: 0}
    second = client.call(session_fetch(topic, {0: 2}, session=(first.session_id, 1), max_bytes=limit), 12)
    assert told(second) == {1: 2}, "the other one's turn"


@pytest.mark.parametrize(
    ("session", "version", "expected"),
    [
        ((12_345, 1), 12, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (("own", 2), 12, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (("own", 1), 13, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_a_fetch_that_does_not_fit_its_session_is_refused_as_a_whole(
    client: RawClient, topic: str, session: tuple[Any, int], version: int, expected: ErrorCode
) -> None:
    own = client.call(session_fetch(topic, {0: 0}, session=(0, 0)), 12).session_id
    session_id = own if session[0] == "own" else session[0]
    answer = client.call(session_fetch(None, {}, session=(session_id, session[1])), version)
    assert (ErrorCode(answer.error_code), list(answer.responses)) == (expected, [])


def test_a_session_ends_with_epoch_minus_1(client: RawClient, topic: str) -> None:
    session_id = client.call(session_fetch(topic, {0: 0}, session=(0, 0)), 12).session_id
    last = client.call(session_fetch(topic, {0: 0}, session=(session_id, -1)), 12)
    assert (last.error_code, last.session_id, told(last)) == (NONE, 0, {0: 0})
    answer = client.call(session_fetch(None, {}, session=(session_id, 1)), 12)
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_new_session_replaces_the_one_it_names(client: RawClient, topic: str) -> None:
    first = client.call(session_fetch(topic, {0: 0}, session=(0, 0)), 12).session_id
    second = client.call(session_fetch(topic, {0: 0}, session=(first, 0)), 12).session_id
    assert second not in (0, first)
    answer = client.call(session_fetch(None, {}, session=(first, 1)), 12)
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_that_forgets_everything_is_no_more(client: RawClient, topic: str) -> None:
    session_id = client.call(session_fetch(topic, {0: 0}, session=(0, 0)), 12).session_id
    answer = client.call(session_fetch(None, {}, session=(session_id, 1), forgotten=(topic, [0])), 12)
    assert (answer.error_code, answer.session_id, told(answer)) == (NONE, 0, {})


def test_without_room_for_sessions_fetches_work_without_them(topic: str) -> None:
    config = {"max.incremental.fetch.session.cache.slots": "1"}
    with Broker({"orders": 1}, config) as broker, RawClient(broker.port) as client:
        assert client.call(session_fetch("orders", {0: 0}, session=(0, 0)), 12).session_id > 0
        client.produce("orders", good())
        second = client.call(session_fetch("orders", {0: 0}, session=(0, 0)), 12)
        assert (second.session_id, told(second)) == (0, {0: 3})


def test_a_session_over_a_deleted_topic_tells_that_it_is_gone(broker: Broker, client: RawClient, topic: str) -> None:
    topic_id = client.topic_id(topic)
    session_id = client.call(session_fetch(topic_id, {0: 0}, session=(0, 0)), 18).session_id
    delete_topic(client, topic)

    def error_of(epoch: int) -> int:
        answer = client.call(session_fetch(None, {}, session=(session_id, epoch)), 18)
        assert answer.error_code == NONE
        error_code: int = answer.responses[0].partitions[0].error_code
        return error_code

    assert error_of(1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the session has noted the name"
    broker.create_topics({topic: 2})
    assert error_of(2) == ErrorCode.INCONSISTENT_TOPIC_ID
    assert client.fetch(topic_id, version=18).error_code == ErrorCode.UNKNOWN_TOPIC_ID, "outside of it nobody knows"


def test_the_same_partition_named_twice_is_read_once_or_twice_but_answered(client: RawClient, topic: str) -> None:
    request = fetch_request(topic, {0: 0})
    request.topics = [*request.topics, *request.topics]
    assert client.call(request, 12).error_code == NONE
    assert isinstance(request.topics[0], FetchTopic)
