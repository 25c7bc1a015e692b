"""A coordinator that moves or is not ready: what the client does when a broker says so."""

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.client.client import Client
from barnabas.client.group_admin import delete_group, list_groups
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.frame import encode_response
from barnabas.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from barnabas.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from barnabas.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from barnabas.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from barnabas.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from tests.barnabas.client.test_client import Stranger

VERSIONS = {18: 3, 3: 12, 10: 4, 16: 5, 42: 2}


class Scripted(Stranger):
    """A broker that answers each API by the next line of its script; the last line stays."""

    def __init__(self, script: dict[int, list[Callable[["Scripted"], Any]]]) -> None:
        self.script = script
        self.asked: list[int] = []
        self.talks: list[threading.Thread] = []
        super().__init__(self._next_line)

    def _talk(self, connection: socket.socket) -> None:
        """A client has two connections: to whom it first reached, and to the coordinator."""
        duplicate = connection.dup()
        self.talks.append(threading.Thread(target=self._talk_on, args=(duplicate,)))
        self.talks[-1].start()

    def _talk_on(self, connection: socket.socket) -> None:
        with connection:
            super()._talk(connection)

    def stop(self) -> None:
        super().stop()
        for talk in self.talks:
            talk.join()

    def _next_line(self, frame: bytes) -> bytes:
        api_key, correlation_id = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[4:8], "big")
        if api_key == 18:
            keys = [ApiVersion(api_key=key, min_version=0, max_version=version) for key, version in VERSIONS.items()]
            response: Any = ApiVersionsResponse(error_code=0, api_keys=keys)
        else:
            self.asked.append(api_key)
            lines = self.script[api_key]
            response = (lines.pop(0) if len(lines) > 1 else lines[0])(self)
        return bytes(encode_response(response, VERSIONS[api_key], correlation_id)[0])


def coordinator(error: ErrorCode = ErrorCode.NONE) -> Callable[[Scripted], FindCoordinatorResponse]:
    def response(broker: Scripted) -> FindCoordinatorResponse:
        host, port = broker.address
        found = Coordinator(key="g", node_id=7, host=host, port=port, error_code=error)
        return FindCoordinatorResponse(coordinators=[found])

    return response


def deleted(error: ErrorCode = ErrorCode.NONE) -> Callable[[Scripted], DeleteGroupsResponse]:
    result = DeletableGroupResult(group_id="g", error_code=error)
    return lambda broker: DeleteGroupsResponse(throttle_time_ms=0, results=[result])


def listed(error: ErrorCode = ErrorCode.NONE) -> Callable[[Scripted], ListGroupsResponse]:
    group = ListedGroup(group_id="g", protocol_type="consumer", group_state="Stable", group_type="Classic")
    return lambda broker: ListGroupsResponse(error_code=error, groups=[] if error else [group])


def metadata(broker: Scripted) -> MetadataResponse:
    host, port = broker.address
    return MetadataResponse(brokers=[MetadataResponseBroker(node_id=7, host=host, port=port)], topics=[])


@pytest.fixture
def client() -> Iterator[Callable[..., tuple[Client, Scripted]]]:
    started: list[tuple[Client, Scripted]] = []

    def start(script: dict[int, list[Any]], timeout_s: float = 5.0) -> tuple[Client, Scripted]:
        broker = Scripted(script)
        started.append((Client([broker.address], timeout_s), broker))
        return started[-1]

    yield start
    for each, broker in started:
        each.close()
        broker.stop()


@pytest.mark.parametrize(
    ("coordinators", "answers", "asked"),
    [
        ([coordinator()], [deleted()], [10, 42]),
        ([coordinator(ErrorCode.COORDINATOR_NOT_AVAILABLE), coordinator()], [deleted()], [10, 10, 42]),
        ([coordinator()], [deleted(ErrorCode.NOT_COORDINATOR), deleted()], [10, 42, 10, 42]),
        ([coordinator()], [deleted(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), deleted()], [10, 42, 10, 42]),
    ],
)
def test_a_coordinator_that_moves_is_looked_for_again(
    client: Callable[..., tuple[Client, Scripted]], coordinators: list[Any], answers: list[Any], asked: list[int]
) -> None:
    connected, broker = client({10: coordinators, 42: answers})
    delete_group(connected, "g")
    assert broker.asked == asked


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ({10: [coordinator(ErrorCode.COORDINATOR_NOT_AVAILABLE)]}, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        ({10: [coordinator()], 42: [deleted(ErrorCode.NOT_COORDINATOR)]}, ErrorCode.NOT_COORDINATOR),
        ({10: [coordinator(ErrorCode.GROUP_AUTHORIZATION_FAILED)]}, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ],
)
def test_it_is_not_waited_for_longer_than_the_timeout(
    client: Callable[..., tuple[Client, Scripted]], script: dict[int, list[Any]], expected: ErrorCode
) -> None:
    connected, _ = client(script, 0.2)
    with pytest.raises(KafkaError) as raised:
        delete_group(connected, "g")
    assert raised.value.code is expected


def test_a_broker_that_still_loads_its_groups_is_asked_for_them_again(
    client: Callable[..., tuple[Client, Scripted]],
) -> None:
    connected, broker = client({3: [metadata], 16: [listed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), listed()]})
    assert [(group.group_id, group.type) for group in list_groups(connected)] == [("g", "classic")]
    assert broker.asked.count(16) == 2
