"""The life of a group, once per kind of member: clients, assignors, the classic protocol and the one of KIP-848."""

import pytest

from compat_tests.groups import Group, Kind, Topic, classic, live, new_protocol, taking_part

KINDS = taking_part(
    {
        "kafka-python-3 range": classic("kafka-python-3", "range"),
        "kafka-python-3 cooperative": classic("kafka-python-3", "cooperative-sticky"),
        "kafka-python-2 round robin": classic("kafka-python-2", "roundrobin"),
        "kafka-python-2 sticky": classic("kafka-python-2", "sticky"),
        "aiokafka round robin": classic("aiokafka", "roundrobin"),
        "aiokafka sticky": classic("aiokafka", "sticky"),
        "confluent range": classic("confluent-kafka", "range"),
        "confluent round robin": classic("confluent-kafka", "roundrobin"),
        "confluent cooperative": classic("confluent-kafka", "cooperative-sticky"),
        "confluent uniform": new_protocol("confluent-kafka"),
        "confluent new range": new_protocol("confluent-kafka", "range"),
        "kcat range": classic("kcat", "range"),
        "verifiable consumer": classic("verifiable-consumer", "range"),
        "franz-go range": classic("franz-go", "range"),
        "franz-go sticky": classic("franz-go", "sticky"),
        "franz-go cooperative": classic("franz-go", "cooperative-sticky"),
        "franz-go uniform": new_protocol("franz-go"),
        "sarama range": classic("sarama", "range"),
        "sarama round robin": classic("sarama", "roundrobin"),
        "sarama-max sticky": classic("sarama-max", "sticky"),
        "kafkajs round robin": classic("kafkajs", "roundrobin"),
    }
)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_members_share_a_topic_as_they_come_and_go(kind: Kind, group: Group, topic: Topic) -> None:
    live(group, kind, topic)
