"""A member that subscribes by pattern, over the wire: a topic that comes is its own after the next heartbeat."""

from pathlib import Path

from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.testing import Broker
from tests.broker.wire import RawClient

CONFIG = {"group.consumer.assignment.interval.ms": "0", "offsets.topic.num.partitions": "1"}


def topics_given(client: RawClient, request: ConsumerGroupHeartbeatRequest) -> set[bytes]:
    """Returns the topics of the assignment that the answer brings. The next request has the epoch that it says."""
    answer = client.call(request, 1)
    assert not answer.error_code, answer.error_message
    request.member_epoch = answer.member_epoch
    return {topic.topic_id for topic in answer.assignment.topic_partitions} if answer.assignment is not None else set()


def test_a_topic_that_comes_is_found_by_a_pattern_that_was_there_before(tmp_path: Path) -> None:
    joining = ConsumerGroupHeartbeatRequest(
        group_id="readers",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_regex="o.*",
        topic_partitions=[],
    )
    beating = ConsumerGroupHeartbeatRequest(group_id="readers", member_id="m", member_epoch=1)
    with Broker({"orders": 1}, CONFIG, data_dir=str(tmp_path / "data")) as broker, RawClient(broker.port) as client:
        client.call(FindCoordinatorRequest(coordinator_keys=["readers"]))
        owned = topics_given(client, joining)
        assert len(owned) == 1
        beating.member_epoch = joining.member_epoch
        for _ in range(2):
            broker.advance(11)
            assert topics_given(client, beating) == set()
        broker.create_topics({"bills": 1, "others": 1})
        assert len(topics_given(client, beating) - owned) == 1
