"""`barnabas cluster move-leader` and `barnabas cluster elect`: who leads.

A leader moves in two steps that any Kafka knows: the next one becomes the first of the replicas, the preferred one, and
then the preferred one is elected. The order stays, so nothing moves it back.
"""

import time
from collections.abc import Mapping

from barnabas.client.client import Client, backoffs
from barnabas.client.cluster import Partition
from barnabas.client.replicas.reassignments import (
    PREFERRED,
    UNCLEAN,
    elect_leaders,
    ongoing_reassignments,
    reassign,
)
from barnabas.commands.cluster.partitions import check_refusals, find_partitions, named, require_partition
from barnabas.commands.cluster_options import CLUSTER_OPTIONS, connect
from barnabas.commands.group_choice import parse_topic
from barnabas.options import Arguments, Command, Failure, Option, UsageError
from barnabas.output import plural, print_json
from barnabas.protocol.types import TopicPartition

Leaders = dict[TopicPartition, int]


def move_leader(arguments: Arguments) -> int:
    wanted = dict(map(_parse_move, arguments.move))
    with connect(arguments) as client:
        move_leaders(client, wanted)
    if arguments.json:
        print_json([{**name._asdict(), "leader": leader} for name, leader in wanted.items()])
    else:
        for name, leader in wanted.items():
            print(f"broker {leader} leads {name}")
    return 0


def _parse_move(text: str) -> tuple[TopicPartition, int]:
    place, equals, broker_id = text.rpartition("=")
    topic, colon, index = place.rpartition(":")
    if not (equals and colon and topic and broker_id.isdecimal() and index.isdecimal()):
        raise UsageError(f"{text}: must be TOPIC:PARTITION=BROKER, such as orders:0=2")
    return TopicPartition(topic, int(index)), int(broker_id)


def move_leaders(client: Client, wanted: Leaders) -> None:
    """Returns when these brokers lead. Raises before anything has changed if one of them cannot."""
    partitions = find_partitions(client, {name.topic for name in wanted})
    for name, leader in wanted.items():
        _check_move(name, require_partition(name, partitions), leader)
    moving = ongoing_reassignments(client)
    if busy := [name for name in wanted if name in moving]:
        raise Failure(
            f"being reassigned: {named(busy)}", "wait until that is done, or `barnabas cluster reassign cancel`"
        )
    orders = {
        name: _preferring(leader, partitions[name])
        for name, leader in wanted.items()
        if partitions[name].replicas[0] != leader
    }
    if orders:
        check_refusals(reassign(client, orders), "did not get another preferred leader")
    if wanted:
        check_refusals(elect_leaders(client, PREFERRED, wanted), "did not get another leader")
        _wait_for(client, wanted)


def _check_move(name: TopicPartition, partition: Partition, leader: int) -> None:
    replicas, isr = (", ".join(map(str, each)) or "nobody" for each in (partition.replicas, partition.isr))
    if leader not in partition.replicas:
        raise Failure(
            f"broker {leader} has no replica of {name}: {replicas} have", "give it one with `barnabas cluster reassign`"
        )
    if leader not in partition.isr:
        raise Failure(
            f"the replica of {name} on broker {leader} is not in sync: {isr} may lead",
            "`barnabas cluster status --watch` shows when it is",
        )


def _preferring(leader: int, partition: Partition) -> tuple[int, ...]:
    return (leader, *(replica for replica in partition.replicas if replica != leader))


def _wait_for(client: Client, wanted: Mapping[TopicPartition, int]) -> None:
    """Returns when the metadata say it, too: the broker that is asked may hear of it a moment later."""
    deadline = time.monotonic() + client.timeout_s
    for backoff_s in backoffs():
        partitions = find_partitions(client, {name.topic for name in wanted})
        left = [name for name, leader in wanted.items() if partitions[name].leader_id != leader]
        if not left:
            return
        if time.monotonic() > deadline:
            raise Failure(f"elected, but led by others again: {named(left)}", "look at `barnabas cluster status`")
        time.sleep(backoff_s)


# ---- elect


def elect(arguments: Arguments) -> int:
    if arguments.unclean and not arguments.topic:
        raise UsageError("--unclean may lose records: name the partitions, as in orders:0")
    with connect(arguments) as client:
        partitions = _chosen(client, arguments.topic) if arguments.topic else None
        kind = UNCLEAN if arguments.unclean else PREFERRED
        refusals = elect_leaders(client, kind, partitions)
    check_refusals(refusals, "got no other leader")
    if arguments.json:
        print_json({"elected": None if partitions is None else [each._asdict() for each in partitions]})
    else:
        what = "every partition" if partitions is None else plural(len(partitions), "partition")
        which = "a leader" if arguments.unclean else "its preferred leader"
        print(f"{what}: {which} leads")
    return 0


def _chosen(client: Client, words: list[str]) -> list[TopicPartition]:
    try:
        choices = [parse_topic(word) for word in words]
    except ValueError as error:
        raise UsageError(str(error)) from None
    partitions = find_partitions(client, {choice.topic for choice in choices})
    for choice in choices:
        for index in choice.partitions or ():
            require_partition(TopicPartition(choice.topic, index), partitions)
    return [
        name for name in partitions if any(name.topic == each.topic and each.has(name.partition) for each in choices)
    ]


COMMANDS = (
    Command(
        "cluster move-leader",
        "Make another replica that is in sync the leader of a partition, and the preferred one.",
        move_leader,
        CLUSTER_OPTIONS,
        positionals="MOVE...",
        examples=(
            "barnabas cluster move-leader orders:0=2                # TOPIC:PARTITION=BROKER",
            "barnabas cluster move-leader orders:0=2 orders:1=3",
        ),
    ),
    Command(
        "cluster elect",
        "Let the preferred replicas lead again, of all partitions or of some; or somebody, at any price.",
        elect,
        (
            Option("--unclean", "elect whoever is alive where nobody leads: what only others have is lost"),
            *CLUSTER_OPTIONS,
        ),
        positionals="[TOPIC...]",
        examples=(
            "barnabas cluster elect                                 # after a broker is back",
            "barnabas cluster elect orders payments:0,2",
            "barnabas cluster elect orders:0 --unclean              # all who had its records are lost",
        ),
    ),
)
