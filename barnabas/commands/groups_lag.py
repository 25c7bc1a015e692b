"""`barnabas groups lag`: once, or again and again."""

import time
from collections.abc import Iterator
from typing import Any

from barnabas.client.client import Client
from barnabas.client.group_admin import Group
from barnabas.client.group_lag import PartitionLag, partition_lags, unread_ages
from barnabas.client.group_waits import Blamed, Wait, Waits, group_waits
from barnabas.commands.cluster_options import connect
from barnabas.commands.group_choice import require_choice, wanted_groups
from barnabas.commands.watching import View, show
from barnabas.options import Arguments
from barnabas.output import human_duration, plural, table_lines
from barnabas.protocol.types import TopicPartition


class GroupLag:
    """The lag of one group at one time."""

    def __init__(
        self, group: Group, lags: list[PartitionLag], ages: dict[TopicPartition, float | None], waits: Waits
    ) -> None:
        self.group_id = group.group_id
        self.state = group.state
        self.waits = waits
        self.lags = lags
        self.ages = ages

    @property
    def total(self) -> int | None:
        """Returns the lag of all partitions whose lag is known, or None if none is."""
        known = [each.lag for each in self.lags if each.lag is not None]
        return sum(known) if known else None

    @property
    def uncommitted(self) -> int:
        """Returns the partitions that the total leaves out because nothing was committed."""
        return sum(each.committed is None for each in self.lags)

    @property
    def unknown(self) -> int:
        """Returns the partitions that the total leaves out for another reason."""
        return sum(each.lag is None for each in self.lags) - self.uncommitted

    @property
    def age_max(self) -> float | None:
        return max((age for age in self.ages.values() if age is not None), default=None)


def lag(arguments: Arguments) -> int:
    require_choice(arguments)
    with connect(arguments) as client:
        show(View("groups", lambda: _look(client, arguments), _lines, _all_as_json), arguments)
    return 0


def _look(client: Client, arguments: Arguments) -> list[GroupLag]:
    groups = wanted_groups(client, arguments)
    lags = partition_lags(client, groups)
    waits = group_waits(client, lags)
    now_ms = time.time_ns() // 1_000_000
    return [
        GroupLag(group, theirs, unread_ages(client, theirs, now_ms), waits[group.group_id])
        for group in groups
        for theirs in [lags[group.group_id]]
    ]


# ---- text and JSON


def _lines(groups: list[GroupLag]) -> Iterator[str]:
    if not groups:
        yield "there are no groups"
    for number, group in enumerate(groups):
        if number:
            yield ""
        yield from _group_lines(group)


def _group_lines(group: GroupLag) -> Iterator[str]:
    yield f"{group.group_id}  ({group.state}, {_summary(group)})"
    if not group.lags:
        return
    rows = [
        (
            *each.partition,
            *("-" if number is None else number for number in (each.committed, each.log_end_offset)),
            _or_unknown(each, each.lag),
            _or_unknown(each, None if (age := group.ages[each.partition]) is None else human_duration(age)),
            each.member.client_id if each.member else "-",
        )
        for each in group.lags
    ]
    yield from table_lines(("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "BEHIND", "CLIENT"), rows)
    for each in group.lags:
        if each.is_beyond_the_end:
            yield f"{each.partition}: the committed offset is beyond the end of the log: was the topic created again?"
    for partition, wait in group.waits.items():
        yield from _wait_lines(partition, wait)


def _wait_lines(partition: TopicPartition, wait: Wait) -> Iterator[str]:
    if wait.is_unstable:
        whose = " or ".join(map(_name, wait.unstable_by)) or "an open transaction"
        yield f"{partition}: consumers that ask for the committed offset wait for the end of {whose}"
    if wait.last_stable_offset is not None:
        until = f"until the end of {_name(wait.stopped_by)}"
        yield f"{partition}: consumers of committed records stop at offset {wait.last_stable_offset} {until}"


def _name(blamed: Blamed | None) -> str:
    if blamed is None:
        return "an open transaction"
    age = human_duration(max(0.0, time.time() - blamed.last_timestamp_ms / 1000))
    of = f"of {blamed.transactional_id}" if blamed.transactional_id is not None else "that no coordinator knows"
    return f"the transaction {of} (producer id {blamed.producer_id}, last write {age} ago)"


def _or_unknown(each: PartitionLag, value: object) -> object:
    """Returns a dash where nothing was committed, since there is nothing to measure from."""
    if value is not None:
        return value
    return "-" if each.committed is None else "unknown"


def _summary(group: GroupLag) -> str:
    if len(group.lags) == group.uncommitted:
        return "nothing committed"
    parts = [] if group.total is None else [f"{plural(group.total, 'record')} behind"]
    if group.total and group.age_max:
        parts.append(f"the oldest {human_duration(group.age_max)} old")
    if group.unknown:
        parts.append(f"{plural(group.unknown, 'partition')} unknown")
    if group.uncommitted:
        parts.append(f"nothing committed in {plural(group.uncommitted, 'partition')}")
    return ", ".join(parts)


def _all_as_json(groups: list[GroupLag]) -> list[dict[str, Any]]:
    return [_as_json(group) for group in groups]


def _as_json(group: GroupLag) -> dict[str, Any]:
    return {
        "group_id": group.group_id,
        "state": group.state,
        "total_lag": group.total,
        "max_lag_seconds": group.age_max,
        "unknown_partitions": group.unknown,
        "uncommitted_partitions": group.uncommitted,
        "partitions": [
            {
                **each.partition._asdict(),
                "committed": each.committed,
                "log_end_offset": each.log_end_offset,
                "lag": each.lag,
                "lag_seconds": group.ages[each.partition],
                "client_id": each.member and each.member.client_id,
                "waits_for": _wait_json(group.waits.get(each.partition)),
            }
            for each in group.lags
        ],
    }


def _wait_json(wait: Wait | None) -> dict[str, Any] | None:
    if wait is None:
        return None
    return wait._asdict() | {
        "stopped_by": wait.stopped_by and wait.stopped_by._asdict(),
        "unstable_by": [blamed._asdict() for blamed in wait.unstable_by],
    }
