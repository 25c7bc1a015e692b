"""Offsets in a CSV file, as Kafka's kafka-consumer-groups reads and writes them."""

import csv
import io
from collections.abc import Mapping

from barnabas.options import Failure
from barnabas.protocol.types import TopicPartition


def read_offsets(path: str, group_id: str) -> dict[TopicPartition, int]:
    """Reads lines of topic,partition,offset. Where a group comes first, lines of other groups are skipped."""
    offsets: dict[TopicPartition, int] = {}
    with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
        lines = csv.reader(file)
        for cells in lines:
            if not cells:
                continue
            *group, topic, partition, offset = [cell.strip() for cell in cells] if len(cells) in (3, 4) else [""] * 3
            if not (topic and partition.isdecimal() and offset.isdecimal()):
                raise Failure(f"{path}: line {lines.line_num} is not topic,partition,offset")
            if group in ([], [group_id]):
                offsets[TopicPartition(topic, int(partition))] = int(offset)
    if not offsets:
        raise Failure(f"{path} has no offsets of group {group_id}")
    return offsets


def csv_of(offsets: Mapping[TopicPartition, int]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows((*partition, offset) for partition, offset in sorted(offsets.items()))
    return out.getvalue()
