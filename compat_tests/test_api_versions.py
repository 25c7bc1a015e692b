"""ApiVersions is honest: what it names works in every version, and nothing else is answered.

What Kafka advertises is taken from the schemas in its jar; with BROKER=kafka the same tests say whether that is so.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from compat_tests.brokers import BROKER, KAFKA_LIBS, Broker
from compat_tests.conftest import require, start_broker
from compat_tests.differential.codec import decode, encode, response_body
from compat_tests.differential.schemas import Api, apis
from compat_tests.differential.sides import Connection, Request, Side
from compat_tests.harness.api_requests import REQUESTS, Place, error_codes
from compat_tests.harness.groups import eventually
from compat_tests.harness.not_served import APIS_NOT_SERVED, SINCE_KAFKA_4_4

UNSUPPORTED_VERSION = 35
TELEMETRY = {"GetTelemetrySubscriptions", "PushTelemetry"}
"""Kafka names them where a plugin receives what clients send."""
NEWER = {} if BROKER == "kafka" else SINCE_KAFKA_4_4
LAST_OF_API_VERSIONS = 4 if BROKER == "kafka" else 5
PLACE = ("advertised", "advertised-group")


@pytest.fixture(scope="module", autouse=True)
def schemas() -> None:
    """Skips without Kafka's schemas: every request here is built from them."""
    require((KAFKA_LIBS,))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Starts a broker where one coordinates all groups."""
    settings = {"offsets.topic.num.partitions": "1"}
    with start_broker(tmp_path_factory.mktemp("one-coordinator"), settings=settings) as broker:
        yield broker


@pytest.fixture(scope="module")
def coordinator(broker: Broker) -> dict[str, Any]:
    side = Side("broker", broker.port)
    try:
        found: dict[str, Any] = eventually(partial(find_coordinator, side), "there is a coordinator")
        return found
    finally:
        side.close()


def find_coordinator(side: Side) -> dict[str, Any]:
    (found,) = side.call("FindCoordinator", {"CoordinatorKeys": [PLACE[1]]})["Coordinators"]
    return found if found["ErrorCode"] == 0 else {}


@pytest.fixture(scope="module")
def side(coordinator: dict[str, Any]) -> Iterator[Side]:
    side = Side("broker", coordinator["Port"])
    yield side
    side.close()


@pytest.fixture(scope="module")
def place(side: Side, coordinator: dict[str, Any]) -> Place:
    """Creates a topic and a group, both of the broker that is asked, and waits until requests about them succeed."""
    topic, group = PLACE
    assignments = [{"PartitionIndex": 0, "BrokerIds": [coordinator["NodeId"]]}]
    created = {"Name": topic, "NumPartitions": -1, "ReplicationFactor": -1, "Assignments": assignments}
    side.call("CreateTopics", {"Topics": [created]})
    known = {"Topics": [{"Name": topic}], "AllowAutoTopicCreation": False}
    eventually(partial(is_good, side, "Metadata", known), "the topic is there")
    place = Place(topic, side.call("Metadata", known)["Topics"][0]["TopicId"], group)
    for name in ("FindCoordinator", "OffsetCommit", "InitProducerId"):
        version = apis()[name].request.stable[-1]
        body = REQUESTS[name].body(place, version)
        eventually(partial(is_good, side, name, body, version), f"{name} works")
    return place


def is_good(side: Side, name: str, body: dict[str, Any], version: int | None = None) -> bool:
    return error_codes(side.call(name, body, version)) == {0}


@pytest.fixture(scope="module")
def advertised(side: Side) -> dict[str, range]:
    return told(side, 4)


def told(side: Side, version: int) -> dict[str, range]:
    named = {"ClientSoftwareName": "tests", "ClientSoftwareVersion": "1"}
    names = {api.key: api.name for api in apis().values()}
    keys = side.call("ApiVersions", named, version)["ApiKeys"]
    return {names[api["ApiKey"]]: range(api["MinVersion"], api["MaxVersion"] + 1) for api in keys}


def advertised_by_kafka() -> dict[str, range]:
    """Returns every stable version of what a broker's listener takes. Produce begins at 0: some clients look for the
    older versions, which are refused (KAFKA-18659)."""
    found = {name: api.request.stable for name, api in apis().items() if "broker" in api.request.listeners}
    named = {name: versions for name, versions in found.items() if name not in TELEMETRY}
    return {**named, **NEWER, "Produce": range(0, named["Produce"].stop)}


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_api_versions_names_the_same(side: Side, advertised: dict[str, range], version: int) -> None:
    assert told(side, version) == advertised


def test_nothing_is_missing_of_what_kafka_advertises_but_what_is_known_not_to_be_served(
    advertised: dict[str, range],
) -> None:
    left_out = set() if BROKER == "kafka" else set(APIS_NOT_SERVED)
    assert advertised == {name: found for name, found in advertised_by_kafka().items() if name not in left_out}
    assert set(APIS_NOT_SERVED) <= set(advertised_by_kafka()) | TELEMETRY, "an API that Kafka does not have"


@pytest.mark.parametrize("name", REQUESTS)
def test_what_is_advertised_works_in_every_version(
    side: Side, place: Place, advertised: dict[str, range], name: str
) -> None:
    api, asked = apis()[name], REQUESTS[name]
    versions = [version for version in advertised[name] if version in api.request.versions]
    codes = {version: error_codes(side.call(name, asked.body(place, version), version)) for version in versions}
    assert {version: found for version, found in codes.items() if not found <= asked.codes} == {}


def test_there_is_a_request_for_everything_that_is_advertised(advertised: dict[str, range]) -> None:
    assert set(REQUESTS) == set(advertised) - set(APIS_NOT_SERVED)


@pytest.mark.parametrize("name", [name for name in REQUESTS if name != "ApiVersions"])
def test_versions_that_are_not_advertised_are_refused(broker: Broker, advertised: dict[str, range], name: str) -> None:
    api, versions = apis()[name], advertised[name]
    refused = [versions.start - 1, versions.stop, 99, -(2**15)]
    refused += [version for version in versions if version < api.request.versions[0]]  # the oldest of Produce
    assert [version for version in refused if not is_cut_off(broker, api, version)] == []


def is_cut_off(broker: Broker, api: Api, version: int, key: int | None = None) -> bool:
    """Says whether a request of the nearest version, sent as one of this, ends the connection."""
    known = api.request.versions
    nearest = min(max(version, known[0]), known[-1])
    connection = Connection(broker.port)
    try:
        request = Request(api, nearest, {}, sent_version=version, sent_key=key)
        connection.send(request, encode(api.request, nearest, {}))
        connection.receive_now()
    except EOFError:
        return True
    finally:
        connection.close()
    return False


@pytest.mark.parametrize("version", [LAST_OF_API_VERSIONS + 1, 99, 2**15 - 1])
def test_api_versions_of_an_unknown_version_is_answered_with_the_versions_to_use(broker: Broker, version: int) -> None:
    api = apis()["ApiVersions"]
    connection = Connection(broker.port)
    try:
        connection.send(Request(api, 3, {}, sent_version=version), encode(api.request, 3, {}))
        answer = decode(api.response, 0, response_body(api, 0, connection.correlation_id, connection.receive_now()))
    finally:
        connection.close()
    known = {"ApiKey": 18, "MinVersion": 0, "MaxVersion": LAST_OF_API_VERSIONS}
    assert answer == {"ErrorCode": UNSUPPORTED_VERSION, "ApiKeys": [known]}


def test_no_other_api_is_answered(broker: Broker, advertised: dict[str, range]) -> None:
    answered = TELEMETRY if BROKER == "kafka" else set()  # though it is not advertised
    others = [api for name, api in apis().items() if name not in {*advertised, *answered}]
    assert len(others) >= 12, "at least what only controllers do"
    assert [api.name for api in others if not is_cut_off(broker, api, api.request.versions[-1])] == []


@pytest.mark.parametrize("key", [-1, 4, 5, 6, 7, 93, 999, 2**15 - 1])
def test_a_key_of_no_api_is_refused(broker: Broker, key: int) -> None:
    assert is_cut_off(broker, apis()["Metadata"], 0, key=key)


def test_a_connection_goes_on_after_an_unknown_version_of_api_versions(side: Side) -> None:
    """It is how clients find the version that both know."""
    api = apis()["ApiVersions"]
    connection = side.connection("goes on")
    connection.send(Request(api, 3, {}, sent_version=99), encode(api.request, 3, {}))
    connection.receive_now()
    connection.send(Request(api, 0, {}), b"")
    answer: dict[str, Any] = decode(
        api.response, 0, response_body(api, 0, connection.correlation_id, connection.receive_now())
    )
    assert answer["ErrorCode"] == 0
