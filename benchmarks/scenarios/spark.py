"""Spark's own Kafka source, in a batch read and under the `archive` job."""

from benchmarks.bench import Bench, per_gb
from benchmarks.scenario import Case, Figures, Scenario, less, more

RECORD_BYTES = 1000


def measure(bench: Bench, case: Case) -> Figures:
    partitions = case.options["partitions"]
    topic, records = bench.topic(partitions), bench.scaled(1e6, at_least=partitions * 10)
    warm_up, few = bench.topic(partitions), bench.scaled(1e5, at_least=partitions * 10)
    bench.settle(records * RECORD_BYTES)
    size = {"partitions": partitions, "record_bytes": RECORD_BYTES}
    bench.load("produce-bulk", topic=warm_up, records=few, **size)
    produced = bench.load("produce-bulk", topic=topic, records=records, checksum=1, **size)
    expected = {"records": records, "record_bytes": RECORD_BYTES, "crc32_sum": int(produced["crc32_sum"])}
    with bench.spark_load(topic=topic, warm_up=warm_up, **expected) as load:
        read, archived = bench.measured(load.run), bench.measured(load.run)
    return {
        "read rows/s": read["records"] / read["seconds"],
        "archive rows/s": archived["records"] / archived["seconds"],
        "CPU s/GB read": per_gb(read),
    }


SCENARIOS = (
    Scenario(
        name="spark",
        title="Spark",
        method="A million records of 1 KB, on `local[*]` beside the broker: a batch read through Spark's own Kafka "
        "source that looks at every byte, then `barnabas pipeline archive --once` into Parquet. The session is open, "
        "and both were done once before. Spark keeps all cores busy: it is the slower part, whatever the broker.",
        metrics=(more("read rows/s"), more("archive rows/s"), less("CPU s/GB read")),
        cases=tuple(Case(f"{count} partition{'s' * (count > 1)}", {"partitions": count}) for count in (1, 4, 16)),
        measure=measure,
        samples_at_most=1,
        warm_up=False,
    ),
)
