"""Moves of replicas: begun, waited for with a line of progress, and their limits taken away at the end."""

import sys
import time
from collections.abc import Collection, Mapping, Sequence

from barnabas.client.client import Client, backoffs
from barnabas.client.cluster import partitions_of
from barnabas.client.errors import Unreachable
from barnabas.client.replicas.log_ends import lags, log_ends
from barnabas.client.replicas.reassignments import Ongoing, ongoing_reassignments, reassign
from barnabas.client.replicas.throttles import clear_throttles, set_throttles
from barnabas.commands.cluster.partitions import check_refusals, named, registered_brokers
from barnabas.options import Failure, Option, positive_number
from barnabas.output import plural, say
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import TopicPartition

THROTTLE = Option("--throttle", "copy at most so much to and from each broker", "BYTES/S", positive_number)
WITHIN = Option("--within", "give up waiting after so long; the moves go on", "SECONDS", positive_number)

Target = Mapping[TopicPartition, Sequence[int]]


class Progress(NamedTuple):
    moving: dict[TopicPartition, Ongoing]
    replicas: dict[TopicPartition, tuple[int, ...]]
    """What the metadata say, of those partitions that there are."""
    to_copy: dict[TopicPartition, int | None]
    """How many records the new replicas lack; None where nobody knows."""


def look(client: Client, names: Collection[TopicPartition]) -> Progress:
    """Returns how far the moves of these partitions are."""
    moving = {name: move for name, move in ongoing_reassignments(client).items() if name in names}
    cluster = client.metadata({name.topic for name in names})
    partitions = {name: each for name, each in partitions_of(cluster).items() if name in names}
    incomplete = {name: each for name, each in partitions.items() if name in moving}
    ends = log_ends(client, cluster, incomplete) if incomplete else {}
    to_copy = {name: _missing(lags(each, ends[name]), moving[name].adding) for name, each in incomplete.items()}
    return Progress(moving, {name: each.replicas for name, each in partitions.items()}, to_copy)


def _missing(behind: Mapping[int, int | None], adding: Collection[int]) -> int | None:
    known = [lag for replica in adding if (lag := behind.get(replica)) is not None]
    return sum(known) if len(known) == len(adding) else None


def begin(client: Client, before: Target, target: Target, throttle: int | None) -> None:
    """Raises Failure with the controller's reasons if something could not be begun."""
    if throttle is not None:
        set_throttles(client, throttle, before, target)
    check_refusals(reassign(client, target), "cannot be moved")


def end_throttles(client: Client, names: Collection[TopicPartition]) -> None:
    """Takes limits away, from every broker that runs and from topics that are still there."""
    topics = client.metadata({name.topic for name in names}).topics
    active = [broker_id for broker_id, broker in registered_brokers(client).items() if not broker.is_fenced]
    clear_throttles(client, topics, active)


def wait_for(client: Client, target: Target, within_s: int | None) -> None:
    """Returns when nothing of this moves any more and the metadata say so, too. Raises Failure with what is left."""
    line = ProgressLine(len(target))
    deadline = None if within_s is None else time.monotonic() + within_s
    stale_until = 0.0
    for backoff_s in backoffs():
        progress = _look_again(client, target)
        if progress is not None:
            line.show(progress)
            if not progress.moving and (_is_told(progress, target) or 0 < stale_until < time.monotonic()):
                return line.end()
            if not progress.moving and not stale_until:  # the broker that is asked may hear of it a moment later
                stale_until = time.monotonic() + client.timeout_s
        if deadline is not None and time.monotonic() > deadline:
            line.end()
            left = named(progress.moving) if progress is not None else "nobody can say what"
            raise Failure(f"not done within {within_s} s, left: {left}", "the moves go on; wait again, or cancel them")
        time.sleep(backoff_s)


def _look_again(client: Client, target: Target) -> Progress | None:
    try:
        return look(client, target.keys())
    except Unreachable as error:
        say(f"barnabas: {error}; trying again")
        client.forget_any()
        return None


def _is_told(progress: Progress, target: Target) -> bool:
    return all(
        {*progress.replicas[name]} == {*replicas} for name, replicas in target.items() if name in progress.replicas
    )


class ProgressLine:
    """One line on stderr: drawn again in place on a terminal, and otherwise written when there is something new."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._shown = ""
        self._in_place = sys.stderr.isatty()

    def show(self, progress: Progress) -> None:
        text = f"{self._count - len(progress.moving):,} of {plural(self._count, 'partition')} moved"
        if records := sum(each or 0 for each in progress.to_copy.values()):
            text += f", {plural(records, 'record')} to copy"
        if text == self._shown:
            return
        self._shown = text
        if self._in_place:
            sys.stderr.write(f"\r{text}\x1b[K")
            sys.stderr.flush()
        else:
            say(text)

    def end(self) -> None:
        if self._in_place and self._shown:
            say("")
