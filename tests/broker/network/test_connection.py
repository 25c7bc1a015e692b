import tracemalloc
from random import Random
from struct import pack

import pytest

from barnabas.broker.network.buffers import FIRST_BYTES, POOLED_BYTES
from barnabas.broker.network.reply_queue import MAX_IN_FLIGHT, MAX_UNSENT_BYTES, SENDFILE_ABOVE_BYTES
from barnabas.protocol.errors import KafkaError
from tests.broker.network.loopback import MAX_FRAME_BYTES, Wire, content, frame, slice_reply

MIB = 1024 * 1024


# Frames in


def test_a_request_is_answered(wire: Wire) -> None:
    client = wire.connect()
    client.request(b"echo")
    assert client.replies(1) == [b"echo"]


def test_a_stream_may_arrive_byte_by_byte(wire: Wire) -> None:
    client = wire.connect()
    for byte in frame(b"echo 1") + frame(b"") + frame(b"echo 2"):
        client.send(bytes([byte]))
        wire.turn()
    assert client.replies(3) == [b"echo 1", b"", b"echo 2"]


def test_several_frames_in_one_read_are_all_handled_and_half_a_frame_waits(wire: Wire) -> None:
    client = wire.connect()
    client.send(frame(b"echo 1") + frame(b"echo 2") + frame(b"echo 3")[:7])
    assert client.replies(2) == [b"echo 1", b"echo 2"]
    assert client.connection.is_halfway
    client.send(frame(b"echo 3")[7:] + frame(b"echo 4"))
    assert client.replies(2) == [b"echo 3", b"echo 4"]
    assert not client.connection.is_halfway


@pytest.mark.parametrize(
    "size",
    [
        0, 1, 16 * 1024 - 5, 16 * 1024 - 4, 16 * 1024 - 3, 16 * 1024,  # where a frame stops being small
        POOLED_BYTES // 8, POOLED_BYTES - 4, POOLED_BYTES - 3, POOLED_BYTES,  # what one read can bring
        POOLED_BYTES + 1, 3 * MIB, MAX_FRAME_BYTES,  # where a buffer must grow
    ],
)  # fmt: skip
@pytest.mark.parametrize("first_bytes", [2, 5_000, 40_000, 100_000, None])
def test_a_frame_of_any_size_arrives_whole(wire: Wire, size: int, first_bytes: int | None) -> None:
    """Cut behind `first_bytes`, and with neighbours on both sides."""
    client = wire.connect()
    request = frame(content(size))
    stream = frame(b"echo before") + request + frame(b"echo after")
    cut = len(stream) if first_bytes is None else 15 + first_bytes
    client.send(stream[:cut])
    wire.turn()
    client.send(stream[cut:])
    client.replies(3)
    assert wire.toy.handled == [b"echo before", content(size), b"echo after"]


def test_large_frames_of_many_clients_do_not_mix(wire: Wire) -> None:
    clients = [wire.connect() for _ in range(6)]
    requests = [frame(bytes([65 + index]) * (600_000 + index * 200_000)) for index in range(6)]
    for start in range(0, 1_700_000, 100_000):
        for client, request in zip(clients, requests):
            client.send(request[start : start + 100_000])
        wire.turn()
    for client, request in zip(clients, requests):
        assert client.replies(1) == [request[4:]]


def test_a_large_frame_stays_where_it_arrived_and_others_arrive_elsewhere(wire: Wire) -> None:
    slow, quick = wire.connect(), wire.connect()
    request, scratch = frame(content(300_000)), wire.buffers.scratch
    slow.send(request[:200_000])
    wire.turn_until(lambda: slow.connection.is_halfway)
    assert wire.buffers.scratch is not scratch
    assert scratch[:1_000] == request[:1_000]
    quick.send(frame(content(50_000, 1)))
    assert quick.replies(1) == [content(50_000, 1)]
    slow.send(request[200_000:])
    assert slow.replies(1) == [content(300_000)]


@pytest.mark.parametrize("seed", range(15))
def test_however_a_stream_is_cut_it_means_the_same(wire: Wire, log_file: None, seed: int) -> None:
    random = Random(seed)
    client = wire.connect(send_buffer=random.choice([0, 4_096]), receive_buffer=random.choice([0, 4_096]))
    requests, expected = [], []
    for index in range(random.randrange(1, 60)):
        match random.randrange(6):
            case 0:
                size = random.choice([1, 100, SENDFILE_ABOVE_BYTES, SENDFILE_ABOVE_BYTES + 1, 60_000])
                requests.append(b"slice %d" % size)
                expected.append(slice_reply(size))
            case 1:
                requests.append(b"none")
            case 2:
                requests.append(b"big %d" % (size := random.choice([0, 10, 70_000])))
                expected.append(bytes(size))
            case 3:
                requests.append(payload := content(random.choice([17_000, 90_000]), index))
                expected.append(payload)
            case _:
                requests.append(payload := b"echo %d" % index)
                expected.append(payload)
    stream = b"".join(map(frame, requests))
    while stream:
        cut = random.choice([1, 3, 50, 5_000, 70_000, len(stream)])
        client.send(stream[:cut])
        stream = stream[cut:]
        wire.turn()
        if random.random() < 0.5:
            client.read(random.choice([10, 10_000]))
    assert client.replies(len(expected)) == expected, f"seed={seed}"


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        (-1, "negative size -1"),
        (-(2**31), "negative size"),
        (MAX_FRAME_BYTES + 1, "above the"),
        (2**31 - 1, "above the"),
    ],
)
@pytest.mark.parametrize("step", [1, 1_000])
def test_a_frame_of_impossible_size_closes_the_connection(wire: Wire, size: int, reason: str, step: int) -> None:
    client = wire.connect()
    stream = frame(b"echo") + pack(">i", size) + b"x" * 100
    for start in range(0, len(stream), step):
        client.send(stream[start : start + step])
        wire.turn()
        if client.connection.is_closed:
            break
    assert client.until_cut_off() == [b"echo"]
    assert reason in str(wire.why_closed(client))


def test_a_huge_length_takes_no_memory_before_its_bytes_are_there(wire: Wire) -> None:
    count = 200
    clients = [wire.connect() for _ in range(count)]
    tracemalloc.start()
    try:
        for client in clients:
            client.send(pack(">i", MAX_FRAME_BYTES) + b"x")
        wire.settle()
        held, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert all(client.connection.is_halfway for client in clients)
    assert held < count * (FIRST_BYTES + 4_096)


def test_the_pool_of_large_buffers_is_bounded(wire: Wire) -> None:
    clients = [wire.connect() for _ in range(20)]
    for client in clients:
        client.send(frame(content(2 * MIB))[:-1])
    wire.settle()
    for client in clients:
        client.send(content(2 * MIB)[-1:])
    for client in clients:
        assert client.replies(1) == [content(2 * MIB)]
    assert len(wire.buffers._pool) <= 8


def test_a_disk_that_cannot_be_read_closes_the_connection_and_is_reported(wire: Wire, log_file: None) -> None:
    """An OSError of ours is not one of the client's socket."""
    client = wire.connect()
    wire.toy.file.close()
    client.request(b"echo", b"slice 10")
    wire.turn_until(client.read)
    assert client.received.startswith(frame(b"echo"))
    assert "Bad file descriptor" in str(wire.why_closed(client))
    assert [type(error) for error in wire.errors] == [OSError]
    wire.errors.clear()


# Replies out


def test_replies_of_one_read_leave_in_one_write(wire: Wire) -> None:
    client = wire.connect()
    payloads = [b"echo %d" % index for index in range(50)]
    client.request(*payloads)
    assert client.replies(50) == payloads
    assert client.broker_end.sends == 1


def test_more_replies_than_one_sendmsg_takes_stay_in_order(wire: Wire) -> None:
    client = wire.connect()
    payloads = [b"echo %d" % index for index in range(5_000)]
    client.request(*payloads)
    assert client.replies(5_000) == payloads


def test_replies_follow_the_order_of_their_requests_not_that_of_their_promises(wire: Wire) -> None:
    client = wire.connect()
    client.request(b"park a", b"echo 1", b"park b", b"none", b"park c", b"echo 2")
    wire.turn_until(lambda: len(wire.toy.parked) == 3)
    for name in (b"c", b"b"):
        wire.toy.keep(name)
        wire.settle()
        client.read()
        assert client.received == b"", "nothing may overtake"
    wire.toy.keep(b"a")
    assert client.replies(5) == [b"a", b"echo 1", b"b", b"c", b"echo 2"]
    assert client.broker_end.sends == 1, "what became ready together leaves together"


def test_requests_behind_a_parked_one_are_handled_meanwhile(wire: Wire) -> None:
    client = wire.connect()
    client.request(b"park a")
    wire.turn_until(lambda: wire.toy.parked)
    client.request(b"echo 1")
    wire.turn_until(lambda: b"echo 1" in wire.toy.handled)


def test_a_promise_that_is_already_kept_is_answered_at_once(wire: Wire) -> None:
    client = wire.connect()
    wire.toy.before_reply = lambda payload: wire.toy.keep(b"a") if payload == b"echo" else None
    client.request(b"park a", b"echo")
    assert client.replies(2) == [b"a", b"echo"]
    assert client.broker_end.sends == 1, "a promise kept by a request behind it joins the same write"


def test_promises_kept_in_the_middle_of_a_request_do_not_cut_into_replies(
    wire: Wire,
) -> None:
    """A produce wakes the fetches of other connections, and one of its own."""
    reader, writer = wire.connect(), wire.connect()
    reader.request(b"park reader", b"big 300000", b"echo reader")
    writer.request(b"park writer")
    wire.turn_until(lambda: len(wire.toy.parked) == 2)

    def produce(payload: bytes) -> None:
        if payload == b"echo produce":
            wire.toy.keep(b"reader")
            wire.toy.keep(b"writer")

    wire.toy.before_reply = produce
    writer.request(b"big 300000", b"echo produce", b"echo after")
    assert writer.replies(4) == [b"writer", bytes(300_000), b"echo produce", b"echo after"]
    assert reader.replies(3) == [b"reader", bytes(300_000), b"echo reader"]
    assert len(wire.toy.handled) == 7, "no request is handled twice"


def test_a_failed_promise_closes_the_connection_after_the_replies_before_it(wire: Wire) -> None:
    client = wire.connect()
    client.request(b"park a", b"park b", b"echo")
    wire.turn_until(lambda: len(wire.toy.parked) == 2)
    wire.toy.parked.pop(b"b").fail(KafkaError("there is no answer"))
    wire.toy.keep(b"a")
    assert client.until_cut_off() == [b"a"]
    assert wire.why_closed(client) == "there is no answer"


def test_a_bad_request_closes_the_connection_after_the_replies_before_it_that_are_still_to_come(wire: Wire) -> None:
    client = wire.connect()
    client.request(b"park a", b"echo b", b"bad", b"echo c")
    wire.turn_until(lambda: wire.toy.parked)
    client.request(b"echo d")
    wire.turn()
    assert wire.toy.handled == [b"park a", b"echo b", b"bad"], "nothing behind it is handled"
    wire.toy.keep(b"a")
    assert client.until_cut_off() == [b"a", b"echo b"]


@pytest.mark.parametrize("size", [1, SENDFILE_ABOVE_BYTES, SENDFILE_ABOVE_BYTES + 1, 100_000, 2 * MIB])
@pytest.mark.parametrize("buffer_bytes", [0, 2_048])
def test_slices_of_a_file_and_the_bytes_around_them_stay_in_order(
    wire: Wire, log_file: None, size: int, buffer_bytes: int
) -> None:
    client = wire.connect(send_buffer=buffer_bytes, receive_buffer=buffer_bytes)
    count = 3 if size > 10_000 else 100
    for index in range(count):
        client.request(b"echo %d" % index, b"slice %d" % size)
    expected = [reply for index in range(count) for reply in (b"echo %d" % index, slice_reply(size))]
    assert client.replies(2 * count) == expected


def test_a_file_that_ends_before_the_promised_records_closes_the_connection(wire: Wire, log_file: None) -> None:
    client = wire.connect()
    wire.toy.file.truncate(50_000)
    client.request(b"slice 100000")
    wire.turn_until(client.read)
    assert "the file ended" in str(wire.why_closed(client))


def test_payloads_are_not_copied_for_each_reader(wire: Wire, log_file: None) -> None:
    clients = [wire.connect(send_buffer=4_096, receive_buffer=4_096) for _ in range(20)]
    tracemalloc.start()
    try:
        for client in clients:
            client.request(b"slice %d" % (2 * MIB))
        wire.settle()
        _held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(wire.toy.handled) == 20
    assert peak < 500_000, "forty megabytes are on their way"


# Clients that do not keep up


def test_who_does_not_read_is_not_read_and_goes_on_when_it_reads(wire: Wire) -> None:
    client = wire.connect(send_buffer=4_096, receive_buffer=4_096)
    payloads = [b"big %d" % (10_000 + index) for index in range(200)]
    client.request(*payloads)
    wire.settle()
    handled = len(wire.toy.handled)
    assert handled < 60, "two megabytes of replies would wait in memory"
    assert client.connection._replies.unsent_bytes < MAX_UNSENT_BYTES + 20_000
    wire.settle()
    assert len(wire.toy.handled) == handled, "nothing is handled for a client that does not read"
    assert [len(reply) for reply in client.replies(200)] == [10_000 + index for index in range(200)]


def test_a_client_that_does_not_read_soon_cannot_send_either(wire: Wire) -> None:
    client = wire.connect(send_buffer=4_096, receive_buffer=4_096)
    client.request(b"big 500000")
    wire.turn_until(lambda: wire.toy.handled)
    request, sent = frame(content(100_000)), 0
    for _ in range(1_000):
        wire.turn()
        try:
            sent += client.socket.send(request)
        except BlockingIOError:
            break
    else:
        pytest.fail(f"{sent} bytes were taken from a client that reads nothing")
    assert len(wire.toy.handled) == 1


def test_requests_behind_a_reply_that_the_socket_took_at_once_are_not_forgotten(wire: Wire) -> None:
    """The client waits for these replies and sends nothing that would wake the connection."""
    client = wire.connect()
    client.request(b"big 300000", b"echo 1", b"big 300000", b"echo 2")
    assert [len(reply) for reply in client.replies(4)] == [300_000, 6, 300_000, 6]


def test_requests_behind_too_many_that_wait_are_handled_as_those_are_answered(wire: Wire) -> None:
    client = wire.connect()
    client.request(*(b"park %d" % index for index in range(2 * MAX_IN_FLIGHT)), b"echo")
    wire.settle()
    assert len(wire.toy.handled) == MAX_IN_FLIGHT
    for index in range(2 * MAX_IN_FLIGHT):
        name = b"%d" % index
        wire.turn_until(lambda name=name: name in wire.toy.parked)  # type: ignore[misc]
        wire.toy.keep(name)
    replies = client.replies(2 * MAX_IN_FLIGHT + 1)
    assert replies == [b"%d" % index for index in range(2 * MAX_IN_FLIGHT)] + [b"echo"]


def test_a_slow_reader_does_not_block_the_writer(wire: Wire, log_file: None) -> None:
    slow = [wire.connect(send_buffer=4_096, receive_buffer=4_096) for _ in range(10)]
    for client in slow:
        client.request(*[b"slice 400000"] * 5)
    wire.settle()
    publisher = wire.connect()
    for index in range(100):
        publisher.request(b"echo %d" % index)
        assert publisher.replies(1) == [b"echo %d" % index]
    assert [client.replies(5) for client in slow] == [[slice_reply(400_000)] * 5] * 10


def test_a_client_that_goes_away_with_replies_unread_is_closed_without_a_word(wire: Wire, log_file: None) -> None:
    client, other = wire.connect(send_buffer=4_096, receive_buffer=4_096), wire.connect()
    client.request(b"slice 1000000", b"big 100000")
    wire.settle()
    client.socket.close()
    wire.turn_until(lambda: client.connection.is_closed)
    assert wire.why_closed(client) is None
    other.request(b"echo")
    assert other.replies(1) == [b"echo"]
