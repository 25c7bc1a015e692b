"""How a connection ends: by the client, by a bad request, by a bug of ours, by a stop; and who must not notice."""

import socket
from random import Random
from struct import pack

import pytest

from barnabas.base.promise import Promise
from barnabas.broker.network.reply_queue import Reply
from barnabas.broker.network.session import Session
from tests.broker.network.loopback import Client, Wire, framed, frames


def test_a_dead_client_leaves_no_ghost(wire: Wire) -> None:
    client = wire.connect()
    client.request(b"park a", b"park b", b"echo")
    wire.turn_until(lambda: len(wire.toy.parked) == 2)
    client.socket.close()
    wire.turn_until(lambda: client.connection.is_closed)
    assert wire.toy.abandoned == [b"a", b"b"]
    wire.toy.keep(b"a")
    wire.settle()


def test_a_client_that_resets_its_connection_leaves_no_ghost(wire: Wire) -> None:
    client = wire.connect()
    client.request(b"park a")
    wire.turn_until(lambda: wire.toy.parked)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, pack("ii", 1, 0))
    client.socket.close()
    wire.turn_until(lambda: client.connection.is_closed)
    assert wire.toy.abandoned == [b"a"]
    assert wire.why_closed(client) is None


def test_a_mass_disconnect_stalls_nobody(wire: Wire) -> None:
    clients = [wire.connect() for _ in range(500)]
    for index, client in enumerate(clients):
        client.request(b"park %d" % index)
    wire.turn_until(lambda: len(wire.toy.parked) == 500)
    healthy = wire.connect()
    for client in clients:
        client.socket.close()
    healthy.request(b"echo")
    assert healthy.replies(1) == [b"echo"]
    wire.turn_until(lambda: len(wire.closed) == 500)
    assert len(wire.toy.abandoned) == 500


def test_a_promise_kept_after_the_client_went_is_nobodys(wire: Wire) -> None:
    client = wire.connect()
    client.request(b"park a", b"park b")
    wire.turn_until(lambda: len(wire.toy.parked) == 2)
    wire.toy.keep(b"a")
    client.connection.close()
    wire.toy.keep(b"b")
    wire.settle()
    client.read()
    assert client.received == b""


def test_an_event_of_a_connection_that_another_closed_in_the_same_turn_is_ignored(wire: Wire) -> None:
    """Its descriptor may be another connection's by then."""
    first, second = wire.connect(), wire.connect(send_buffer=4_096, receive_buffer=4_096)
    second.request(b"big 1000000")
    wire.turn_until(lambda: wire.toy.handled)

    def close_the_other(payload: bytes) -> None:
        other = second if payload == b"echo first" else first
        other.connection.close()

    wire.toy.before_reply = close_the_other
    first.request(b"echo first")
    second.request(b"echo second")
    for _ in range(100):
        second.read()
    wire.settle()
    assert len(wire.closed) == 1


def test_a_connection_that_its_own_request_closed_sends_no_more(wire: Wire) -> None:
    client = wire.connect()
    wire.toy.before_reply = lambda payload: client.connection.close("enough") if payload == b"echo 2" else None
    client.request(b"echo 1", b"echo 2", b"echo 3")
    assert client.until_cut_off() == []
    assert wire.toy.handled == [b"echo 1", b"echo 2"]
    assert wire.why_closed(client) == "enough"


def test_what_is_wrong_with_a_frame_does_not_take_the_replies_before_it(wire: Wire) -> None:
    client = wire.connect()
    client.request(b"echo 1", b"echo 2", b"bad", b"echo 3")
    assert client.until_cut_off() == [b"echo 1", b"echo 2"]
    assert wire.toy.handled[-1] == b"bad"
    assert wire.why_closed(client) == "not what the protocol allows"


def test_a_bug_closes_its_connection_is_reported_and_harms_no_other(wire: Wire) -> None:
    client, other = wire.connect(), wire.connect()
    client.request(b"echo 1", b"bug", b"echo 2")
    assert client.until_cut_off() == [b"echo 1"]
    assert wire.toy.handled == [b"echo 1", b"bug"], "what follows a bug is not handled, and nothing twice"
    assert [type(error) for error in wire.errors] == [RuntimeError]
    other.request(b"echo")
    assert other.replies(1) == [b"echo"]
    wire.errors.clear()


def test_a_bug_in_a_late_reply_closes_its_connection_and_is_reported(wire: Wire) -> None:
    client = wire.connect()
    client.request(b"park a")
    wire.turn_until(lambda: wire.toy.parked)
    wire.toy.parked.pop(b"a").fail(RuntimeError("a bug"))
    assert client.until_cut_off() == []
    assert [type(error) for error in wire.errors] == [RuntimeError]
    wire.errors.clear()


def is_idle(client: Client) -> bool:
    """A function, or mypy takes one answer for the answer of all times."""
    return client.connection.is_idle


def test_stopping_answers_what_is_here_and_takes_no_more(wire: Wire) -> None:
    client = wire.connect()
    client.request(b"park a")
    wire.turn_until(lambda: wire.toy.parked)
    client.connection.stop_reading()
    client.request(b"echo")
    wire.settle()
    assert not is_idle(client)
    wire.toy.keep(b"a")
    assert client.replies(1) == [b"a"]
    assert is_idle(client)
    assert wire.toy.handled == [b"park a"]


def test_closing_twice_is_closing_once(wire: Wire) -> None:
    client = wire.connect()
    client.connection.close("why")
    client.connection.close("again")
    assert [reason for _, reason in wire.closed] == ["why"]


def is_being_answered(client: Client) -> bool:
    return client.connection.is_being_answered


def test_a_request_that_waits_is_not_silence_of_the_client(wire: Wire) -> None:
    client = wire.connect()
    assert not is_being_answered(client)
    client.request(b"park a")
    wire.turn_until(lambda: wire.toy.parked)
    assert is_being_answered(client)
    wire.toy.keep(b"a")
    client.replies(1)
    assert not is_being_answered(client)


# Strangers


@pytest.mark.parametrize(
    ("first_bytes", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "HTTP"),
        (b"HEAD / HTTP/1.0\r\n\r\n", "HTTP"),
        (b"OPTIONS * HTTP/1.1\r\n\r\n", "HTTP"),
        (b"CONNECT kafka:9092 HTTP/1.1\r\n\r\n", "HTTP"),
        (bytes.fromhex("160301020001000001fc0303") + bytes(500), "TLS"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH"),
    ],
)
@pytest.mark.parametrize("step", [1, 10_000])
def test_a_stranger_is_named_and_closed(wire: Wire, first_bytes: bytes, reason: str, step: int) -> None:
    client = wire.connect()
    for start in range(0, len(first_bytes), step):
        client.send(first_bytes[start : start + step])
        wire.turn()
        if client.connection.is_closed:
            break
    assert client.until_cut_off() == []
    assert reason in str(wire.why_closed(client))
    assert wire.toy.handled == []


def test_only_the_first_bytes_of_a_connection_can_be_a_stranger(wire: Wire) -> None:
    client = wire.connect()
    client.request(b"echo", b"GET / HTTP/1.1")
    assert client.replies(2) == [b"echo", b"GET / HTTP/1.1"]


def test_random_bytes_never_let_an_exception_escape(wire: Wire) -> None:
    random = Random(7)
    for _ in range(300):
        client = wire.connect()
        client.send(random.randbytes(random.choice([1, 3, 4, 5, 100, 5_000])))
        wire.turn()
        client.socket.close()
    wire.turn_until(lambda: len(wire.closed) == 300)
    wire.clients.clear()


def test_every_reply_of_a_pipeline_with_promises_arrives_once(wire: Wire) -> None:
    random = Random(11)
    client = wire.connect(send_buffer=4_096, receive_buffer=4_096)
    expected: list[bytes] = []
    names = [b"%d" % index for index in range(300)]
    for name in names:
        client.request(b"park " + name, b"echo " + name)
        expected += [name, b"echo " + name]
    received: list[bytes] = []
    while len(received) < len(expected):
        wire.turn()
        for name in random.sample(sorted(wire.toy.parked), min(3, len(wire.toy.parked))):
            wire.toy.keep(name)
        received = whole(client)
    assert received == expected


def whole(client: Client) -> list[bytes]:
    """The replies so far, if the last is whole."""
    client.read()
    try:
        return frames(bytes(client.received))
    except Exception:
        return []


def test_a_promise_made_and_kept_at_once_by_a_handler_counts_as_a_reply(wire: Wire) -> None:
    client = wire.connect()
    kept: Promise[Reply] = Promise()
    kept.resolve(framed(b"kept"))

    def dispatch(frame: memoryview, session: Session) -> Promise[Reply]:
        return kept

    client.connection._dispatch = dispatch
    client.request(b"anything")
    assert client.replies(1) == [b"kept"]
