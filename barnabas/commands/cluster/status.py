"""`barnabas cluster status` and `unregister`: nodes, the quorum, what is wrong with partitions, who is gone."""

import time
from collections.abc import Iterator
from typing import Any

from barnabas.client.admin import unregister_broker
from barnabas.client.cluster_status import (
    ClusterStatus,
    NodeStatus,
    PartitionTrouble,
    Quorum,
    QuorumReplica,
    cluster_status,
)
from barnabas.commands.cluster.partitions import broker_id_of, named
from barnabas.commands.cluster_options import CLUSTER_OPTIONS, connect
from barnabas.commands.watching import WATCH, View, show
from barnabas.options import Arguments, Command
from barnabas.output import human_duration, plural, print_json, table_lines
from barnabas.protocol.types import TopicPartition


def status(arguments: Arguments) -> int:
    with connect(arguments) as client:
        show(View("cluster", lambda: cluster_status(client), _lines, _as_json), arguments)
    return 0


def unregister(arguments: Arguments) -> int:
    with connect(arguments) as client:
        unregister_broker(client, broker_id_of(arguments.id))
    if arguments.json:
        print_json({"unregistered": broker_id_of(arguments.id)})
        return 0
    print(f"broker {arguments.id} is no longer part of the cluster; if it still runs, it will register again")
    return 0


# ---- text


def _lines(found: ClusterStatus) -> Iterator[str]:
    brokers = sum("broker" in node.roles for node in found.nodes)
    yield f"cluster {found.cluster_id}  ({plural(brokers, 'broker')}, controller {found.controller_id})"
    rows = [_row(node, found) for node in found.nodes]
    yield from table_lines(("NODE", "ADDRESS", "RACK", "ROLES", "STATE", "LEADS", "REPLICAS", "LAG"), rows)
    yield ""
    yield from _quorum_lines(found)
    yield ""
    yield ", ".join(
        (
            plural(found.partitions, "partition"),
            _named(found.leaderless, "without a leader"),
            _named(found.under_replicated, "not fully in sync"),
            _named(found.under_min_isr, "below min.insync.replicas"),
        )
    )
    for node_id, paths in found.failed_log_dirs.items():
        yield ""
        which = f"log dir {paths[0]} has failed" if len(paths) == 1 else f"log dirs {', '.join(paths)} have failed"
        yield f"broker {node_id}: {which}; its replicas there are offline: repair or replace the disk, then restart it"
    if found.troubles:
        yield ""
        columns = ("PARTITION", "LEADER", "REPLICAS", "IN SYNC", "NEEDED", "ELIGIBLE", "OFFLINE", "LAG")
        yield from table_lines(columns, map(_trouble_row, found.troubles))


def _row(node: NodeStatus, found: ClusterStatus) -> tuple[object, ...]:
    address = node.address or (found.quorum.addresses.get(node.node_id) if found.quorum is not None else None)
    state = "fenced" if node.is_fenced else "active" if "broker" in node.roles else "-"
    roles = ",".join(node.roles)
    return node.node_id, address or "-", node.rack or "-", roles, state, node.leads, node.replicas, _or_dash(node.lag)


def _trouble_row(trouble: PartitionTrouble) -> tuple[object, ...]:
    partition = trouble.partition
    return (
        trouble.name,
        partition.leader_id if partition.leader_id >= 0 else "-",
        _listed(partition.replicas),
        _listed(partition.isr),
        trouble.min_in_sync,
        _listed(trouble.eligible),
        _listed(partition.offline_replicas),
        "  ".join(f"{replica}: {'unknown' if lag is None else f'{lag:,}'}" for replica, lag in trouble.lags.items()),
    )


def _listed(node_ids: tuple[int, ...]) -> str:
    return ",".join(map(str, node_ids)) or "-"


def _or_dash(value: int | None) -> object:
    return "-" if value is None else value


def _quorum_lines(found: ClusterStatus) -> Iterator[str]:
    quorum = found.quorum
    if quorum is None:
        yield f"quorum: not known, {found.why_no_quorum}"
        return
    yield f"quorum: leader {quorum.leader_id}, epoch {quorum.leader_epoch}, high watermark {quorum.high_watermark}"
    rows = [
        (each.node_id, role, each.log_end_offset, each.lag, _caught_up(each, quorum))
        for replicas, role in ((quorum.voters, "voter"), (quorum.observers, "observer"))
        for each in replicas
    ]
    yield from table_lines(("NODE", "ROLE", "END", "LAG", "CAUGHT UP"), rows)


def _caught_up(replica: QuorumReplica, quorum: Quorum) -> str:
    if replica.node_id == quorum.leader_id:
        return "leads"
    if replica.last_caught_up_ms < 0:
        return "never" if replica.lag else "-"
    seconds = time.time() - replica.last_caught_up_ms / 1000
    return "now" if seconds < 5 else f"{human_duration(seconds)} ago"


def _named(partitions: list[TopicPartition], what: str) -> str:
    if not partitions:
        return f"none {what}"
    return f"{len(partitions)} {what}: {named(partitions)}"


# ---- JSON


def _as_json(found: ClusterStatus) -> dict[str, Any]:
    return {
        "cluster_id": found.cluster_id,
        "controller_id": found.controller_id,
        "nodes": [
            {**node._asdict(), "address": str(node.address) if node.address is not None else None}
            for node in found.nodes
        ],
        "quorum": _quorum_json(found.quorum) if found.quorum is not None else None,
        "num_partitions": found.partitions,
        "leaderless": [partition._asdict() for partition in found.leaderless],
        "under_replicated": [partition._asdict() for partition in found.under_replicated],
        "under_min_isr": [partition._asdict() for partition in found.under_min_isr],
        "failed_log_dirs": {str(node_id): paths for node_id, paths in found.failed_log_dirs.items()},
        "troubles": [_trouble_json(trouble) for trouble in found.troubles],
    }


def _trouble_json(trouble: PartitionTrouble) -> dict[str, Any]:
    partition = trouble.partition
    return {
        **trouble.name._asdict(),
        "leader": partition.leader_id if partition.leader_id >= 0 else None,
        "replicas": partition.replicas,
        "isr": partition.isr,
        "min_in_sync": trouble.min_in_sync,
        "eligible_leaders": trouble.eligible,
        "offline_replicas": partition.offline_replicas,
        "lag": {str(replica): lag for replica, lag in trouble.lags.items()},
    }


def _quorum_json(quorum: Quorum) -> dict[str, Any]:
    return {
        "leader_id": quorum.leader_id,
        "leader_epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "voters": [
            {**voter._asdict(), "address": str(quorum.addresses[voter.node_id])}
            if voter.node_id in quorum.addresses
            else voter._asdict()
            for voter in quorum.voters
        ],
        "observers": [observer._asdict() for observer in quorum.observers],
    }


COMMANDS = (
    Command(
        "cluster status",
        "Show the nodes, the quorum, who leads how much, how far replicas are behind, and what is wrong.",
        status,
        (WATCH, *CLUSTER_OPTIONS),
        examples=("barnabas cluster status", "barnabas cluster status --watch", "barnabas cluster status --json"),
    ),
    Command(
        "cluster unregister",
        "Forget a broker that was stopped and will not come back.",
        unregister,
        CLUSTER_OPTIONS,
        positionals="ID",
        examples=("barnabas cluster unregister 4",),
    ),
)
