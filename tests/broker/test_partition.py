"""One partition: what may be read and acknowledged, and when."""

from barnabas.broker.partition import Partition
from tests.storage.logs import NOW_MS, ORDERS, TOPIC_ID, Broker, batch


def partition_of(broker: Broker) -> Partition:
    return Partition(ORDERS, TOPIC_ID, broker.log(flush_messages=1), leader_epoch=0)


def test_under_the_fsync_policy_nothing_is_read_before_it_is_on_the_disk():
    broker = Broker(queued=True)
    partition = partition_of(broker)
    info = partition.append(memoryview(batch(b"one", b"two")), now_ms=NOW_MS)
    assert partition.high_watermark == 0
    assert not partition.is_committed(info)
    broker.settle()
    assert partition.high_watermark == 2
    assert partition.is_committed(info)


def test_what_a_killed_process_left_in_the_page_cache_is_on_the_disk_before_it_is_read():
    broker = Broker(queued=True)
    partition_of(broker).append(memoryview(batch(b"one", b"two")), now_ms=NOW_MS)
    broker.kill()
    recovered = partition_of(broker)
    assert recovered.high_watermark == recovered.log.recovery_point == 2
    broker.cut_power()
    assert partition_of(broker).high_watermark == 2, "a consumer may have read these records"
