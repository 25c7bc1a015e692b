"""Produce, Fetch and the lookups of offsets: batches that are wrong in one way, positions in and out of range."""

from typing import Any

from compat_tests.differential.batches import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL, Batch, Record
from compat_tests.differential.shapes.transactions import transactional_id
from compat_tests.differential.world import INT32_MAX, INT64_MAX, World

HOUR_MS = 3_600_000


def odd_batch(world: World) -> Any:
    """Returns a batch with one unusual thing about it; most of these are refused."""
    good = world.batch()
    wrong: tuple[Any, ...] = (
        None,
        b"",
        b"\0" * 30,
        b"\0" * 61,
        good._replace(crc_error=1),
        good._replace(magic=0),
        good._replace(magic=1),
        good._replace(magic=3),
        good._replace(magic=-1),
        good._replace(base_offset=5),
        good._replace(base_offset=-1),
        good._replace(leader_epoch=9),
        good._replace(length_error=1),
        good._replace(length_error=-1),
        good._replace(length_error=-1_000),
        good._replace(then=b"\0"),
        good._replace(then=good.encoded(-1)),
        good._replace(then=good.encoded(-1)[:20]),
        good._replace(timestamp=-1),
        good._replace(timestamp=0),
        good._replace(timestamp=world.now_ms + 3 * HOUR_MS),
        good._replace(timestamp=world.now_ms - 400 * 24 * HOUR_MS),
        good._replace(timestamp=INT64_MAX - 10_000),
        good._replace(attributes=LOG_APPEND_TIME),
        good._replace(attributes=TRANSACTIONAL),
        good._replace(attributes=CONTROL),
        good._replace(attributes=CONTROL | TRANSACTIONAL, producer_id=8_000_000_000, producer_epoch=0, base_sequence=0),
        good._replace(attributes=0x40),  # bits that mean nothing yet
        good._replace(attributes=0x4000),
        good._replace(records=()),
        good._replace(producer_id=8_000_000_001, producer_epoch=0, base_sequence=0),
        good._replace(producer_id=8_000_000_002, producer_epoch=0, base_sequence=3),
        good._replace(producer_id=8_000_000_003, producer_epoch=-1, base_sequence=0),
        good._replace(producer_id=8_000_000_004, producer_epoch=0, base_sequence=-1),
        good._replace(producer_id=-2, producer_epoch=0, base_sequence=0),
        good._replace(records=(Record(value=b"x" * 1_100_000),), codec=0),  # above max.message.bytes
    )
    return world.one(*wrong)


def unread_batch(world: World) -> Batch:
    """Returns a batch that is wrong inside, under a right checksum: only a broker that reads the records sees it."""
    good = world.batch()
    return world.one(
        good._replace(codec=5),
        good._replace(said_count=len(good.records) + 1),
        good._replace(said_count=0),
        good._replace(said_count=-1),
        good._replace(last_offset_delta=len(good.records)),
        good._replace(last_offset_delta=-1),
        good._replace(max_timestamp=good.timestamp - 5),
        good._replace(max_timestamp=-1),
        good._replace(body=b"\xff" * 40),
        good._replace(body=b""),
        good._replace(records=(Record(offset_delta=3), Record(offset_delta=0))),
    )


def produce(world: World, version: int) -> dict[str, Any]:
    def partition() -> dict[str, Any]:
        roll = world.random.random()
        records = world.batch() if roll < 0.55 else odd_batch(world) if roll < 0.9 else unread_batch(world)
        return {"Index": world.partition(), "Records": records}

    def topic() -> dict[str, Any]:
        return {**world.topic_entry(version, 13), "PartitionData": world.some(partition, 2)}

    acks = world.pick(world.one(-1, 1), 0, 2, -2, p=0.15)
    unacknowledged = [
        {**world.topic_entry(version, 13), "PartitionData": [partition()]}
    ]  # one: what failed is not told
    return {
        "TransactionalId": world.pick(None, "", transactional_id(world), p=0.03),
        "Acks": acks,
        "TimeoutMs": world.pick(5_000, 0, -1, INT32_MAX, p=0.1),
        "TopicData": world.some(topic, 2) if acks else unacknowledged,
    }


def fetch(world: World, version: int) -> dict[str, Any]:
    def partition() -> dict[str, Any]:
        return {
            "Partition": world.partition(),
            "CurrentLeaderEpoch": world.leader_epoch(),
            "FetchOffset": world.offset(),
            "LastFetchedEpoch": world.pick(-1, 0, 1, 5, p=0.1),
            "LogStartOffset": world.pick(-1, 0, 5, p=0.1),
            "PartitionMaxBytes": world.pick(1 << 20, 0, 1, 100, 300, p=0.2),
        }

    def topic() -> dict[str, Any]:
        return {**world.topic_entry(version, 13, "Topic"), "Partitions": world.some(partition, 2)}

    def forgotten() -> dict[str, Any]:
        return {**world.topic_entry(version, 13, "Topic"), "Partitions": world.some(world.partition, 2)}

    session_id, session_epoch = world.one((0, -1), (0, -1), (0, 0), (0, 1), (12_345, 1), (12_345, 0), (12_345, -1))
    if world.session_ids and world.flag():
        session_id, session_epoch = world.one(*world.session_ids), world.one(-1, 0, 1, 1, 2, 3)  # type: ignore[assignment]
    return {
        "MaxWaitMs": 0,
        "MinBytes": world.pick(1, 0, 1_000_000, p=0.1),
        "MaxBytes": world.pick(1 << 20, 0, 1, 200, INT32_MAX, p=0.2),
        "IsolationLevel": world.one(0, 1),
        "SessionId": session_id,
        "SessionEpoch": session_epoch,
        "Topics": world.some(topic, 2),
        "ForgottenTopicsData": world.some(forgotten, 1) if session_epoch > 0 and world.flag() else [],
        "RackId": world.pick("", "rack", p=0.05),
    }


def list_offsets(world: World, version: int) -> dict[str, Any]:
    def partition() -> dict[str, Any]:
        special = world.one(-1, -2, -3, -4, -5, -6, -7)
        moment = world.one(0, 1, world.now_ms, world.now_ms + 50_000, world.now_ms + 101_000, INT64_MAX)
        return {
            "PartitionIndex": world.partition(),
            "CurrentLeaderEpoch": world.leader_epoch(),
            "Timestamp": special if world.flag() else moment,
        }

    def topic() -> dict[str, Any]:
        return {"Name": world.topic(), "Partitions": world.some(partition, 2)}

    return {
        "ReplicaId": world.pick(-1, -2, p=0.05),
        "IsolationLevel": world.one(0, 1),
        "Topics": world.some(topic, 2),
        "TimeoutMs": world.pick(1_000, 0, -1, p=0.1),
    }


def offset_for_leader_epoch(world: World, version: int) -> dict[str, Any]:
    def partition() -> dict[str, Any]:
        return {
            "Partition": world.partition(),
            "CurrentLeaderEpoch": world.leader_epoch(),
            "LeaderEpoch": world.one(-1, 0, 0, 1, 5, -2, INT32_MAX),
        }

    def topic() -> dict[str, Any]:
        return {"Topic": world.topic(), "Partitions": world.some(partition, 2)}

    return {"ReplicaId": world.pick(-1, -2, p=0.1), "Topics": world.some(topic, 2)}


def delete_records(world: World, version: int) -> dict[str, Any]:
    def partition() -> dict[str, Any]:
        return {
            "PartitionIndex": world.partition(),
            "Offset": world.pick(world.one(0, 0, 1, 2, -1), -2, 1_000, INT64_MAX),
        }

    def topic() -> dict[str, Any]:
        return {"Name": world.topic(), "Partitions": world.some(partition, 2)}

    return {"Topics": world.some(topic, 2), "TimeoutMs": world.pick(5_000, 0, -1, p=0.1)}


def init_producer_id(world: World, version: int) -> dict[str, Any]:
    known = world.one(*world.producer_ids) if world.producer_ids else -1
    return {
        "TransactionalId": world.pick(None, "", transactional_id(world), p=0.2),
        "TransactionTimeoutMs": world.one(0, -1, 60_000, INT32_MAX),
        "ProducerId": world.pick(-1, known, 5_000_000_000, -2, INT64_MAX, p=0.4),
        "ProducerEpoch": world.pick(-1, 0, 1, 32_767, p=0.4),
    }


def describe_producers(world: World, version: int) -> dict[str, Any]:
    def topic() -> dict[str, Any]:
        return {"Name": world.topic(), "PartitionIndexes": world.some(world.partition, 3)}

    return {"Topics": world.some(topic, 2)}


SHAPES = {
    "Produce": produce,
    "Fetch": fetch,
    "ListOffsets": list_offsets,
    "OffsetForLeaderEpoch": offset_for_leader_epoch,
    "DeleteRecords": delete_records,
    "InitProducerId": init_producer_id,
    "DescribeProducers": describe_producers,
}
