"""What is asked of every Kafka and not there without an authorizer, quotas or reassignments: answered in its words."""

from typing import Any

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsFilterResult, DeleteAclsRequest
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest
from barnabas.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from barnabas.testing import Broker
from tests.broker.wire import CutOff, RawClient

DISABLED, NO_AUTHORIZER = ErrorCode.SECURITY_DISABLED, "No Authorizer is configured."
ANY, UNKNOWN = 1, 0
CODES: dict[str, Any] = {
    "resource_type_filter": ANY,
    "pattern_type_filter": ANY,
    "operation": ANY,
    "permission_type": ANY,
}
STRINGS: dict[str, Any] = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
CREATION: dict[str, Any] = {"resource_type": 2, "resource_pattern_type": 3, "operation": 3, "permission_type": 3}
NAMES: dict[str, Any] = {"resource_name": "orders", "principal": "User:u", "host": "*"}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_access_control_lists_are_disabled(client: RawClient, version: int) -> None:
    described = client.call(DescribeAclsRequest(**CODES, **STRINGS), version)
    assert (described.error_code, described.error_message) == (DISABLED, "No Authorizer is configured on the broker")
    created = client.call(CreateAclsRequest(creations=[AclCreation(**CREATION, **NAMES)] * 2), version)
    assert created.results == [AclCreationResult(error_code=DISABLED, error_message=NO_AUTHORIZER)] * 2
    deleted = client.call(DeleteAclsRequest(filters=[DeleteAclsFilter(**CODES, **STRINGS)]), version)
    refused = DeleteAclsFilterResult(error_code=DISABLED, error_message=NO_AUTHORIZER, matching_acls=[])
    assert deleted.filter_results == [refused]


@pytest.mark.parametrize(
    "request_with_unknown",
    [
        *(DescribeAclsRequest(**{**CODES, name: UNKNOWN}, **STRINGS) for name in CODES),
        *(CreateAclsRequest(creations=[AclCreation(**{**CREATION, name: UNKNOWN}, **NAMES)]) for name in CREATION),
        *(DeleteAclsRequest(filters=[DeleteAclsFilter(**{**CODES, name: UNKNOWN}, **STRINGS)]) for name in CODES),
    ],
    ids=lambda request: type(request).__name__,
)
def test_an_unknown_part_of_an_acl_ends_the_connection_as_in_kafka(broker: Broker, request_with_unknown: Any) -> None:
    with RawClient(broker.port) as client, pytest.raises(CutOff):
        client.call(request_with_unknown)


@pytest.mark.parametrize("name", ["orders", "nowhere", None])
def test_nothing_is_being_reassigned(client: RawClient, name: str | None) -> None:
    topics = None if name is None else [ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, 99])]
    answer = client.call(ListPartitionReassignmentsRequest(topics=topics))
    assert (answer.error_code, answer.error_message, answer.topics) == (0, None, [])


EXACT, DEFAULT, SPECIFIED = 0, 1, 2
INVALID = ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("components", "expected"),
    [
        ([], (0, "")),
        ([("user", EXACT, "u"), ("client-id", SPECIFIED, None)], (0, "")),
        ([("ip", DEFAULT, None)], (0, "")),
        ([("", EXACT, "u")], (INVALID, "Invalid empty entity type.")),
        ([("cluster", EXACT, "c")], (ErrorCode.UNSUPPORTED_VERSION, "Unsupported entity type cluster")),
        (
            [("user", EXACT, "u"), ("user", DEFAULT, None)],
            (INVALID, "Entity type user cannot appear more than once in the filter."),
        ),
        ([("user", EXACT, None)], (INVALID, "Request specified MATCH_TYPE_EXACT, but set match string to null.")),
        (
            [("user", DEFAULT, "u")],
            (INVALID, "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."),
        ),
        (
            [("user", SPECIFIED, "u")],
            (INVALID, "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."),
        ),
        ([("user", 3, None)], (INVALID, "Unknown match type 3")),
        (
            [("ip", EXACT, "127.0.0.1"), ("user", EXACT, "u")],
            (
                INVALID,
                "Invalid entity filter component combination. IP filter component should not be used with user or "
                "clientId filter component.",
            ),
        ),
    ],
)
def test_there_are_no_quotas_for_a_filter_that_makes_sense(
    client: RawClient, components: list[tuple[str, int, str | None]], expected: tuple[int, str]
) -> None:
    asked = [ComponentData(entity_type=name, match_type=how, match=match) for name, how, match in components]
    answer = client.call(DescribeClientQuotasRequest(components=asked, strict=False))
    assert (answer.error_code, answer.error_message) == expected
    assert answer.entries == (None if answer.error_code else [])
