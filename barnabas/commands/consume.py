"""`barnabas consume`: the records of a topic, as text, by a format of the user's or as JSON.

Without --follow it ends where the topic ended when it started. Ctrl-C is how --follow ends: it is no error. As a member
of a group it goes on where the group is, and --from holds only where the group has committed nothing.
"""

import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.client.admin import EARLIEST, LATEST, Isolation, list_offsets, require_partitions
from barnabas.client.client import Client
from barnabas.client.cluster import Topic
from barnabas.client.consumer import Consumed, Consumer, Position
from barnabas.commands.cluster_options import CLUSTER_OPTIONS, connect
from barnabas.commands.times import parse_timestamp
from barnabas.options import Arguments, Command, Option, UsageError, positive_number, whole_number
from barnabas.output import Formatter, record_format, record_json, say
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.named_tuple import NamedTuple

if TYPE_CHECKING:
    from barnabas.client.group_member import GroupMember

DEFAULT_FORMAT = "%v\\n"
WRITE_BYTES = 1 << 16


class Start(NamedTuple):
    """Where reading starts: a `timestamp` to look up (or EARLIEST, LATEST), or an `offset`, negative from the end."""

    timestamp: int | None = None
    offset: int | None = None


def parse_start(text: str) -> Start:
    if text in ("beginning", "earliest"):
        return Start(timestamp=EARLIEST)
    if text in ("end", "latest"):
        return Start(timestamp=LATEST)
    if text.removeprefix("-").isdecimal() and text.isascii():
        return Start(offset=int(text))
    try:
        return Start(timestamp=parse_timestamp(text))
    except ValueError:
        raise ValueError(
            "must be beginning, end, an offset, -N from the end, @milliseconds or a time such as 2026-01-31T12:00:00Z"
        ) from None


def _parse_isolation(text: str) -> Isolation:
    for isolation in Isolation:
        if text.lower() == isolation.name.lower():
            return isolation
    raise ValueError("must be read_committed or read_uncommitted")


def consume(arguments: Arguments) -> int:
    if arguments.format is not None and arguments.json:
        raise UsageError("--format and --json exclude each other")
    if arguments.group is not None and arguments.partition:
        raise UsageError("--group and --partition exclude each other: a group shares the partitions out")
    show = record_json() if arguments.json else _formatter(arguments)
    with connect(arguments) as client:
        topic = client.topic(arguments.topic)
        try:
            if arguments.group is None:
                require_partitions(topic, arguments.partition)
                partitions = arguments.partition or [each.partition_index for each in topic.partitions]
                _print_all(_consumer(client, topic, arguments, partitions, {}), show, arguments.max)
            else:
                _print_as_member(client, topic, arguments, show)
        except KeyboardInterrupt:
            pass
    return 0


def _consumer(
    client: Client, topic: Topic, arguments: Arguments, partitions: Sequence[int], committed: Mapping[int, int]
) -> Consumer:
    """Returns a consumer of these partitions, each from its committed offset or, without one, from where the user
    says."""
    isolation = arguments.isolation
    ends = list_offsets(client, topic, LATEST, partitions, isolation=isolation)
    if isolation is Isolation.READ_COMMITTED and not arguments.follow:
        _say_what_waits(client, topic, ends)
    starts = {index: committed[index] for index in partitions if index in committed}
    others = {index: end for index, end in ends.items() if index not in starts}
    starts |= _starts(client, topic, getattr(arguments, "from"), others, isolation)
    positions = {index: Position(starts[index], None if arguments.follow else ends[index]) for index in partitions}
    return Consumer(client, topic, positions, isolation=isolation, on_skip=_say_skipped)


def _formatter(arguments: Arguments) -> Formatter:
    try:
        return record_format(DEFAULT_FORMAT if arguments.format is None else arguments.format, raw=arguments.raw)
    except ValueError as error:
        raise UsageError(f"--format {arguments.format}: {error}") from None


def _starts(client: Client, topic: Topic, start: Start, ends: dict[int, int], isolation: Isolation) -> dict[int, int]:
    if start.timestamp == LATEST:
        return ends
    if start.timestamp is not None:
        found = list_offsets(client, topic, start.timestamp, ends, isolation=isolation)
        return {index: ends[index] if offset < 0 else offset for index, offset in found.items()}
    assert start.offset is not None, "a start is a timestamp or an offset"
    first = list_offsets(client, topic, EARLIEST, ends)
    if start.offset < 0:
        return {index: max(first[index], end + start.offset) for index, end in ends.items()}
    return {index: _within(topic.name, index, start.offset, first[index], end) for index, end in ends.items()}


def _within(topic: str, index: int, offset: int, first: int, end: int) -> int:
    if not first <= offset <= end:
        raise KafkaError(
            f"partition {index} of topic {topic} has no offset {offset}: it holds {first} to {end}",
            ErrorCode.OFFSET_OUT_OF_RANGE,
        )
    return offset


def _print_all(consumer: Consumer, show: Formatter, left: int | None) -> None:
    for records in consumer.batches():
        if (left := _print(records, show, left)) == 0:
            return


def _print(records: Iterator[Consumed], show: Formatter, left: int | None) -> int | None:
    """Writes the records at once. Returns how many may follow, if there is a limit."""
    with Gathered() as gathered:
        for record in records:
            gathered.add(show(*record))
            if left is not None and (left := left - 1) == 0:
                break
    return left


def _print_as_member(client: Client, topic: Topic, arguments: Arguments, show: Formatter) -> None:
    """Prints as a member of a group and commits what was printed: the next reader of these partitions continues after
    it."""
    from barnabas.client.group_member import GroupMember

    left, is_done = arguments.max, False
    with connect(arguments) as its_own, GroupMember(its_own, arguments.group, topic.name) as member:
        while not is_done:
            partitions = member.join()
            consumer = _consumer(client, topic, arguments, partitions, member.committed(partitions))
            try:
                left, is_done = _print_while_member(consumer, member, show, left)
            finally:
                consumer.abandon_fetches()
            if not partitions:
                say(f"barnabas: other members of group {arguments.group} read all of topic {topic.name}")
            if not partitions and arguments.follow:
                member.wait_to_join_again()
                is_done = False


def _print_while_member(
    consumer: Consumer, member: "GroupMember", show: Formatter, left: int | None
) -> tuple[int | None, bool]:
    """Prints until the end or a rebalance. Returns how many records may follow, and whether it was the end."""
    for records in consumer.batches():
        with CtrlCLater():  # otherwise what was printed is not committed, and the next member prints it again
            left = _print(records, show, left)
            member.shown = {index: position.offset for index, position in consumer.positions.items()}
        if not member.keep_up() or left == 0:
            return left, left == 0
    return left, True


class CtrlCLater:
    """Delays Ctrl-C until the block has ended. A second one counts at once, since the output may be stuck."""

    def __enter__(self) -> None:
        self._pressed = False
        self._before = signal.signal(signal.SIGINT, self._press)

    def _press(self, *_: object) -> None:
        if self._pressed:
            raise KeyboardInterrupt
        self._pressed = True

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)
        if self._pressed:
            raise KeyboardInterrupt


class Gathered:
    """Output in large writes, whatever the interpreter's buffering; on exit everything is written."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0

    def __enter__(self) -> "Gathered":
        return self

    def add(self, data: bytes) -> None:
        self.parts.append(data)
        self.size += len(data)
        if self.size >= WRITE_BYTES:
            self.flush()

    def flush(self) -> None:
        data = memoryview(b"".join(self.parts))
        self.parts, self.size = [], 0
        while data:  # an unbuffered stdout may take less than all
            data = data[sys.stdout.buffer.write(data) :]
        sys.stdout.buffer.flush()

    def __exit__(self, *_: object) -> None:
        self.flush()


def _say_what_waits(client: Client, topic: Topic, stable_ends: dict[int, int]) -> None:
    """Says where records are left out because the outcome of a transaction is not known so far."""
    for index, end in sorted(list_offsets(client, topic, LATEST, stable_ends).items()):
        if end > stable_ends[index]:
            say(
                f"barnabas: partition {index} is read up to offset {stable_ends[index]}: what follows, up to offset "
                f"{end}, waits for the end of a transaction"
            )


def _say_skipped(partition: int, from_offset: int, to_offset: int) -> None:
    say(f"barnabas: partition {partition}: offsets {from_offset} to {to_offset - 1} are gone, going on at {to_offset}")


COMMANDS = (
    Command(
        "consume",
        "Print the records of a topic.",
        consume,
        (
            Option("-p --partition", "only this partition", "N", whole_number, repeated=True),
            Option(
                "--from",
                "beginning (default), end, OFFSET, -N from the end, @MS or a time (UTC if it has no zone)",
                "WHERE",
                parse_start,
                Start(timestamp=EARLIEST),
            ),
            Option("-g --group", "read as a member of this group, and commit what is printed", "NAME"),
            Option(
                "--isolation",
                "read_committed: only what transactions have committed (default read_uncommitted)",
                "LEVEL",
                _parse_isolation,
                Isolation.READ_UNCOMMITTED,
            ),
            Option("-f --follow", "go on with what is produced from now on, until Ctrl-C"),
            Option("-n --max", "stop after N records", "N", positive_number),
            Option("-F --format", "how to print a record, see below (default %v\\n)", "FORMAT"),
            Option("--raw", "write bytes that are no text as they are, not escaped"),
            *CLUSTER_OPTIONS,
        ),
        "TOPIC",
        (
            "barnabas consume orders",
            "barnabas consume orders --from -10 --follow",
            "barnabas consume orders --group billing --follow",
            "barnabas consume payments --isolation read_committed",
            "barnabas consume orders --from 2026-01-31T12:00:00Z --json | jq .value",
            "barnabas consume orders --format '%p:%o %T %k=%v %h\\n'",
            "",
            "%t topic    %p partition   %o offset   %T timestamp (ms)   %h headers",
            "%k key      %v, %s value   %K, %S length of key and value  %% percent sign",
        ),
    ),
)
