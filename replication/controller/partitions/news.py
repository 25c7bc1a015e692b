"""Lines for people about partitions that have another leader, or other replicas in sync, and why; and about log dirs
that have failed."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord
from barnabas.protocol.stored.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from barnabas.protocol.types import uuid_text
from barnabas.replication.controller.brokers.fencing import FENCE, UNFENCE
from barnabas.replication.controller.partitions.reassignment import is_reassigning
from barnabas.replication.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from barnabas.replication.metadata.image_delta import merged

LINES_MAX = 5
"""A broker may have thousands of partitions, and what happens to it is one event."""


class Line(NamedTuple):
    text: str
    fields: dict[str, object]


class Change(NamedTuple):
    name: str
    before: PartitionImage
    after: PartitionImage


def is_news(record: MetadataRecord) -> bool:
    """Returns whether there may be something to say about a record."""
    return isinstance(record, PartitionChangeRecord) or _leaves_dirs(record)


def _leaves_dirs(record: MetadataRecord) -> bool:
    """Returns whether the record says which log dirs a broker has left."""
    return isinstance(record, BrokerRegistrationChangeRecord) and bool(record.log_dirs)


def partition_news(records: Sequence[MetadataRecord], request: Any, before: MetadataImage) -> list[Line]:
    """Returns what these records change, the first few partitions each and the others as a number. `request` is what
    they answer; None if nobody asked."""
    why = _why(records, request, before)
    changes = _changes(records, before)
    lines = [_dirs_line(record, before) for record in records if _leaves_dirs(record)]
    lines += [_line(change, why or _why_this_one(change)) for change in islice(changes, LINES_MAX)]
    others = sum(1 for _ in changes)
    if others:
        text = f"and {others} more {'partition' if others == 1 else 'partitions'}"
        lines.append(Line(f"{text}: {why}" if why else text, {"partitions": others}))
    return lines


def _changes(records: Iterable[MetadataRecord], before: MetadataImage) -> Iterator[Change]:
    for record in records:
        if isinstance(record, PartitionChangeRecord):
            topic = before.topics_by_id[record.topic_id]
            old = topic.partitions[record.partition_id]
            new = merged(old, record)
            if (new.leader, new.isr) != (old.leader, old.isr):
                yield Change(f"{topic.name}-{record.partition_id}", old, new)


def _line(change: Change, why: str) -> Line:
    name, before, after = change
    parts = []
    if after.leader != before.leader:
        parts.append(f"leader {_leader(before)} -> {_leader(after)} (epoch {after.leader_epoch})")
    if after.isr != before.isr:
        parts.append(f"in sync {_brokers(before.isr)} -> {_brokers(after.isr)}")
    fields = {"partition": name, "leader": after.leader, "leader_epoch": after.leader_epoch, "isr": list(after.isr)}
    return Line(f"{name}: {', '.join(parts)}: {why}", fields)


def _dirs_line(record: MetadataRecord, before: MetadataImage) -> Line:
    assert isinstance(record, BrokerRegistrationChangeRecord)
    failed, left = _failed_dirs(record, before), len(record.log_dirs)
    fields = {"broker": record.broker_id, "failed_log_dirs": failed, "log_dirs_left": left}
    return Line(f"broker {record.broker_id} has lost log dir {', '.join(failed)}; {left} left", fields)


def _failed_dirs(record: BrokerRegistrationChangeRecord, before: MetadataImage) -> list[str]:
    registered = before.brokers[record.broker_id].log_dirs
    return [uuid_text(directory) for directory in registered if directory not in record.log_dirs]


def _leader(partition: PartitionImage) -> str:
    return "none" if partition.leader == NO_LEADER else str(partition.leader)


def _brokers(broker_ids: Iterable[int]) -> str:
    return ",".join(map(str, broker_ids)) or "none"


# ---- why


def _why(records: Iterable[MetadataRecord], request: Any, before: MetadataImage) -> str:
    """Returns what happened to a broker, or what was asked for; nothing if each partition has a reason of its own."""
    for record in records:
        if (happened := _happened(record, before)) is not None:
            return happened
    match None if request is None else request.__api_key__:
        case ApiKey.BROKER_HEARTBEAT if not request.want_shut_down:
            return f"every log dir of broker {request.broker_id} has failed"
        case ApiKey.BROKER_HEARTBEAT:
            return f"broker {request.broker_id} stops"
        case ApiKey.ASSIGN_REPLICAS_TO_DIRS:
            return f"broker {request.broker_id} has said in which log dir its replica lies"
        case ApiKey.ALTER_PARTITION_REASSIGNMENTS:
            return "a reassignment was asked for"
        case ApiKey.ELECT_LEADERS:
            return "an election was asked for"
    return ""


def _happened(record: MetadataRecord, before: MetadataImage) -> str | None:
    match record:
        case BrokerRegistrationChangeRecord(log_dirs=left) if left:
            return f"log dir {', '.join(_failed_dirs(record, before))} of broker {record.broker_id} has failed"
        case RegisterBrokerRecord():
            return f"broker {record.broker_id} has restarted"
        case UnregisterBrokerRecord():
            return f"broker {record.broker_id} was unregistered"
        case BrokerRegistrationChangeRecord(fenced=state) if state == FENCE:
            return f"broker {record.broker_id} was fenced"
        case BrokerRegistrationChangeRecord(fenced=state) if state == UNFENCE:
            return f"broker {record.broker_id} is back"
        case BrokerRegistrationChangeRecord():
            return f"broker {record.broker_id} stops"
    return None


def _why_this_one(change: Change) -> str:
    before, after = change.before, change.after
    if is_reassigning(before) and not is_reassigning(after):
        return "its reassignment is complete"
    if after.leader != before.leader:
        return "an unclean election is allowed" if before.leader == NO_LEADER else "it is the preferred leader"
    gone = [replica for replica in before.isr if replica not in after.isr]
    come = [replica for replica in after.isr if replica not in before.isr]
    said = [f"{_brokers(gone)} fell behind"] if gone else []
    said += [f"{_brokers(come)} caught up"] if come else []
    return " and ".join(said) or "its leader says so"
