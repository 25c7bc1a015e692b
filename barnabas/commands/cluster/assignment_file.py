"""Files of Kafka's kafka-reassign-partitions: where the replicas of partitions are to be.

Kafka's tool writes down in which directories they were. That is not looked at: brokers choose the directory themselves.
"""

import sys
from typing import Any

from barnabas.options import Failure
from barnabas.protocol.types import TopicPartition

Assignments = dict[TopicPartition, tuple[int, ...]]
_ANY = "any"


def read_assignments(path: str) -> Assignments:
    """Reads a file, or stdin for `-`. Raises Failure if it is not what the tool would take."""
    import json

    try:
        if path == "-":
            content = json.load(sys.stdin)
        else:
            with open(path, encoding="utf-8") as file:
                content = json.load(file)
    except ValueError as error:
        raise _wrong(path, f"no JSON: {error}") from None
    try:
        return _assignments(content, path)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise _wrong(path, "each of its partitions must have topic, partition and replicas") from None


def _assignments(content: Any, path: str) -> Assignments:
    if content.get("version", 1) != 1:
        raise _wrong(path, f"version {content['version']}, and only 1 is known")
    found: Assignments = {}
    for entry in content["partitions"]:
        name = TopicPartition(str(entry["topic"]), int(entry["partition"]))
        replicas = tuple(map(int, entry["replicas"]))
        if not replicas or len(set(replicas)) < len(replicas):
            raise _wrong(path, f"{name} has {'a replica twice' if replicas else 'no replica'}")
        if name in found:
            raise _wrong(path, f"{name} is there twice")
        found[name] = replicas
    if not found:
        raise _wrong(path, "it names no partition")
    return found


def _wrong(path: str, why: str) -> Failure:
    name = "stdin" if path == "-" else path
    return Failure(f"{name}: {why}", "`barnabas cluster reassign plan` writes such a file")


def as_file(assignments: Assignments) -> dict[str, Any]:
    return {
        "version": 1,
        "partitions": [
            {
                "topic": name.topic,
                "partition": name.partition,
                "replicas": list(replicas),
                "log_dirs": [_ANY] * len(replicas),
            }
            for name, replicas in sorted(assignments.items())
        ],
    }
