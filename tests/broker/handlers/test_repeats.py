"""What one request names again and again: as Kafka we answer each time, but not without end."""

from collections import Counter

import pytest

from barnabas.broker.handlers.repeats import REPEATS_MAX
from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from barnabas.testing import Broker
from tests.broker.wire import RawClient


@pytest.fixture
def topic(broker: Broker) -> str:
    broker.create_topics({"repeated": 1})
    return "repeated"


def test_a_few_bytes_do_not_ask_for_the_configuration_of_a_broker_a_thousand_times(client: RawClient) -> None:
    named = DescribeConfigsResource(resource_type=ResourceType.BROKER, resource_name="1", configuration_keys=None)
    answer = client.call(DescribeConfigsRequest(resources=[named] * 1_000, include_synonyms=False))
    codes = Counter(ErrorCode(result.error_code) for result in answer.results)
    assert codes == {ErrorCode.NONE: REPEATS_MAX, ErrorCode.INVALID_REQUEST: 1_000 - REPEATS_MAX}


def test_nor_for_the_producers_of_a_partition(client: RawClient, topic: str) -> None:
    answer = client.call(DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0] * 1_000)]))
    codes = Counter(ErrorCode(result.error_code) for result in answer.topics[0].partitions)
    assert codes == {ErrorCode.NONE: REPEATS_MAX, ErrorCode.INVALID_REQUEST: 1_000 - REPEATS_MAX}
