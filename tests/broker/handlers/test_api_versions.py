"""ApiVersions is honest: every API and version it names is answered with what that version can decode."""

from typing import Any

import pytest

from barnabas.broker.handlers import HANDLERS
from barnabas.broker.network.session import ListenerType
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.schema import ZEROS
from barnabas.testing import Broker
from tests.broker.wire import RawClient, fetch_request, good, produce_request

NAMED = ApiVersionsRequest(client_software_name="tests", client_software_version="1.0")

VERSIONS = {  # as Kafka 4.3 and the clients of 4.4, except where a request needs what is not served so far
    "PRODUCE": (0, 13), "FETCH": (4, 18), "LIST_OFFSETS": (1, 11), "METADATA": (0, 13), "FIND_COORDINATOR": (0, 6),
    "API_VERSIONS": (0, 5), "CREATE_TOPICS": (2, 7), "DELETE_TOPICS": (1, 6), "DELETE_RECORDS": (0, 2),
    "INIT_PRODUCER_ID": (0, 5), "OFFSET_FOR_LEADER_EPOCH": (2, 4), "DESCRIBE_CONFIGS": (1, 4), "ALTER_CONFIGS": (0, 2),
    "DESCRIBE_LOG_DIRS": (1, 5), "CREATE_PARTITIONS": (0, 3), "INCREMENTAL_ALTER_CONFIGS": (0, 1),
    "DESCRIBE_CLUSTER": (0, 2), "DESCRIBE_PRODUCERS": (0, 0), "LIST_CONFIG_RESOURCES": (0, 1),
    "DESCRIBE_TOPIC_PARTITIONS": (0, 0), "OFFSET_COMMIT": (2, 10), "OFFSET_FETCH": (1, 10), "JOIN_GROUP": (0, 9),
    "HEARTBEAT": (0, 4), "LEAVE_GROUP": (0, 5), "SYNC_GROUP": (0, 5), "DESCRIBE_GROUPS": (0, 6), "LIST_GROUPS": (0, 5),
    "DELETE_GROUPS": (0, 3), "OFFSET_DELETE": (0, 0), "CONSUMER_GROUP_HEARTBEAT": (0, 1),
    "CONSUMER_GROUP_DESCRIBE": (0, 1), "DESCRIBE_ACLS": (1, 3), "CREATE_ACLS": (1, 3), "DELETE_ACLS": (1, 3),
    "LIST_PARTITION_REASSIGNMENTS": (0, 0), "DESCRIBE_CLIENT_QUOTAS": (0, 1), "ELECT_LEADERS": (0, 2),
    "DESCRIBE_QUORUM": (0, 2), "UPDATE_FEATURES": (0, 2), "UNREGISTER_BROKER": (0, 0), "ADD_RAFT_VOTER": (0, 1),
    "REMOVE_RAFT_VOTER": (0, 0), "ALTER_PARTITION_REASSIGNMENTS": (0, 1), "ALTER_REPLICA_LOG_DIRS": (1, 2),
    "ADD_PARTITIONS_TO_TXN": (0, 5), "ADD_OFFSETS_TO_TXN": (0, 4), "END_TXN": (0, 5), "WRITE_TXN_MARKERS": (1, 2),
    "DESCRIBE_TRANSACTIONS": (0, 0), "LIST_TRANSACTIONS": (0, 2), "TXN_OFFSET_COMMIT": (0, 6),
}  # fmt: skip


@pytest.mark.parametrize("version", range(0, 6))
def test_every_version_of_api_versions_names_the_same_apis(client: RawClient, version: int) -> None:
    answer = client.call(NAMED, version)
    assert answer.error_code == 0
    found = {ApiKey(api.api_key).name: (api.min_version, api.max_version) for api in answer.api_keys}
    assert found == VERSIONS


def test_features_are_told_since_version_3(client: RawClient) -> None:
    assert not client.call(NAMED, 2).finalized_features
    answer = client.call(NAMED, 4)
    finalized = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    supported = {feature.name: (feature.min_version, feature.max_version) for feature in answer.supported_features}
    assert finalized == {
        "metadata.version": 30,
        "group.version": 1,
        "eligible.leader.replicas.version": 1,
        "kraft.version": 1,
        "transaction.version": 2,
    }
    assert supported == {
        "metadata.version": (7, 30),
        "group.version": (0, 1),
        "eligible.leader.replicas.version": (0, 1),
        "kraft.version": (0, 1),
        "transaction.version": (0, 2),
    }
    assert answer.finalized_features_epoch >= 0
    assert all(lowest > 0 for lowest, _ in lowest_versions(client, 3)), "version 3 cannot read a lowest version of 0"


def test_a_broker_registers_with_the_features_that_it_tells(broker: Broker, client: RawClient) -> None:
    """Apache Kafka's controllers refuse one that leaves out the quorum's own."""
    told = {
        feature.name: (feature.min_version, feature.max_version) for feature in client.call(NAMED, 4).supported_features
    }
    (registered,) = broker._server.node.image.brokers.values()
    assert registered.features == told


def lowest_versions(client: RawClient, version: int) -> list[tuple[int, int]]:
    features = client.call(NAMED, version).supported_features
    return [(feature.min_version, feature.max_version) for feature in features]


@pytest.mark.parametrize(
    ("name", "software_version", "expected"),
    [
        ("apache-kafka-java", "4.3.0", ErrorCode.NONE),
        ("librdkafka", "2.6.1-rc.1", ErrorCode.NONE),
        ("", "1.0", ErrorCode.INVALID_REQUEST),
        ("tests", "", ErrorCode.INVALID_REQUEST),
        ("-tests", "1.0", ErrorCode.INVALID_REQUEST),
        ("tests", "1.0 beta", ErrorCode.INVALID_REQUEST),
        ("\N{SNOWMAN}", "1.0", ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_client_names_its_software_or_is_refused(
    client: RawClient, name: str, software_version: str, expected: ErrorCode
) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=software_version)
    assert ErrorCode(client.call(request, 3).error_code) is expected


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "expected"),
    [
        ("ours", 1, ErrorCode.NONE),
        (None, -1, ErrorCode.NONE),  # a client that knows only an address
        (None, 7, ErrorCode.NONE),
        ("ours", 7, ErrorCode.REBOOTSTRAP_REQUIRED),  # the address of another broker became ours
        ("ours", -1, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("another", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
    ],
)
def test_a_client_that_means_another_broker_is_sent_away(
    client: RawClient, cluster_id: str | None, node_id: int, expected: ErrorCode
) -> None:
    known = client.call(MetadataRequest(topics=None))
    meant = known.cluster_id if cluster_id == "ours" else cluster_id
    assert known.controller_id == 1
    request = ApiVersionsRequest(
        client_software_name="tests", client_software_version="1", cluster_id=meant, node_id=node_id
    )
    answer = client.call(request, 5)
    assert (answer.error_code, bool(answer.api_keys)) == (expected, expected is ErrorCode.NONE)
    assert client.call(NAMED, 5).error_code == 0, "the same connection goes on"


ANY_ACL = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
EVERY_PAIR = [
    (key, version)
    for key, handler in HANDLERS.items()
    if ListenerType.BROKER in handler.listeners
    for version in handler.request.__versions__
]


@pytest.mark.parametrize(("api_key", "version"), EVERY_PAIR, ids=lambda value: getattr(value, "name", value))
def test_every_api_and_version_is_answered(broker: Broker, client: RawClient, api_key: ApiKey, version: int) -> None:
    """The answer must decode to its last byte in the version of the request."""
    assert client.call(smallest(client, api_key, version), version) is not None


def smallest(client: RawClient, api_key: ApiKey, version: int) -> Any:
    """A request that means something, or else one of empty lists."""
    match api_key:
        case ApiKey.PRODUCE:
            return produce_request("payments" if version < 13 else client.topic_id("payments"), {0: good()})
        case ApiKey.FETCH:
            return fetch_request("payments" if version < 13 else client.topic_id("payments"), {0: 0})
        case ApiKey.API_VERSIONS:
            return NAMED
        case ApiKey.METADATA:
            return MetadataRequest(topics=[] if version == 0 else None)
        case ApiKey.FIND_COORDINATOR:
            return FindCoordinatorRequest(key="group", coordinator_keys=[] if version < 4 else ["group"])
        case ApiKey.DESCRIBE_ACLS:  # zeros stand for what is unknown, which is refused
            return DescribeAclsRequest(**{**empty(DescribeAclsRequest), **ANY_ACL})
        case ApiKey.INIT_PRODUCER_ID:
            return InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)
    return HANDLERS[api_key].request(**empty(HANDLERS[api_key].request))


def empty(request: Any) -> dict[str, Any]:
    return {field.name: ZEROS[field.kind] for field in request.__fields__ if field.kind != "struct"}


def test_every_version_that_is_named_can_be_decoded_except_the_oldest_of_produce() -> None:
    for api_key, handler in HANDLERS.items():
        declared = handler.request.__versions__
        expected = range(3, 14) if api_key == ApiKey.PRODUCE else handler.versions
        assert declared == expected, api_key


def test_the_table_knows_without_the_messages_which_versions_are_flexible() -> None:
    for api_key, handler in HANDLERS.items():
        assert handler.flexible_since == handler.request.__flexible_since__, api_key
