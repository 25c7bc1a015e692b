"""Replies leave in the order of their requests, whole, whatever a transport takes at a time; no socket anywhere."""

from collections.abc import Sequence
from random import Random

import pytest

from barnabas.base.files import Buffer, FileSlice
from barnabas.base.network import OnEvent
from barnabas.base.promise import Promise
from barnabas.broker.network.reply_queue import (
    MAX_IN_FLIGHT,
    MAX_UNSENT_BYTES,
    SENDFILE_ABOVE_BYTES,
    Reply,
    ReplyQueue,
)
from barnabas.protocol.errors import KafkaStorageError


class Records:
    """A file of a log, as much of one as a slice needs."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def pread(self, size: int, position: int) -> bytes:
        return self.data[position : position + size]


class Pipe:
    """A transport that takes as many bytes as a test allows, and says by which call."""

    peer = local = ("", 0)

    def __init__(self, room: int = 1 << 40) -> None:
        self.room = room
        self.taken = bytearray()
        self.calls: list[str] = []

    def _take(self, call: str, data: bytes) -> int:
        if not self.room:
            raise BlockingIOError
        count = min(self.room, len(data))
        self.room -= count
        self.taken += data[:count]
        self.calls.append(call)
        return count

    def send(self, data: Buffer) -> int:
        return self._take("send", bytes(data))

    def send_buffers(self, buffers: Sequence[Buffer], *, more: bool) -> int:
        return self._take("send_buffers+" if more else "send_buffers", b"".join(buffers))

    def send_file(self, records: FileSlice) -> int:
        return self._take("send_file", records.read())

    def receive_into(self, buffer: memoryview) -> int:
        raise BlockingIOError

    def watch(self, events: int, on_event: OnEvent) -> None: ...

    def close(self) -> None: ...


def whole(data: bytes) -> Reply:
    return data, ()


def with_records(records: bytes) -> Reply:
    """A reply with records between `<` and `>`."""
    return b"<>", [(1, FileSlice(Records(records), 0, len(records)))]  # type: ignore[arg-type]


def with_many_records(count: int) -> Reply:
    """A reply with as many records, each of which has a `|` before it."""
    slices = [FileSlice(Records(b"%d" % number), 0, len(b"%d" % number)) for number in range(count)]  # type: ignore[arg-type]
    return b"|" * count, [(number + 1, records) for number, records in enumerate(slices)]


def promised() -> Promise[Reply]:
    return Promise()


def test_replies_leave_in_the_order_of_their_requests() -> None:
    queue, pipe, first, third = ReplyQueue(), Pipe(), promised(), promised()
    assert queue.add(first) is first
    assert queue.add(whole(b"2")) is None
    assert queue.add(third) is third
    assert queue.add(whole(b"4")) is None
    third.resolve(whole(b"3"))
    queue.settle()
    assert not queue.send_to(pipe), "the first is not answered"
    first.resolve(whole(b"1"))
    assert queue.has_settled
    queue.settle()
    assert queue.send_to(pipe)
    assert pipe.taken == b"1234"
    assert queue.is_empty


@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 64, 200])
def test_many_small_slices_leave_where_they_belong(count: int) -> None:
    queue, pipe = ReplyQueue(), Pipe()
    queue.add(with_many_records(count))
    queue.send_to(pipe)
    assert pipe.taken == b"".join(b"|%d" % number for number in range(count))
    assert queue.is_empty


def test_a_small_slice_of_a_file_that_was_cut_is_not_sent_short() -> None:
    with pytest.raises(KafkaStorageError, match="was cut"):
        ReplyQueue().add((b"<>", [(1, FileSlice(Records(b"few"), 0, 4))]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("replies", "calls"),
    [
        ([whole(b"one")], ["send"]),
        ([whole(b"one"), whole(b"two")], ["send_buffers"]),  # the replies of one turn are one write
        ([with_records(b"few")], ["send"]),  # small slices travel with what surrounds them
        ([with_many_records(200)], ["send_buffers"]),  # however many there are
        ([with_records(bytes(SENDFILE_ABOVE_BYTES + 1))], ["send_buffers+", "send_file", "send"]),  # more follows
        ([None], []),  # acks=0
        ([whole(bytes([n])) for n in range(65)], ["send_buffers+", "send"]),  # a system call takes only so many
    ],
)
def test_what_is_sent_by_which_call(replies: list[Reply], calls: list[str]) -> None:
    queue, pipe = ReplyQueue(), Pipe()
    for reply in replies:
        queue.add(reply)
    queue.send_to(pipe)
    assert pipe.calls == calls
    assert queue.is_empty


@pytest.mark.parametrize("seed", range(100))
def test_every_byte_is_sent_once_and_in_order_whatever_is_taken_at_a_time(seed: int) -> None:
    random, queue, pipe = Random(seed), ReplyQueue(), Pipe(0)
    expected = bytearray()
    for _ in range(30):
        data = random.randbytes(random.choice([1, 10, 2_000]))
        if random.random() < 0.4:
            records = random.randbytes(random.choice([0, 5, SENDFILE_ABOVE_BYTES + 100]))
            queue.add(with_records(records))
            expected += b"<" + records + b">"
        else:
            queue.add(whole(data))
            expected += data
        pipe.room = random.choice([0, 1, 7, 3_000, 40_000])
        queue.send_to(pipe)
        assert pipe.taken == expected[: len(pipe.taken)]
        assert queue.unsent_bytes == len(expected) - len(pipe.taken)
    pipe.room = 1 << 40
    queue.send_to(pipe)
    assert (pipe.taken, queue.unsent_bytes, queue.is_empty) == (expected, 0, True)


def test_a_client_that_does_not_read_is_behind_until_it_does() -> None:
    queue, pipe = ReplyQueue(), Pipe(0)
    queue.add(whole(bytes(MAX_UNSENT_BYTES)))
    assert not queue.is_behind()
    queue.add(whole(b"!"))
    assert queue.is_behind()
    pipe.room = 1
    queue.send_to(pipe)
    assert not queue.is_behind()


def test_a_client_with_many_requests_under_way_is_behind_until_one_is_answered() -> None:
    queue, promises = ReplyQueue(), [promised() for _ in range(MAX_IN_FLIGHT)]
    for promise in promises:
        assert not queue.is_behind()
        queue.add(promise)
    assert queue.is_behind()
    promises[0].resolve(None)
    queue.settle()
    assert not queue.is_behind()


def test_an_error_is_raised_when_the_replies_before_it_are_enqueued() -> None:
    queue, pipe, first = ReplyQueue(), Pipe(), promised()
    queue.add(first)
    queue.add_error(ValueError("wrong"))
    queue.settle()
    first.resolve(whole(b"first"))
    with pytest.raises(ValueError, match="wrong"):
        queue.settle()
    queue.send_to(pipe)
    assert pipe.taken == b"first"


def test_what_nobody_waits_for_is_abandoned() -> None:
    abandoned: list[int] = []
    queue = ReplyQueue()
    queue.add(whole(b"unsent"))
    queue.add(Promise(lambda: abandoned.append(1)))
    queue.abandon()
    assert (abandoned, queue.is_empty, queue.unsent_bytes) == ([1], True, 0)
