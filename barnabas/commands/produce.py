"""`barnabas produce`: a record per line of stdin.

Lines are sent as they come: what arrives while earlier lines are being acknowledged becomes the next batches. A slow
writer sees no delay, a fast one gets large batches.
"""

import os
import select
import sys
import time
from collections.abc import Iterator
from typing import Any

from barnabas.client.admin import require_partitions
from barnabas.client.producer import Producer
from barnabas.commands.cluster_options import CLUSTER_OPTIONS, connect
from barnabas.options import Arguments, Command, Failure, Option, key_value, one_of, whole_number
from barnabas.output import human_bytes, plural, print_json, say, unescape
from barnabas.protocol.compression import CompressionType
from barnabas.protocol.records import NewRecord

STDIN = 0
READ_BYTES = 1 << 18
CHUNK_BYTES_MAX = 4 << 20
PROGRESS_INTERVAL_S = 0.5
ACKS = {"0": 0, "1": 1, "all": -1, "-1": -1}


class LineParser:
    """Turns lines into records. The bytes of a line are its value, or a key, the separator and the value."""

    def __init__(self, separator: bytes | None, null: bytes | None, headers: list[tuple[str, str]]) -> None:
        self.separator = separator
        self.null = null
        self.headers = tuple((name, value.encode(errors="surrogateescape")) for name, value in headers)
        self.lines = 0

    def records(self, lines: list[bytes], timestamp: int) -> Iterator[NewRecord]:
        for line in lines:
            self.lines += 1
            key, value = self._key_and_value(line)
            yield NewRecord(key, None if value == self.null else value, self.headers, timestamp)

    def _key_and_value(self, line: bytes) -> tuple[bytes | None, bytes]:
        if self.separator is None:
            return None, line
        key, found, value = line.partition(self.separator)
        if not found:
            raise Failure(
                f"line {self.lines} has no key separator {self.separator.decode(errors='backslashreplace')!r}",
                "the lines before it were sent",
            )
        return None if key == self.null else key, value


def read_lines(descriptor: int) -> Iterator[list[bytes]]:
    """Yields lists of whole lines without their ends, as many as are there; the last may lack its end."""
    rest = b""
    while chunk := _read_what_is_there(descriptor):
        *lines, rest = (rest + chunk).split(b"\n")
        if lines:
            yield lines
    if rest:
        yield [rest]


def _read_what_is_there(descriptor: int) -> bytes:
    """Reads the bytes that are there. Waits for the first only; returns none if the input has ended."""
    chunks = [os.read(descriptor, READ_BYTES)]
    size = len(chunks[0])
    while chunks[-1] and size < CHUNK_BYTES_MAX and select.select([descriptor], [], [], 0)[0]:
        chunks.append(os.read(descriptor, READ_BYTES))
        size += len(chunks[-1])
    return b"".join(chunks)


class Progress:
    """A count of what was sent, shown on a terminal while it goes on."""

    def __init__(self) -> None:
        self.started_at = time.monotonic()
        self.shown_at = self.started_at
        self.shown = False
        self.on_terminal = sys.stderr is not None and sys.stderr.isatty() and not os.isatty(STDIN)

    @property
    def seconds(self) -> float:
        return max(time.monotonic() - self.started_at, 1e-6)

    def update(self, records: int, size_bytes: int) -> None:
        now = time.monotonic()
        if self.on_terminal and now - self.shown_at >= PROGRESS_INTERVAL_S:
            self.shown_at, self.shown = now, True
            sys.stderr.write(f"\r\033[K{self.text(records, size_bytes)}")
            sys.stderr.flush()

    def text(self, records: int, size_bytes: int) -> str:
        rate = f"{plural(round(records / self.seconds), 'record')}/s, {human_bytes(size_bytes / self.seconds)}/s"
        return f"{plural(records, 'record')}, {human_bytes(size_bytes)} in {self.seconds:.1f} s ({rate})"

    def clear(self) -> None:
        if self.shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def produce(arguments: Arguments) -> int:
    parser = LineParser(_bytes(arguments.key_separator), _bytes(arguments.null), arguments.header)
    with connect(arguments) as client:
        topic = client.topic(arguments.topic, auto_create=True)
        if arguments.partition is not None:
            require_partitions(topic, [arguments.partition])
        producer = Producer(
            client,
            topic,
            acks=ACKS[arguments.acks],
            compression=CompressionType[arguments.compression.upper()],
            partition=arguments.partition,
        )
        progress = Progress()
        try:
            _send_all(producer, parser, progress)
        finally:
            progress.clear()
            _summarize(arguments, producer, progress)
    return 0


def _send_all(producer: Producer, parser: LineParser, progress: Progress) -> None:
    for lines in read_lines(STDIN):
        records: list[NewRecord] = []
        try:
            records.extend(parser.records(lines, time.time_ns() // 1_000_000))
        finally:  # what stands before a bad line is sent
            producer.send(records)
        progress.update(producer.records_acknowledged, producer.bytes_acknowledged)


def _summarize(arguments: Arguments, producer: Producer, progress: Progress) -> None:
    if arguments.json:
        summary: dict[str, Any] = {"topic": producer.topic.name, "records": producer.records_acknowledged}
        print_json(summary | {"bytes": producer.bytes_acknowledged, "seconds": round(progress.seconds, 3)})
    elif not arguments.quiet:
        say(progress.text(producer.records_acknowledged, producer.bytes_acknowledged))


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else unescape(text).encode(errors="surrogateescape")


def _separator(text: str) -> str:
    if not text:
        raise ValueError("must not be empty")
    return text


COMMANDS = (
    Command(
        "produce",
        "Send lines from stdin to a topic, one record each.",
        produce,
        (
            Option(
                "-k --key-separator",
                "what separates the key from the value in a line; \\t is a tab",
                "SEPARATOR",
                _separator,
            ),
            Option("-H --header", "a header for every record", "NAME=VALUE", key_value, repeated=True),
            Option("-p --partition", "the partition (default: by key, or each in turn)", "N", whole_number),
            Option(
                "-z --compression",
                "none, gzip, snappy, lz4 or zstd (default none)",
                "CODEC",
                one_of("none", "gzip", "snappy", "lz4", "zstd"),
                "none",
            ),
            Option(
                "--acks",
                "which replicas must acknowledge a record: 0, 1 or all (default all)",
                "ACKS",
                one_of(*ACKS),
                "all",
            ),
            Option("-Z --null", "a key or value that is exactly this text is sent as null", "TEXT"),
            Option("-q --quiet", "no summary"),
            *CLUSTER_OPTIONS,
        ),
        "TOPIC",
        (
            "echo hello | barnabas produce greetings",
            "barnabas produce orders -k : <<< 'customer-7:{\"total\": 12}'",
            "zcat orders.tsv.gz | barnabas produce orders -k '\\t' -z zstd -H source=backfill",
        ),
    ),
)
