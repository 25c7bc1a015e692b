"""The request client over real loopback TCP, its loop turned by hand, and a peer that does what a test asks of it."""

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.base.network import Address, SocketOptions, Transport
from barnabas.base.promise import Promise
from barnabas.broker.network.buffers import Buffers
from barnabas.broker.network.connection import Connection
from barnabas.broker.network.peer_client import PeerClient, PeerSettings, PeerUnavailable, State
from barnabas.broker.network.reply_queue import Reply
from barnabas.broker.network.session import Session
from barnabas.broker.system.environment import system_environment
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.frame import decode_request_header, encode_response
from barnabas.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.fakes import FakeReport

PATIENCE_S = 20
QUICK = PeerSettings(reconnect_backoff_ms=1, reconnect_backoff_max_ms=4)
ASK = HeartbeatRequest(group_id="group", generation_id=1, member_id="member")
SERVED = {ApiKey.API_VERSIONS: (0, 4), ApiKey.HEARTBEAT: (0, 4)}


class Peer:
    """Answers ApiVersions, and everything else with the number of the request, at once or when it is told to."""

    def __init__(self) -> None:
        self.report = FakeReport()
        self.environment, self.loop, self._workers, self._lookups = system_environment(self.report)
        self.buffers = Buffers()
        self.connections: list[Connection] = []
        self.versions: list[int] = []
        self.served = dict(SERVED)
        self.answers_at_once = True
        self.waiting: list[tuple[Promise[Reply], int, int]] = []
        self.answer_id: Callable[[int], int] = lambda correlation_id: correlation_id
        self.clients: list[PeerClient] = []
        self.server = self._listen(0)

    def _listen(self, port: int) -> Any:
        server = self.environment.network.bind("127.0.0.1", port, SocketOptions(backlog=16))
        server.accept(self._accept)
        return server

    def _accept(self, transport: Transport) -> None:
        self.connections.append(
            Connection(
                transport,
                listener="INTERNAL",
                clock=self.loop,
                buffers=self.buffers,
                dispatch=self._dispatch,
                max_frame_bytes=1 << 20,
                on_close=lambda connection, _reason: self.connections.remove(connection),
            )
        )

    def _dispatch(self, frame: memoryview, session: Session) -> Promise[Reply] | Reply:
        header, _ = decode_request_header(frame, {ApiKey.HEARTBEAT: 4, ApiKey.API_VERSIONS: 3})
        if header.api_key == ApiKey.API_VERSIONS:
            keys = [
                ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.served.items()
            ]
            return encode_response(
                ApiVersionsResponse(error_code=0, api_keys=keys), header.api_version, header.correlation_id
            )
        self.versions.append(header.api_version)
        if self.answers_at_once:
            return self._answer(header.correlation_id, header.api_version)
        promise: Promise[Reply] = Promise()
        self.waiting.append((promise, header.correlation_id, header.api_version))
        return promise

    def _answer(self, correlation_id: int, version: int) -> Reply:
        response = HeartbeatResponse(throttle_time_ms=correlation_id, error_code=0)
        return encode_response(response, version, self.answer_id(correlation_id))

    def answer_all(self) -> None:
        for promise, correlation_id, version in self.waiting:
            promise.resolve(self._answer(correlation_id, version))
        self.waiting.clear()

    def client(self, settings: PeerSettings = QUICK, port: int = 0, host: str = "127.0.0.1") -> PeerClient:
        address = Address(host, port or self.server.address[1])
        client = PeerClient(address, self.environment, self.buffers, client_id="broker-1", settings=settings)
        self.clients.append(client)
        return client

    def hang_up(self) -> None:
        for connection in list(self.connections):
            connection.close()

    def stop_listening(self) -> int:
        port: int = self.server.address[1]
        self.server.close()
        return port

    def turn_until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, "it did not come true in time"
            self.loop.call_later(2, lambda: None)
            self.loop.run_once()

    def kept(self, *promises: Promise[Any]) -> list[Any]:
        self.turn_until(lambda: all(promise.done for promise in promises))
        return [promise.error or promise.value for promise in promises]

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.hang_up()
        self.server.close()
        self._workers.close()
        self._lookups.close()
        self.loop.close()


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.close()


def ask(client: PeerClient, **options: Any) -> Promise[HeartbeatResponse]:
    return client.send(ASK, HeartbeatResponse, **options)


def test_requests_are_pipelined_on_one_connection_and_answered_in_order(peer: Peer) -> None:
    peer.answers_at_once = False
    client = peer.client()
    promises = [ask(client) for _ in range(10)]
    peer.turn_until(lambda: len(peer.waiting) == 10)
    assert len(peer.connections) == 1
    assert not any(promise.done for promise in promises)
    peer.answer_all()
    numbers = [response.throttle_time_ms for response in peer.kept(*promises)]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize(
    ("served", "max_version", "version"),
    [
        ((0, 4), None, 4),  # the highest of ours
        ((0, 2), None, 2),  # of theirs
        ((0, 4), 1, 1),  # that the caller allows
        ((4, 9), None, 4),
    ],
)
def test_a_request_travels_in_the_highest_version_of_both(
    peer: Peer, served: tuple[int, int], max_version: int | None, version: int
) -> None:
    peer.served[ApiKey.HEARTBEAT] = served
    peer.kept(ask(peer.client(), max_version=max_version))
    assert peer.versions == [version]


@pytest.mark.parametrize("served", [None, (5, 9)])
def test_a_request_that_the_peer_does_not_serve_fails_and_others_go_on(
    peer: Peer, served: tuple[int, int] | None
) -> None:
    if served is None:
        del peer.served[ApiKey.HEARTBEAT]
    else:
        peer.served[ApiKey.HEARTBEAT] = served
    client = peer.client()
    (error,) = peer.kept(ask(client))
    assert error.code == ErrorCode.UNSUPPORTED_VERSION
    assert client.state is State.READY


def test_a_request_that_cannot_be_encoded_holds_up_nobody(peer: Peer) -> None:
    client = peer.client()
    broken = ASK.__class__(group_id="g" * 40_000, generation_id=1, member_id="m")
    error, response = peer.kept(client.send(broken, HeartbeatResponse), ask(client))
    assert error.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert isinstance(response, HeartbeatResponse)


def test_a_name_is_looked_up(peer: Peer) -> None:
    (response,) = peer.kept(ask(peer.client(host="localhost")))
    assert isinstance(response, HeartbeatResponse)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "no-such-host.invalid"])
def test_a_peer_that_cannot_be_reached_fails_what_waits_for_it_at_once(peer: Peer, host: str) -> None:
    client = peer.client(port=peer.stop_listening(), host=host)
    for error in peer.kept(ask(client), ask(client)):
        assert isinstance(error, PeerUnavailable)
        assert not error.was_sent


def test_what_was_sent_on_a_connection_that_broke_fails_and_the_next_request_connects_again(peer: Peer) -> None:
    peer.answers_at_once = False
    client = peer.client()
    sent = ask(client)
    peer.turn_until(lambda: peer.waiting)
    peer.hang_up()
    (error,) = peer.kept(sent)
    assert isinstance(error, PeerUnavailable)
    assert error.was_sent
    peer.answers_at_once = True
    (response,) = peer.kept(ask(client))
    assert isinstance(response, HeartbeatResponse)


def test_a_request_that_was_not_sent_waits_for_the_next_connection(peer: Peer) -> None:
    peer.answers_at_once = False
    client = peer.client(QUICK._replace(max_in_flight=1))
    sent, waiting = ask(client), ask(client)
    peer.turn_until(lambda: peer.waiting)
    peer.answers_at_once = True
    peer.hang_up()
    error, response = peer.kept(sent, waiting)
    assert isinstance(error, PeerUnavailable)
    assert isinstance(response, HeartbeatResponse)


def test_a_request_that_is_not_answered_in_time_fails_and_takes_its_connection_along(peer: Peer) -> None:
    peer.answers_at_once = False
    client = peer.client()
    client.send(ASK, HeartbeatResponse)
    peer.turn_until(lambda: peer.waiting)  # the connection stands, and one is under way
    late, other = ask(client, timeout_ms=500), ask(client)  # long enough to be sent, on a busy machine too
    late_error, other_error = peer.kept(late, other)
    assert isinstance(late_error, KafkaError)
    assert late_error.code == ErrorCode.REQUEST_TIMED_OUT
    assert isinstance(other_error, PeerUnavailable)
    peer.turn_until(lambda: not peer.connections)


def test_the_timer_of_deadlines_follows_the_request_that_waits_and_never_passes_one(peer: Peer) -> None:
    client = peer.client()
    peer.kept(ask(client, timeout_ms=60_000))
    before_ms = client._timer_due_ms
    peer.answers_at_once = False
    waiting = ask(client, timeout_ms=90_000)
    alone_ms = client._timer_due_ms
    assert alone_ms >= before_ms + 30_000, "an idle broker would wake for a request that was answered long ago"
    ask(client, timeout_ms=99_000)
    assert client._timer_due_ms == alone_ms, "the first is still under way"
    ask(client, timeout_ms=80_000)
    assert client._timer_due_ms < alone_ms
    assert not waiting.done


def test_a_peer_that_accepts_and_says_nothing_is_given_up(peer: Peer) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        client = peer.client(QUICK._replace(connection_setup_timeout_ms=30), port=silent.getsockname()[1])
        (error,) = peer.kept(ask(client))
    assert isinstance(error, PeerUnavailable)
    assert "not set up in time" in error.message


def test_a_peer_that_answers_another_request_is_given_up(peer: Peer) -> None:
    peer.answer_id = lambda correlation_id: correlation_id + 1
    (error,) = peer.kept(ask(peer.client()))
    assert isinstance(error, PeerUnavailable)
    assert "is the oldest" in error.message


def test_a_peer_that_announces_more_than_any_response_is_given_up(peer: Peer) -> None:
    with socket.socket() as absurd:
        absurd.bind(("127.0.0.1", 0))
        absurd.listen()
        client = peer.client(port=absurd.getsockname()[1])
        promise = ask(client)
        peer.turn_until(lambda: client.state is State.NEGOTIATING)
        accepted, _ = absurd.accept()
        with accepted:
            accepted.sendall(b"\x7f\xff\xff\xff and more")
            (error,) = peer.kept(promise)
    assert isinstance(error, PeerUnavailable)
    assert "above the" in error.message
    peer.turn_until(lambda: client.state is State.BACKING_OFF)
    assert peer.report.lines == []


def test_a_peer_that_comes_back_is_found_again(peer: Peer) -> None:
    port = peer.stop_listening()
    client = peer.client(port=port)
    peer.kept(ask(client))
    peer.server = peer._listen(port)
    (response,) = peer.kept(ask(client))  # after the pause
    assert isinstance(response, HeartbeatResponse)


def test_a_client_that_is_closed_leaves_nobody_waiting(peer: Peer) -> None:
    peer.answers_at_once = False
    client = peer.client()
    sent = ask(client)
    peer.turn_until(lambda: peer.waiting)
    queued = ask(client)
    client.close()
    after = ask(client)
    errors = peer.kept(sent, queued, after)
    assert [error.was_sent for error in errors] == [True, False, False]
    peer.turn_until(lambda: not peer.connections)


def test_large_responses_and_requests_arrive_whole(peer: Peer) -> None:
    client = peer.client()
    long = HeartbeatRequest(group_id="g" * 30_000, generation_id=1, member_id="member")
    promises = [client.send(long, HeartbeatResponse, max_version=3) for _ in range(100)]
    assert all(isinstance(response, HeartbeatResponse) for response in peer.kept(*promises))
