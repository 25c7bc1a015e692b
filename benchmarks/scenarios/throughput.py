"""Produce and consume through librdkafka: record sizes, codecs, partitions."""

from benchmarks.bench import Bench, client_cores, mb_per_s, per_gb
from benchmarks.scenario import Case, Figures, Scenario, less, more, unjudged

SIZES = {"100 B": (100, 60e6), "1 KB": (1000, 200e6), "100 KB": (100_000, 100e6), "1 MB": (1_000_000, 100e6)}
# What goals hang on is measured for longer; what is the client's compression, and little else, less often.
LONGER = {("1 KB", "none"): 1e9, ("1 KB", "lz4"): 400e6, ("100 B", "none"): 150e6}
SELDOM = {("100 KB", "zstd"), ("1 MB", "zstd")}
CONSUME_PASSES = 2  # reading is quick: once is over before it can be measured
CODECS = ("none", "lz4", "zstd")
QUICK = {("1 KB", "none"), ("1 KB", "lz4"), ("100 B", "none")}

METRICS = (
    more("produce MB/s"),
    less("produce CPU s/GB"),
    unjudged("produce client cores"),
    more("consume MB/s"),
    less("consume CPU s/GB"),
    unjudged("consume client cores"),
)


def measure(bench: Bench, case: Case) -> Figures:
    record_bytes, partitions = case.options["record_bytes"], case.options["partitions"]
    codec = case.options["compression"]
    records = bench.scaled(case.options["bytes"] / record_bytes, at_least=partitions * 2)
    topic = bench.topic(partitions)
    bench.settle(records * record_bytes)
    where = {"topic": topic, "partitions": partitions, "records": records}
    produced = bench.load("produce-bulk", record_bytes=record_bytes, compression=codec, **where)
    if codec != "none":
        bench.check_compressed(topic, produced["bytes"])
    consumed = bench.load("consume-bulk", passes=CONSUME_PASSES, **where)
    return {
        "produce MB/s": mb_per_s(produced),
        "produce CPU s/GB": per_gb(produced),
        "produce client cores": client_cores(produced),
        "consume MB/s": mb_per_s(consumed),
        "consume CPU s/GB": per_gb(consumed),
        "consume client cores": client_cores(consumed),
    }


def sized(size: str, codec: str) -> Case:
    record_bytes, total = SIZES[size]
    total = LONGER.get((size, codec), total)
    options = {"record_bytes": record_bytes, "bytes": total, "compression": codec, "partitions": 4}
    most = 3 if (size, codec) in SELDOM else 1000
    return Case(f"{size}, {codec}", options, quick=(size, codec) in QUICK, samples_at_most=most)


def spread(partitions: int) -> Case:
    options = {"record_bytes": 1000, "bytes": 100e6, "compression": "none", "partitions": partitions}
    return Case(f"{partitions:,} partition{'s' * (partitions > 1)}", options)


SCENARIOS = (
    Scenario(
        name="throughput",
        title="Produce and consume",
        method="One librdkafka producer (acks=1, linger 5 ms) writes to 4 partitions; then one consumer reads it "
        "all twice and checks every record. Payload is JSON-like text, of which lz4 leaves some 40 % "
        "and zstd 25 %; GB are GB of payload, before compression.",
        metrics=METRICS,
        cases=tuple(sized(size, codec) for size in SIZES for codec in CODECS),
        measure=measure,
    ),
    Scenario(
        name="partitions",
        title="Produce and consume over many partitions",
        method="As above with records of 1 KB, uncompressed, spread evenly over the partitions as keys would.",
        metrics=METRICS,
        cases=tuple(spread(partitions) for partitions in (1, 10, 100, 1000)),
        measure=measure,
        samples_at_most=3,
    ),
)
