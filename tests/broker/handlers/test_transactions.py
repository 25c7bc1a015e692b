"""Transactions on one broker, as clients of both versions of the protocol ask for them."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from barnabas.testing import Broker
from tests.broker.transactions.calls import add, described, described_when_loaded, end, init, listed
from tests.broker.wire import RawClient

NONE = ErrorCode.NONE
ROOT = Path(__file__).resolve().parents[3]
KAFKAS_SETTINGS = {
    "cleanup.policy": "compact",
    "compression.type": "uncompressed",
    "segment.bytes": "104857600",
    "unclean.leader.election.enable": "false",
}


@pytest.fixture(scope="module")
def client() -> Iterator[RawClient]:
    with Broker({"orders": 2, "payments": 1}) as broker, RawClient(broker.port) as client:
        assert client.call(FindCoordinatorRequest(key="tx", key_type=1), 3).error_code == NONE
        assert client.call(FindCoordinatorRequest(key="group", key_type=0), 3).error_code == NONE
        yield client


@pytest.mark.parametrize("version", [0, 2, 4])
def test_a_transaction_by_the_first_rules_keeps_its_epoch(client: RawClient, version: int) -> None:
    name = f"first-{version}"
    producer = init(client, name)
    assert (producer.error_code, producer.producer_epoch) == (NONE, 0)
    assert add(client, name, producer, "orders", "payments") == {"orders": NONE, "payments": NONE}
    state = described(client, name)
    assert (state.transaction_state, [topic.topic for topic in state.topics]) == ("Ongoing", ["orders", "payments"])
    answer = end(client, name, producer, version=version)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (NONE, -1, -1)
    state = described(client, name)
    assert (state.transaction_state, state.producer_epoch, state.topics) == ("CompleteCommit", 0, [])


def test_a_transaction_by_the_second_rules_ends_in_the_next_epoch(client: RawClient) -> None:
    producer = init(client, "second")
    add(client, "second", producer, "orders")
    answer = end(client, "second", producer, committed=False)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (NONE, producer.producer_id, 1)
    assert described(client, "second").transaction_state == "CompleteAbort"
    again = end(client, "second", producer, committed=False)  # its answer was lost
    assert (again.error_code, again.producer_epoch) == (NONE, 1)
    assert end(client, "second", producer, committed=True).error_code == ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize(
    ("version", "expected"), [(0, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)]
)
def test_a_producer_that_begins_anew_fences_the_one_before(
    client: RawClient, version: int, expected: ErrorCode
) -> None:
    name = f"fenced-{version}"
    first, second = init(client, name), init(client, name)
    assert (second.producer_id, second.producer_epoch) == (first.producer_id, 1)
    assert add(client, name, first, "orders", version=version) == {"orders": expected}
    assert end(client, name, first, version=version).error_code == expected
    fields = {"producer_id": first.producer_id, "producer_epoch": 0}
    assert init(client, name, 4, **fields).error_code == ErrorCode.PRODUCER_FENCED
    assert init(client, name, 3, **fields).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_producer_that_begins_anew_aborts_the_transaction_that_is_open(client: RawClient) -> None:
    producer = init(client, "open")
    add(client, "open", producer, "orders")
    assert init(client, "open").error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert described(client, "open").transaction_state == "CompleteAbort"
    assert init(client, "open").producer_epoch == 2


def test_partitions_are_added_together_or_not_at_all(client: RawClient) -> None:
    producer = init(client, "together")
    assert add(client, "together", producer, "orders", "nothing", "__consumer_offsets") == {
        "orders": ErrorCode.OPERATION_NOT_ATTEMPTED,
        "nothing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "__consumer_offsets": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    assert described(client, "together").transaction_state == "Empty"


def test_the_offsets_of_a_group_are_added_as_their_partition(client: RawClient) -> None:
    producer = init(client, "offsets")
    request = AddOffsetsToTxnRequest(
        transactional_id="offsets",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        group_id="group",
    )
    assert client.call(request).error_code == NONE
    (topic,) = described(client, "offsets").topics
    assert (topic.topic, len(topic.partitions)) == ("__consumer_offsets", 1)


def test_the_offsets_of_the_first_group_of_all_have_their_topic_created() -> None:
    with Broker() as broker, RawClient(broker.port) as client:
        assert client.call(FindCoordinatorRequest(key="offsets", key_type=1), 3).error_code == NONE
        test_the_offsets_of_a_group_are_added_as_their_partition(client)


def test_brokers_add_and_check_many_transactions_at_once(client: RawClient) -> None:
    producer = init(client, "many")

    def asked(transactional_id: str, index: int, *, verify_only: bool) -> AddPartitionsToTxnTransaction:
        return AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            verify_only=verify_only,
            topics=[AddPartitionsToTxnTopic(name="orders", partitions=[index])],
        )

    def codes(*transactions: AddPartitionsToTxnTransaction) -> list[int]:
        answer = client.call(AddPartitionsToTxnRequest(transactions=transactions), 5)
        assert answer.error_code == NONE
        return [
            result.topic_results[0].results_by_partition[0].partition_error_code
            for result in answer.results_by_transaction
        ]

    nobody = asked("nobody", 0, verify_only=True)
    assert codes(asked("many", 0, verify_only=False), nobody) == [NONE, ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert codes(asked("many", 0, verify_only=True)) == [NONE]
    assert codes(asked("many", 1, verify_only=True)) == [ErrorCode.TRANSACTION_ABORTABLE]
    assert codes(asked("many", 9, verify_only=True)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize(
    ("transactional_id", "told"), [("wordy", NONE), ("nobody", ErrorCode.INVALID_PRODUCER_ID_MAPPING)]
)
@pytest.mark.parametrize("verify_only", [False, True])
def test_what_brokers_add_is_answered_in_their_words_and_what_they_check_once(
    client: RawClient, transactional_id: str, told: ErrorCode, verify_only: bool
) -> None:
    """As by Kafka: topics that are named twice, or without partitions, are in the answer."""
    producer = init(client, "wordy")
    named = [("orders", [0]), ("orders", [0]), ("gone", [])]
    add(client, "wordy", producer, "orders")
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        verify_only=verify_only,
        topics=[AddPartitionsToTxnTopic(name=name, partitions=partitions) for name, partitions in named],
    )
    answer = client.call(AddPartitionsToTxnRequest(transactions=[transaction]), 5)
    results = [
        (topic.name, [(each.partition_index, each.partition_error_code) for each in topic.results_by_partition])
        for topic in answer.results_by_transaction[0].topic_results
    ]
    once = [("orders", [0])]
    expected = once if verify_only else named
    assert results == [(name, [(index, told) for index in indexes]) for name, indexes in expected]
    end(client, "wordy", producer, committed=False)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_that_is_too_long_or_none_is_refused(client: RawClient, timeout_ms: int) -> None:
    answer = init(client, "timeout", transaction_timeout_ms=timeout_ms)
    assert answer.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_a_transactional_id_is_not_empty(client: RawClient) -> None:
    assert init(client, "").error_code == ErrorCode.INVALID_REQUEST
    producer = init(client, "not-empty")
    assert add(client, "", producer, "orders") == {"orders": ErrorCode.INVALID_REQUEST}
    assert end(client, "", producer).error_code == ErrorCode.INVALID_REQUEST
    assert described(client, "").error_code == ErrorCode.INVALID_REQUEST


def test_what_is_not_known_is_not_described(client: RawClient) -> None:
    assert described(client, "unknown").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_transactions_are_listed_by_what_is_asked_for(client: RawClient) -> None:
    producers = {name: init(client, name) for name in ("list-a", "list-b")}
    add(client, "list-a", producers["list-a"], "orders")

    def found(**fields: Any) -> dict[str, str]:
        answer = listed(client, transactional_id_pattern="list-.*", **fields)
        return {state.transactional_id: state.transaction_state for state in answer.transaction_states}

    assert found() == {"list-a": "Ongoing", "list-b": "Empty"}
    assert found(state_filters=["Ongoing", "Nonsense"]) == {"list-a": "Ongoing"}
    assert found(producer_id_filters=[producers["list-b"].producer_id]) == {"list-b": "Empty"}
    assert found(duration_filter=3_600_000) == {"list-b": "Empty"}  # one without a transaction began before the epoch
    assert listed(client, state_filters=["Nonsense", "Dead"]).unknown_state_filters == ["Nonsense"]
    assert listed(client, transactional_id_pattern="list").transaction_states == []  # the whole id must match
    assert listed(client, transactional_id_pattern="(").error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize("version", range(1, 7))
def test_the_first_who_asks_for_a_coordinator_waits_until_the_topic_is_there(version: int) -> None:
    with Broker(config={"transaction.state.log.num.partitions": "3"}) as broker, RawClient(broker.port) as client:
        keys = {"coordinator_keys": ["tx"]} if version >= 4 else {"key": "tx"}
        answer = client.call(FindCoordinatorRequest(key_type=1, **keys), version)
        found = answer.coordinators[0] if version >= 4 else answer
        assert (found.error_code, found.node_id, found.port) == (NONE, 1, broker.port)
        asked = DescribeConfigsResource(resource_type=2, resource_name="__transaction_state", configuration_keys=None)
        (described,) = client.call(DescribeConfigsRequest(resources=[asked])).results
        configs = {config.name: config.value for config in described.configs}
        assert {name: configs[name] for name in KAFKAS_SETTINGS} == KAFKAS_SETTINGS
        (topic,) = client.call(MetadataRequest(topics=[MetadataRequestTopic(name="__transaction_state")])).topics
        assert (topic.is_internal, len(topic.partitions)) == (True, 3)


def test_without_a_coordinator_nothing_is_answered_as_if_there_were_one() -> None:
    with Broker({"orders": 1}) as broker, RawClient(broker.port) as client:
        assert init(client, "tx").error_code == ErrorCode.NOT_COORDINATOR
        assert listed(client).transaction_states == []


def test_transactions_are_there_after_a_restart(tmp_path: Path) -> None:
    with Broker({"orders": 1}, data_dir=str(tmp_path)) as broker, RawClient(broker.port) as client:
        client.call(FindCoordinatorRequest(key="tx", key_type=1), 3)
        producer = init(client, "tx")
        add(client, "tx", producer, "orders")
    with Broker(data_dir=str(tmp_path)) as broker, RawClient(broker.port) as client:
        state = described_when_loaded(client, "tx")
        assert (state.transaction_state, state.producer_id, state.producer_epoch) == (
            "Ongoing",
            producer.producer_id,
            0,
        )
        assert end(client, "tx", producer).error_code == NONE


def set_level(client: RawClient, level: int, upgrade_type: int) -> None:
    update = FeatureUpdateKey(feature="transaction.version", max_version_level=level, upgrade_type=upgrade_type)
    assert client.call(UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=[update])).error_code == NONE


def finalized(client: RawClient) -> int:
    answer = client.call(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)
    levels: dict[str, int] = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    return levels.get("transaction.version", 0)


def test_a_level_that_is_lowered_and_raised_again_lets_transactions_go_on(tmp_path: Path) -> None:
    with Broker({"orders": 1}, data_dir=str(tmp_path)) as broker, RawClient(broker.port) as client:
        client.call(FindCoordinatorRequest(key="tx", key_type=1), 3)
        producer = init(client, "tx")
        for level, upgrade_type in ((1, 2), (0, 2), (2, 1), (0, 2)):  # an upgrade, or a safe downgrade
            set_level(client, level, upgrade_type)
            assert finalized(client) == level
            assert add(client, "tx", producer, "orders") == {"orders": NONE}
            producer = end(client, "tx", producer)
            assert producer.error_code == NONE
    with Broker(data_dir=str(tmp_path)) as broker, RawClient(broker.port) as client:
        assert finalized(client) == 0
        assert described_when_loaded(client, "tx").producer_epoch == producer.producer_epoch == 4


def test_a_broker_without_transactions_knows_nothing_of_them() -> None:
    """Not even an idempotent producer brings in the modules of the coordinator."""
    program = (
        "import sys; from barnabas.testing import Broker; from tests.broker.wire import RawClient;"
        "from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest;"
        "broker = Broker({'orders': 1}).start(); client = RawClient(broker.port);"
        "asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0);"
        "assert client.call(asked).error_code == 0; client.close(); broker.stop();"
        "print([name for name in sys.modules if name.startswith('barnabas.broker.transactions')])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.strip() == "[]"
