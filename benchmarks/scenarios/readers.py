"""Many readers of the same records, and readers of old data while others write."""

import os
from pathlib import Path

from benchmarks.bench import Bench, client_cores, mb_per_s, per_gb, waits
from benchmarks.generator import Outcome
from benchmarks.scenario import Case, Figures, Scenario, less, more, unjudged

WRITE_RATE = 2_000
FETCH_PASSES = 3  # reading is quick: once is over before it can be measured


def filled(bench: Bench, size_bytes: float, record_bytes: int = 1000) -> tuple[str, int]:
    """Creates a topic of 4 partitions. Returns it and the number of its records."""
    topic, records = bench.topic(4), bench.scaled(size_bytes / record_bytes, at_least=8)
    bench.settle(records * record_bytes)
    bench.load("produce-bulk", topic=topic, partitions=4, record_bytes=record_bytes, records=records)
    return topic, records


def fetch(bench: Bench, case: Case) -> Figures:
    topic, records = filled(bench, 300e6, case.options["record_bytes"])
    reading = {"topic": topic, "partitions": 4, "streams": 4, "expect": records}
    passes = [bench.load("read", **reading) for _ in range(FETCH_PASSES)]
    total = {key: sum(one[key] for one in passes) for key in ("bytes", "seconds", "cpu_s", "client_cpu_s")}
    return {"MB/s": mb_per_s(total), "CPU s/GB": per_gb(total), "client cores": client_cores(total)}


def fan_out(bench: Bench, case: Case) -> Figures:
    topic, records = filled(bench, 50e6)
    reading = {"topic": topic, "partitions": 4, "streams": 4, "expect": records}
    read = bench.load("read", readers=case.options["groups"], group=f"fan-{topic}", **reading)
    return {"MB/s to all": mb_per_s(read), "CPU s/GB": per_gb(read)}


def backlog(bench: Bench, case: Case) -> Figures:
    """Measures writing beside a reader: writing goes on for as long as reading does."""
    old, records = filled(bench, 300e6)
    new = bench.topic(4)
    if case.options["cold"]:
        forget_pages(bench.system.log_dir())
    reading = {"topic": old, "partitions": 4, "streams": 4, "expect": records}
    writing = {"topic": new, "partitions": 4, "connections": 16, "rate": WRITE_RATE, "milliseconds": 60_000}
    with (
        bench.loading("read", **reading) as reader,
        bench.loading("produce", stop_on_line=1, **writing) as writer,
    ):

        def both() -> Outcome:
            reader.go()
            writer.go()
            return reader.result()

        read = bench.measured(both)
        writer.go()
        written = writer.result()
    bench.read_back(new, 4, written)
    return {"read MB/s": mb_per_s(read), **waits(written, ("p50", "p99"), "write ")}


def forget_pages(folder: Path) -> None:
    """Takes the files out of the page cache; needs no rights that others do not have."""
    os.sync()
    for path in folder.rglob("*.log"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


SCENARIOS = (
    Scenario(
        name="fetch",
        title="Consume with a client that is not in the way",
        method="A librdkafka consumer takes as long to hand over records as a broker takes to send them. Here one "
        "connection with Fetch requests made by hand reads 4 partitions, warm and uncompressed, checking every CRC and "
        "every record: three times over.",
        metrics=(more("MB/s"), less("CPU s/GB"), unjudged("client cores")),
        cases=tuple(
            Case(size, {"record_bytes": record_bytes}, quick=size == "1 KB")
            for size, record_bytes in (("100 B", 100), ("1 KB", 1000))
        ),
        measure=fetch,
    ),
    Scenario(
        name="fan-out",
        title="One topic to many groups",
        method="A topic of 50 MB in records of 1 KB; each group reads all of it over a connection of its own, "
        "checks it and commits after every fetch.",
        metrics=(more("MB/s to all"), less("CPU s/GB")),
        cases=tuple(Case(f"{count} group{'s' * (count > 1)}", {"groups": count}) for count in (1, 8, 64)),
        measure=fan_out,
        samples_at_most=4,
    ),
    Scenario(
        name="backlog",
        title="Reading old data while others write",
        method=f"A reader takes 300 MB of 1 KB records while 16 connections write {WRITE_RATE:,} records of 100 B a "
        "second, with the old data in the page cache and without.",
        metrics=(more("read MB/s"), less("write p50 ms", digits=3), less("write p99 ms", digits=3)),
        cases=(Case("warm", {"cold": False}), Case("cold", {"cold": True})),
        measure=backlog,
        samples_at_most=4,
    ),
)
