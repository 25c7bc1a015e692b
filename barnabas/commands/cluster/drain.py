"""`barnabas cluster drain`: nothing is left on a broker, or it leads nothing any more.

A broker that does not run can be drained, too: others copy from those that have its partitions. New partitions may
still be given to a broker that runs; what arrives while it is drained is moved as well.
"""

from collections import Counter

from barnabas.client.client import Client
from barnabas.client.replicas.reassignments import Ongoing, ongoing_reassignments
from barnabas.client.replicas.spread import drained
from barnabas.commands.cluster.leaders import Leaders, move_leaders
from barnabas.commands.cluster.moves import THROTTLE, WITHIN, begin, end_throttles, wait_for
from barnabas.commands.cluster.partitions import (
    BrokerChoice,
    broker_id_of,
    find_partitions,
    named,
    registered_brokers,
    require_broker,
)
from barnabas.commands.cluster_options import CLUSTER_OPTIONS, connect
from barnabas.options import Arguments, Command, Failure, Option, UsageError
from barnabas.output import plural, print_json, say
from barnabas.protocol.types import TopicPartition


def drain(arguments: Arguments) -> int:
    broker_id = broker_id_of(arguments.broker)
    if arguments.leaders_only and (arguments.throttle or arguments.within):
        raise UsageError("--leaders-only copies nothing: leave out --throttle and --within")
    with connect(arguments) as client:
        brokers = registered_brokers(client)
        require_broker(broker_id, brokers)
        if arguments.leaders_only:
            return _move_leaders(client, broker_id, arguments)
        moved = _move_replicas(client, broker_id, brokers, arguments)
    if arguments.json:
        print_json({"broker": broker_id, "moved": [name._asdict() for name in sorted(moved)], "left": []})
    else:
        print(f"broker {broker_id} has no replica any more; {plural(len(moved), 'partition')} moved")
        say(f"stop it before new partitions arrive, then `barnabas cluster unregister {broker_id}`")
    return 0


# ---- replicas


def _move_replicas(
    client: Client, broker_id: int, brokers: dict[int, BrokerChoice], arguments: Arguments
) -> set[TopicPartition]:
    others = {each: broker.rack for each, broker in brokers.items() if each != broker_id and not broker.is_fenced}
    moved: set[TopicPartition] = set()
    while True:
        partitions, moving = find_partitions(client), ongoing_reassignments(client)
        assignments = {name: _target(partition.replicas, moving.get(name)) for name, partition in partitions.items()}
        plan = drained(assignments, others, broker_id)
        leaving = {name: moving[name].target for name in moving if broker_id in moving[name].removing}
        if not plan and not leaving:
            if arguments.throttle is not None and moved:
                end_throttles(client, moved)
            return moved
        before = {name: partitions[name].replicas for name in plan}
        begin(client, before, plan, arguments.throttle)
        _wait(client, {**leaving, **plan}, broker_id, arguments.within)
        moved |= {*plan, *leaving}


def _wait(client: Client, target: dict[TopicPartition, tuple[int, ...]], broker_id: int, within_s: int | None) -> None:
    try:
        wait_for(client, target, within_s)
    except KeyboardInterrupt:
        say(
            f"\nthe moves go on: `barnabas cluster drain {broker_id}` waits again, "
            "`barnabas cluster reassign cancel --all` ends them"
        )
        raise


def _target(replicas: tuple[int, ...], move: Ongoing | None) -> tuple[int, ...]:
    return replicas if move is None else move.target


# ---- leaders


def _move_leaders(client: Client, broker_id: int, arguments: Arguments) -> int:
    wanted, left = _next_leaders(client, broker_id)
    move_leaders(client, wanted)
    if arguments.json:
        print_json(
            {
                "broker": broker_id,
                "moved": [{**name._asdict(), "leader": leader} for name, leader in wanted.items()],
                "left": [name._asdict() for name in left],
            }
        )
    elif wanted or not left:
        rest = "" if left else f"; broker {broker_id} leads nothing any more"
        print(f"{plural(len(wanted), 'leader')} moved{rest}")
    if left:
        raise Failure(
            f"broker {broker_id} still leads what no other replica is in sync with: {named(left)}",
            "give them more replicas, or wait until others are in sync: `barnabas cluster status`",
        )
    return 0


def _next_leaders(client: Client, broker_id: int) -> tuple[Leaders, list[TopicPartition]]:
    """Returns who is to lead each partition of this broker, and the partitions that nobody else can lead."""
    partitions = find_partitions(client)
    leads = Counter(partition.leader_id for partition in partitions.values())
    wanted: Leaders = {}
    left: list[TopicPartition] = []
    for name, partition in partitions.items():
        if partition.leader_id != broker_id:
            continue
        able = [replica for replica in partition.isr if replica != broker_id]
        if not able:
            left.append(name)
            continue
        wanted[name] = min(able, key=lambda replica: (leads[replica], replica))
        leads[wanted[name]] += 1
    return wanted, left


COMMANDS = (
    Command(
        "cluster drain",
        "Move all replicas, or only the leaders, off a broker, and wait until they are gone.",
        drain,
        (
            Option("--leaders-only", "let others lead; the replicas stay. Before a restart, for example"),
            THROTTLE,
            WITHIN,
            *CLUSTER_OPTIONS,
        ),
        positionals="BROKER",
        examples=(
            "barnabas cluster drain 3 --leaders-only                # before it is restarted",
            "barnabas cluster drain 3 --throttle 50000000           # before it is taken away",
        ),
    ),
)
