"""The only replica of a partition, and what it does before it gets others."""

from barnabas.broker.replicas.follower import FollowerPartition
from barnabas.protocol.stored.metadata_records import PartitionChangeRecord
from barnabas.protocol.types import TopicPartition
from tests.broker.replicas.test_replica_manager import (
    OTHER,
    TOPIC_ID,
    US,
    Node,
    led_by,
    opened,
    replica_manager,
    topic,
)


def test_the_only_replica_notes_what_it_has_committed_before_it_gets_company_though_nobody_uses_it() -> None:
    node = Node()
    node.learn(topic(), led_by(US, replicas=[US]))
    opened(node)
    node.storage.restart()
    again = Node(storage=node.storage)
    again.image = node.image
    again.replicas = replica_manager(again.storage, again.image, again.fetched, again.told)
    again.learn(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, replicas=[US, OTHER], adding_replicas=[OTHER]))
    again.storage.kill()
    log = again.storage.manager.get(TopicPartition("orders", 0))
    assert (log.high_watermark, log.log_dir.high_watermarks) == (1, {log.topic_partition: 1})
    follower = FollowerPartition(log.topic_partition, TOPIC_ID, log, 1, OTHER)
    assert follower.log.high_watermark == 1
