"""Transactions, one request at a time, of producers that the coordinator does not know; stories/transactions.py has one
that it does. What is open after a request would be ended sooner by one broker than by the other."""

from typing import Any

from compat_tests.differential.world import INT64_MAX, World

STATES = ("Ongoing", "Empty", "CompleteCommit", "CompleteAbort", "PrepareAbort", "Dead", "Nonsense", "")


def transactional_id(world: World) -> str:
    return world.pick(f"{world.prefix}-transactional", f"{world.prefix}-é", "", p=0.1)


def strange_producer(world: World) -> dict[str, Any]:
    return {
        "TransactionalId": transactional_id(world),
        "ProducerId": world.one(-1, 5_000_000_000, INT64_MAX),
        "ProducerEpoch": world.one(-1, 0, 1, 32_767),
    }


def topics(world: World) -> list[dict[str, Any]]:
    return world.some(lambda: {"Name": world.topic(), "Partitions": world.some(world.partition, 2)}, 2)


def add_partitions_to_txn(world: World, version: int) -> dict[str, Any]:
    if version >= 4:
        transaction = {**strange_producer(world), "VerifyOnly": world.flag(), "Topics": topics(world)}
        return {"Transactions": [transaction]}
    producer = {f"V3AndBelow{field}": value for field, value in strange_producer(world).items()}
    return {**producer, "V3AndBelowTopics": topics(world)}


def add_offsets_to_txn(world: World, version: int) -> dict[str, Any]:
    return {**strange_producer(world), "GroupId": world.group()}


def end_txn(world: World, version: int) -> dict[str, Any]:
    return {**strange_producer(world), "Committed": world.flag()}


def txn_offset_commit(world: World, version: int) -> dict[str, Any]:
    def partition() -> dict[str, Any]:
        return {
            "PartitionIndex": world.partition(),
            "CommittedOffset": world.random.randrange(100),
            "CommittedLeaderEpoch": world.leader_epoch(),
            "CommittedMetadata": world.pick("note", None, "x" * 4096, "x" * 4097, p=0.3),
        }

    from_outside = world.flag()
    return {
        **strange_producer(world),
        "GroupId": world.group(),
        "GenerationId": -1 if from_outside else world.generation(),
        "MemberId": "" if from_outside else world.member(),
        "GroupInstanceId": None if from_outside else world.instance(),
        "Topics": world.some(lambda: {"Name": world.topic(), "Partitions": world.some(partition, 2)}, 2),
    }


def describe_transactions(world: World, version: int) -> dict[str, Any]:
    return {"TransactionalIds": world.some(lambda: transactional_id(world), 2)}


def list_transactions(world: World, version: int) -> dict[str, Any]:
    """Only those of this story: others have some, too."""
    return {
        "StateFilters": world.pick([], [world.one(*STATES)], [world.one(*STATES), "Empty"], p=0.5),
        "ProducerIdFilters": [world.one(5_000_000_000, INT64_MAX, -1)],
        "DurationFilter": world.pick(-1, 0, 1, 3_600_000, p=0.3),
        "TransactionalIdPattern": world.pick(None, "", f"{world.prefix}.*", "[", p=0.4),
    }


def write_txn_markers(world: World, version: int) -> dict[str, Any]:
    def marker() -> dict[str, Any]:
        partitions = [{"Name": world.known_topic(), "PartitionIndexes": world.some(world.partition, 2)}]
        return {
            "ProducerId": world.one(5_000_000_000, 5_000_000_001),
            "ProducerEpoch": world.one(0, 1, 2),
            "TransactionResult": world.flag(),
            "Topics": partitions,
            "CoordinatorEpoch": world.one(0, 1),
            "TransactionVersion": world.one(0, 0, 1, 2),
        }

    return {"Markers": [marker()]}


SHAPES = {
    "AddPartitionsToTxn": add_partitions_to_txn,
    "AddOffsetsToTxn": add_offsets_to_txn,
    "EndTxn": end_txn,
    "TxnOffsetCommit": txn_offset_commit,
    "DescribeTransactions": describe_transactions,
    "ListTransactions": list_transactions,
    "WriteTxnMarkers": write_txn_markers,
}
