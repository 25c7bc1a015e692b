"""Nothing is parsed or copied per record on Produce and Fetch, compressed or not.

The calls of the broker's own thread are counted by a profiler that the thread installs for itself: the number of calls
that a request costs must not depend on how many records it carries, and none of them may be one that reads records.
"""

import gc
import sys
import threading
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from barnabas.protocol.compression import CompressionType
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.testing import Broker
from tests.broker.members import Member, commit_request
from tests.broker.transactions.calls import end, init
from tests.broker.wire import RawClient, Sent, batch_of, fetch_request, produce_request

READS_RECORDS = {
    "iter_records", "has_null_key", "records_data", "_record_at", "record_extent", "_headers", "decompress",
    "compress",
}  # fmt: skip
LOOPS_OWN = ("run_once", "select", "_timeout", "_run_due_timers", "monotonic", "max", "poll", "call", "wait")
MIB = 1024 * 1024
CODECS = [pytest.param(codec, id=codec.name.lower()) for codec in CompressionType]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"hot": 1}, {"group.initial.rebalance.delay.ms": "0"}) as broker:
        yield broker


def on_broker_thread(broker: Broker, function: Callable[[], Any]) -> Any:
    """What `function` returns, called by the broker's loop."""
    done, result = threading.Event(), []

    def call() -> None:
        result.append(function())
        done.set()

    broker._running.call(call)
    assert done.wait(10)
    return result[0]


@contextmanager
def counted(broker: Broker) -> Iterator[Counter[str]]:
    """Every call that the broker's thread makes, Python's and C's, by name; those of the module os with its name."""
    calls: Counter[str] = Counter()

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            calls[frame.f_code.co_name] += 1
        elif event == "c_call":
            name = argument.__name__
            calls[f"os.{name}" if argument.__module__ == "posix" else name] += 1

    on_broker_thread(broker, lambda: sys.setprofile(note))
    try:
        yield calls
    finally:
        on_broker_thread(broker, lambda: sys.setprofile(None))


def calls_of(broker: Broker, client: RawClient, request: Any) -> Counter[str]:
    """What one request costs once everything is compiled and open. The loop's own turns are not the request's."""
    client.call(request, 12)
    with counted(broker) as calls:
        response = client.call(request, 12)
    assert response is not None
    for name in LOOPS_OWN:
        calls.pop(name, None)
    return calls


def batch(records: int, codec: int) -> bytearray:
    return batch_of([b"value-%06d" % index for index in range(records)], keys=[b"key"] * records, compression=codec)


@pytest.mark.parametrize("codec", CODECS)
def test_a_produce_costs_the_same_for_one_record_and_for_a_thousand(
    broker: Broker, client: RawClient, codec: CompressionType
) -> None:
    one = calls_of(broker, client, produce_request("hot", {0: batch(1, codec)}))
    thousand = calls_of(broker, client, produce_request("hot", {0: batch(1_000, codec)}))
    assert not READS_RECORDS & set(thousand)
    assert sum(thousand.values()) <= sum(one.values()) + 40, thousand - one  # an index entry, a larger frame
    assert sum(thousand.values()) < 300


@pytest.mark.parametrize("codec", CODECS)
def test_a_fetch_costs_the_same_for_one_record_and_for_ten_thousand(
    broker: Broker, client: RawClient, codec: CompressionType
) -> None:
    broker.create_topics({f"few-{codec}": 1, f"many-{codec}": 1})
    client.produce(f"few-{codec}", batch(1, codec))
    for _ in range(10):
        client.produce(f"many-{codec}", batch(1_000, codec))
    few = calls_of(broker, client, fetch_request(f"few-{codec}", {0: 0}))
    many = calls_of(broker, client, fetch_request(f"many-{codec}", {0: 0}))
    assert not READS_RECORDS & set(many)
    assert sum(many.values()) <= sum(few.values()) + 40, many - few
    assert sum(many.values()) < 300


def test_the_profiler_would_see_records_being_read(broker: Broker, client: RawClient) -> None:
    """A topic that asks for it has its records parsed: the tests above are not blind."""
    broker.create_topics({"checked": 1}, {"barnabas.record.validation": "full"})
    calls = calls_of(broker, client, produce_request("checked", {0: batch(1_000, CompressionType.GZIP)}))
    assert READS_RECORDS & set(calls)
    assert sum(calls.values()) > 1_000


def test_a_pipeline_of_requests_is_written_and_answered_without_a_call_more_per_request(
    broker: Broker, client: RawClient
) -> None:
    """Their replies leave in one write."""
    request = produce_request("hot", {0: batch(1, CompressionType.NONE)})
    client.call(request, 12)
    frames = b"".join(bytes(client.frame(request, 12)) for _ in range(100))
    with counted(broker) as calls:
        client.socket.sendall(frames)
        for _ in range(100):
            client.receive()
    assert calls["sendmsg"] <= 10
    assert calls["recv_into"] <= 20


@contextmanager
def peak_of(broker: Broker) -> Iterator[list[int]]:
    """The most memory that was taken at once, in bytes."""
    peak: list[int] = []
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        yield peak
        peak.append(tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()


def test_record_bytes_are_not_copied_on_produce(broker: Broker, client: RawClient) -> None:
    frame = client.frame(produce_request("hot", {0: batch_of([bytes(MIB - 200)])}), 12)
    client.socket.sendall(frame)
    client.receive()  # the buffer for large frames is in the pool from here on
    frame = client.frame(produce_request("hot", {0: batch_of([bytes(MIB - 200)])}), 12)
    with peak_of(broker) as peak:
        client.socket.sendall(frame)
        response = client.receive()
    assert response.responses[0].partition_responses[0].error_code == 0
    assert peak[0] < 100_000, "a megabyte went through"


def test_record_bytes_are_not_copied_on_fetch(broker: Broker, client: RawClient) -> None:
    broker.create_topics({"large": 1})
    for _ in range(8):
        client.produce("large", batch_of([bytes(MIB - 200)]))
    request = fetch_request("large", {0: 0}, partition_max_bytes=16 * MIB, max_bytes=16 * MIB)
    client.call(request, 12)
    into = memoryview(bytearray(64 * 1024))
    frame = client.frame(request, 12)
    with peak_of(broker) as peak, counted(broker) as calls:
        client.socket.sendall(frame)
        received = 0
        while received < 8 * (MIB - 200):
            received += client.socket.recv_into(into)
    assert calls["os.sendfile"] > 0
    assert calls["os.pread"] == 0
    assert peak[0] < 200_000, "eight megabytes went through"


def test_small_fetches_travel_in_one_write(broker: Broker, client: RawClient) -> None:
    broker.create_topics({"small": 1})
    client.produce("small", batch(10, CompressionType.NONE))
    calls = calls_of(broker, client, fetch_request("small", {0: 0}))
    assert (calls["send"], calls["sendmsg"], calls["os.sendfile"]) == (1, 0, 0)
    assert calls["os.pread"] == 1


# ---- transactions


def calls_of_a_transaction(broker: Broker, client: RawClient, partitions: int) -> tuple[Counter[str], Counter[str]]:
    """What it costs to begin one with a record in so many partitions, and to commit it. New clients add what they write
    to."""
    while (producer := init(client, "counted")).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        pass
    sent = Sent(producer.producer_id, producer.producer_epoch, 0)
    records = batch_of([b"value"], sent=sent, transactional=True)
    begin = produce_request("many", dict.fromkeys(range(partitions), records))
    begin.transactional_id = "counted"
    with counted(broker) as begun:
        answers = client.call(begin, 12).responses[0].partition_responses
    assert {answer.error_code for answer in answers} == {ErrorCode.NONE}
    with counted(broker) as ended:
        assert end(client, "counted", producer).error_code == ErrorCode.NONE
    return begun, ended


def test_a_transaction_costs_little_for_each_partition(broker: Broker, client: RawClient) -> None:
    """Where a number falls, lower it here; where it must rise, say why."""
    broker.create_topics({"many": 11})
    client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["counted"]), 4)
    calls_of_a_transaction(broker, client, 11)
    # The least of a few, and a little more: a marker is encoded again when a millisecond has passed.
    of_one, of_eleven = (
        [min(calls, key=Counter.total) for calls in zip(*(calls_of_a_transaction(broker, client, n) for _ in range(5)))]
        for n in (1, 11)
    )
    begun, ended = ((more.total() - less.total()) / 10 for less, more in zip(of_one, of_eleven))
    assert begun <= 121
    assert ended <= 80
    assert of_eleven[1]["iter_records"] == 0, "a marker is not read by who writes it"
    assert of_eleven[1]["build_end_transaction_marker"] <= 3, "it is the same in each partition"


# ---- a guard against slow decay: counts do not depend on the machine


SYSTEM_CALLS = ("recv_into", "os.write", "os.pread", "send", "sendmsg", "os.sendfile")
REQUESTS = 100  # of one kind, for what is counted over many
TURNS_BESIDE = 5  # of the loop, for timers and for the test itself
BLOCKS_KEPT_MAX = 100  # of memory after a thousand requests: one that each of them left behind would be ten times that


class Guarded(NamedTuple):
    """What a request may cost. Where a number falls, lower it here; where it must rise, say why."""

    request: Any
    version: int
    calls_max: int
    system_calls: dict[str, int]
    turns: int = 1  # of the loop, each with one look at the sockets


GUARDED = (
    "produce, one record", "produce, one record by topic id", "produce, two partitions", "produce, flush.messages=1",
    "fetch, one record", "heartbeat",
    "commit, one offset",
)  # fmt: skip


@pytest.fixture(scope="module")
def guarded(broker: Broker) -> dict[str, Guarded]:
    broker.create_topics({"wide": 2, "few": 1})
    broker.create_topics({"flushed": 1}, {"flush.messages": "1"})
    member = Member(broker.port, "guarded")
    member.find_coordinator()
    member.join_alone()
    member.close()
    heartbeat = HeartbeatRequest(group_id="guarded", generation_id=1, member_id=member.member_id)
    commit = commit_request("guarded", {("hot", 0): 1}, 1, member.member_id)
    one = batch(1, CompressionType.NONE)
    by_id = produce_request("hot", {0: one})
    assert broker._server is not None
    hot = broker._server.node.image.topic("hot")
    assert hot is not None
    by_id.topic_data[0].name, by_id.topic_data[0].topic_id = "", hot.topic_id
    with RawClient(broker.port) as client:
        client.produce("few", one)
    return {
        "produce, one record": Guarded(
            produce_request("hot", {0: one}), 12, 120, {"recv_into": 1, "os.write": 1, "send": 1},
        ),
        "produce, one record by topic id": Guarded(
            by_id, 13, 121, {"recv_into": 1, "os.write": 1, "send": 1},
        ),
        "produce, two partitions": Guarded(  # every batch is looked at before the first is written: one may refuse all
            produce_request("wide", {0: one, 1: one}), 12, 271, {"recv_into": 1, "os.write": 2, "send": 1},
        ),
        "produce, flush.messages=1": Guarded(  # a turn to see that no more come to share the flush, one when it is done
            produce_request("flushed", {0: one}), 12, 205, {"recv_into": 1, "os.write": 1, "send": 1}, turns=3,
        ),
        "fetch, one record": Guarded(
            fetch_request("few", {0: 0}), 12, 192, {"recv_into": 1, "os.pread": 1, "send": 1},
        ),
        "heartbeat": Guarded(heartbeat, 4, 177, {"recv_into": 1, "send": 1}),
        "commit, one offset": Guarded(commit, 9, 350, {"recv_into": 1, "os.write": 1, "send": 1}),
    }  # fmt: skip


def cost_of(broker: Broker, client: RawClient, request: Any, version: int) -> tuple[int, dict[str, int]]:
    """All calls but the loop's own, and which of them are system calls."""
    with counted(broker) as calls:
        client.call(request, version)
    system = {call: calls[call] for call in SYSTEM_CALLS if calls[call]}
    return sum(count for call, count in calls.items() if call not in LOOPS_OWN), system


@pytest.mark.parametrize("name", GUARDED)
def test_no_request_costs_more_than_it_did(
    broker: Broker, client: RawClient, guarded: dict[str, Guarded], name: str
) -> None:
    request, version, calls_max, system_calls, _ = guarded[name]
    client.call(request, version)
    # The least of a few: the broker may have something of its own to do, such as making the files of a new topic.
    calls, system = min((cost_of(broker, client, request, version) for _ in range(5)), key=lambda cost: cost[0])
    assert calls <= calls_max
    assert system == system_calls


@pytest.mark.parametrize("name", GUARDED)
def test_no_request_takes_more_turns_of_the_loop_than_it_did(
    broker: Broker, client: RawClient, guarded: dict[str, Guarded], name: str
) -> None:
    request, version, *_, turns = guarded[name]
    client.call(request, version)
    with counted(broker) as calls:
        for _ in range(REQUESTS):
            client.call(request, version)
    assert calls["run_once"] <= REQUESTS * turns + TURNS_BESIDE
    assert calls["poll"] <= 2 * calls["run_once"], "ours and the system's, once a turn"
    assert calls["register"] + calls["modify"] + calls["unregister"] == 0, "a socket is watched once and for all"


@pytest.mark.parametrize("name", GUARDED)
def test_no_request_leaves_memory_behind(client: RawClient, guarded: dict[str, Guarded], name: str) -> None:
    frame = bytes(client.frame(guarded[name].request, guarded[name].version))
    ask(client, frame, 100)  # what is made once is made now
    kept = []
    for _ in range(2):
        gc.collect()
        before = sys.getallocatedblocks()
        ask(client, frame, 1_000)
        gc.collect()
        kept.append(sys.getallocatedblocks() - before)
    assert min(kept) <= BLOCKS_KEPT_MAX, kept


def ask(client: RawClient, frame: bytes, times: int) -> None:
    for _ in range(times):
        client.socket.sendall(frame)
        client.receive_frame()
