"""kcat behind the drivers' contract: every operation is one run of the command, or one per record.

kcat cannot set a timestamp, cannot send keys or headers with a NUL in them, and has no admin. It skips an empty file
and an empty line, but not a line with a key before the delimiter: that is how empty values and nulls are sent.
"""

import re
import subprocess
import tempfile
from typing import Any

from json_lines import LARGEST_BYTES, Answer, Request, headers_in, record_out, serve, to_bytes
from process_members import ProcessMember, operations

PRODUCER = (f"message.max.bytes={LARGEST_BYTES}", "linger.ms=0")
CONSUMER = (
    f"fetch.message.max.bytes={LARGEST_BYTES}",
    f"fetch.max.bytes={4 * LARGEST_BYTES}",
    f"receive.message.max.bytes={5 * LARGEST_BYTES}",
    "fetch.wait.max.ms=20",  # `-e` ends a run with the first empty answer
)
# Lengths come first, so that keys and values may hold anything; headers end the record, one line.
FORMAT = "%p %o %T %K %S\\n%k%s%h\\n"


DELIMITER = "<key-ends-here>"
RESETS = {"none": "error", "earliest": "earliest", "latest": "latest"}


def kcat(request: Request, *arguments: str | bytes, stdin: bytes = b"", timeout_ms: int = 60_000) -> bytes:
    command = ["kcat", "-m", "15", "-b", request["bootstrap"], *arguments]
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=timeout_ms / 1000)
    except subprocess.TimeoutExpired as waited:
        return waited.stdout or b""
    if done.returncode != 0:
        raise RuntimeError(done.stderr.decode(errors="replace").strip())
    return done.stdout


def options(settings: tuple[str, ...]) -> list[str]:
    return [part for setting in settings for part in ("-X", setting)]


def produce(request: Request) -> Answer:
    idempotence = "true" if request["idempotence"] else "false"
    settings = options((*PRODUCER, f"acks={request['acks']}", f"enable.idempotence={idempotence}", *timeouts(request)))
    for record in request["records"]:
        send(request, record, "-P", "-t", request["topic"], "-z", request["compression"], *settings, *fields(record))
    return {"offsets": [None] * len(request["records"])}  # kcat does not tell


def timeouts(request: Request) -> tuple[str, str]:
    """The second one ends the time during which an unknown topic may only be new."""
    timeout_ms = request["timeout_ms"]
    return (f"message.timeout.ms={timeout_ms}", f"topic.metadata.propagation.max.ms={timeout_ms // 2}")


def send(request: Request, record: dict[str, Any], *arguments: str | bytes) -> None:
    if not record["value"]:
        line = (to_bytes(record["key"]) or b"") + DELIMITER.encode() + b"\n"
        kcat(request, *arguments, "-K", DELIMITER, stdin=line)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(to_bytes(record["value"]) or b"")
        file.flush()
        kcat(request, *arguments, file.name)


def fields(record: dict[str, Any]) -> list[str | bytes]:
    arguments: list[str | bytes] = ["-p", str(record["partition"])]
    if record["key"] is not None and record["value"]:
        arguments += ["-k", to_bytes(record["key"]) or b""]
    if record["value"] is None:
        arguments.append("-Z")
    for name, value in headers_in(record):
        arguments += ["-H", name.encode() if value is None else name.encode() + b"=" + value]
    return arguments


def consume(request: Request) -> Answer:
    records: list[dict[str, Any]] = []
    # One partition is waited for until all is there; how many records each of several holds only their ends tell.
    ending = () if len(request["partitions"]) == 1 else ("-e",)
    reset = (f"auto.offset.reset={RESETS[request['reset']]}",) if request["reset"] else ()
    for partition in request["partitions"]:
        where = ("-t", request["topic"], "-p", str(partition), "-o", start_of(request["start"]))
        how = ("-c", str(request["count"] - len(records)), *ending, "-q", "-f", FORMAT, *options((*CONSUMER, *reset)))
        records += parse(kcat(request, "-C", *where, *how, timeout_ms=request["timeout_ms"]))
    return {"records": records}


def start_of(start: dict[str, int]) -> str:
    if "offset" in start:
        return str(start["offset"])
    if "timestamp" in start:
        return f"s@{start['timestamp']}"
    return "end" if "end" in start else "beginning"


def parse(output: bytes) -> list[dict[str, Any]]:
    records, position = [], 0
    while position < len(output):
        end = output.index(b"\n", position)
        partition, offset, timestamp, key_size, value_size = map(int, output[position:end].split())
        key, position = cut(output, end + 1, key_size)
        value, position = cut(output, position, value_size)
        end = output.index(b"\n", position)
        records.append(record_out(partition, offset, timestamp, key, value, headers(output[position:end])))
        position = end + 1
    return records


def cut(output: bytes, position: int, size: int) -> tuple[bytes | None, int]:
    return (None, position) if size < 0 else (output[position : position + size], position + size)


def headers(text: bytes) -> list[tuple[str, bytes | None]]:
    pairs = [pair.partition(b"=") for pair in text.split(b",")] if text else []
    return [(name.decode(), None if value == b"NULL" else value) for name, _, value in pairs]


def offsets(request: Request) -> Answer:
    def query(timestamp: int) -> int | None:
        (partition,) = request["partitions"]
        found = int(kcat(request, "-Q", "-t", f"{request['topic']}:{partition}:{timestamp}").split()[-1])
        return None if found < 0 else found

    return {"beginning": query(-2), "end": query(-1), "at": [query(timestamp) for timestamp in request["timestamps"]]}


def member(request: Request) -> list[str]:
    settings = options(tuple(f"{key}={value}" for key, value in request["settings"].items()))
    group = [
        "-G",
        request["group"],
        "-X",
        "auto.offset.reset=earliest",
        "-X",
        "topic.metadata.refresh.interval.ms=500",
        *settings,
    ]
    topics = [request["pattern"]] if request["topics"] is None else request["topics"]
    return ["kcat", "-b", request["bootstrap"], *group, "-u", "-f", "%t %p %o\\n", *topics]


def read_line(member: ProcessMember, line: str) -> None:
    if rebalanced := re.match(r"% Group .* \(memberid (\S+)\): (assigned|revoked): (.*)", line):
        member.member_id = rebalanced[1]
        partitions = {(topic, int(number)) for topic, number in re.findall(r"(\S+) \[(\d+)\]", rebalanced[3])}
        if rebalanced[2] == "assigned":
            member.assignment = member.assignment | partitions
        else:
            member.revoke(partitions)
    elif read := re.fullmatch(r"(\S+) (\d+) (\d+)\n", line):
        member.records.append((read[1], int(read[2]), int(read[3])))


if __name__ == "__main__":
    serve((produce, consume, offsets, *operations(member, read_line)))
