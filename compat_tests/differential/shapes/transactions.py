"""Transactions, one request at a time: most are about ids that nobody has, and say so."""

from typing import Any

from compat_tests.differential.world import INT64_MAX, World


def producer(world: World) -> dict[str, Any]:
    known = world.one(*world.producer_ids) if world.producer_ids else 0
    return {
        "TransactionalId": f"{world.prefix}-nobody",
        "ProducerId": world.pick(known, -1, INT64_MAX),
        "ProducerEpoch": world.pick(0, -1, 1, 32_767),
    }


def partitions(world: World) -> list[dict[str, Any]]:
    return [{"Name": world.known_topic(), "Partitions": [world.partition()]}]


def add_partitions_to_txn(world: World, version: int) -> dict[str, Any]:
    asked = producer(world)
    if version < 4:
        before = {f"V3AndBelow{name}": value for name, value in asked.items()}
        return {**before, "V3AndBelowTopics": partitions(world)}
    return {"Transactions": [{**asked, "VerifyOnly": world.flag(), "Topics": partitions(world)}]}


def add_offsets_to_txn(world: World, version: int) -> dict[str, Any]:
    return {**producer(world), "GroupId": world.group()}


def end_txn(world: World, version: int) -> dict[str, Any]:
    return {**producer(world), "Committed": world.flag()}


def describe_transactions(world: World, version: int) -> dict[str, Any]:
    return {"TransactionalIds": world.pick([f"{world.prefix}-nobody"], [], [""])}


def list_transactions(world: World, version: int) -> dict[str, Any]:
    return {
        "StateFilters": world.pick([], ["Ongoing"], ["nope", "Dead"], ["ongoing"], p=0.5),
        "ProducerIdFilters": world.pick([INT64_MAX], [-1]),
        "DurationFilter": world.pick(-1, 0, 1_000, INT64_MAX),
        "TransactionalIdPattern": world.pick(None, "", ".*", "[", p=0.3),
    }


def txn_offset_commit(world: World, version: int) -> dict[str, Any]:
    offset = {"PartitionIndex": 0, "CommittedOffset": 1, "CommittedMetadata": ""}
    topics = [{"Name": world.known_topic(), "Partitions": [offset]}]
    return {**producer(world), "GroupId": world.group(), "Topics": topics}


def write_txn_markers(world: World, version: int) -> dict[str, Any]:
    topics = [{"Name": f"{world.prefix}-nope", "PartitionIndexes": [0]}]
    marker = {"ProducerId": 1, "ProducerEpoch": 0, "TransactionResult": world.flag(), "Topics": topics}
    return {"Markers": [{**marker, "CoordinatorEpoch": 0}]}


SHAPES = {
    "AddPartitionsToTxn": add_partitions_to_txn,
    "AddOffsetsToTxn": add_offsets_to_txn,
    "EndTxn": end_txn,
    "DescribeTransactions": describe_transactions,
    "ListTransactions": list_transactions,
    "TxnOffsetCommit": txn_offset_commit,
    "WriteTxnMarkers": write_txn_markers,
}
