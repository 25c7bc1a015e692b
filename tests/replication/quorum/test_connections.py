"""When a node of the quorum is asked again, and whether it is there at all."""

from barnabas.protocol.messages.vote import VoteRequest
from barnabas.replication.quorum.connections import Connections
from barnabas.replication.quorum.settings import QuorumConfig


def fail(connections: Connections, node_id: int, now_ms: int) -> None:
    request = VoteRequest(topics=[])
    connections.sent(node_id, request)
    assert connections.failed(node_id, request, now_ms=now_ms)


def answer(connections: Connections, node_id: int) -> None:
    request = VoteRequest(topics=[])
    connections.sent(node_id, request)
    assert connections.answered(node_id, request)


def test_a_connection_that_breaks_is_tried_again_at_once_and_then_less_and_less_often() -> None:
    connections = Connections(QuorumConfig(retry_backoff_ms=20, retry_backoff_max_ms=500))
    now_ms, pauses = 1_000, []
    for _ in range(4):
        fail(connections, 2, now_ms)
        ready_ms = connections.next_ready_ms(now_ms) or now_ms
        pauses.append(ready_ms - now_ms)
        now_ms = ready_ms
        assert connections.is_ready(2, VoteRequest, now_ms=now_ms)
    assert pauses == [0, 20, 40, 80]


def test_a_node_is_silent_from_a_failure_to_the_next_answer() -> None:
    connections = Connections(QuorumConfig())
    assert not connections.is_silent(2)
    fail(connections, 2, 0)
    assert connections.is_silent(2)
    answer(connections, 2)
    assert not connections.is_silent(2)


def test_a_request_that_nobody_waits_for_any_more_says_as_much_about_the_node() -> None:
    connections, request = Connections(QuorumConfig()), VoteRequest(topics=[])
    connections.sent(2, request)
    connections.forget_requests()
    assert not connections.failed(2, request, now_ms=0)
    assert connections.is_silent(2)
