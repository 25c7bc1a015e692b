"""After `kill -9`: how long until a broker answers again, with everything that it acknowledged."""

import time

from benchmarks import admin
from benchmarks.bench import Bench
from benchmarks.scenario import Case, Figures, Scenario, less, more

PARTITIONS = 4
RECORD_BYTES = 1000


def restart(bench: Bench, case: Case) -> Figures:
    return {"restart s": recovered(bench, case.options["bytes"])}


def scan(bench: Bench, case: Case) -> Figures:
    """Measures how much longer a restart takes with data than without: that is the time of scanning."""
    without = recovered(bench, 0)
    restarted = recovered(bench, case.options["bytes"])
    # A broker that is as quick as without data scanned faster than can be measured.
    scanned = max(restarted - without, 0.001)
    return {"restart s": restarted, "scan GB/s": bench.scaled(case.options["bytes"]) / 1e9 / scanned}


def recovered(bench: Bench, size_bytes: float) -> float:
    """Returns the seconds from the start after a kill until all partitions answer; then everything must be there."""
    topic = bench.topic(PARTITIONS)
    records = bench.scaled(size_bytes / RECORD_BYTES, at_least=2 * PARTITIONS)
    load = {"topic": topic, "partitions": PARTITIONS, "records": records}
    bench.load("produce-bulk", record_bytes=RECORD_BYTES, **load)
    bench.system.kill()
    started = time.perf_counter()
    bench.system.start()
    admin.wait_for_leaders(bench.address, topic, PARTITIONS)
    seconds = time.perf_counter() - started
    bench.load("consume-bulk", **load)
    return seconds


RESTART = less("restart s", digits=2)

SCENARIOS = (
    Scenario(
        name="recovery",
        title="Recovery after kill -9",
        method="The broker is killed after records of 1 KB were acknowledged (4 partitions, none flushed) and started "
        'again; until all partitions answer. Then all is read back. "Nothing" is eight records: most of what Apache '
        "Kafka takes is waiting for the session of its former self to end (broker.session.timeout.ms, 9 s).",
        metrics=(RESTART,),
        cases=(Case("nothing", {"bytes": 0}), Case("1 GB", {"bytes": 1e9})),
        measure=restart,
        samples_at_most=2,
        warm_up=False,
    ),
    Scenario(
        name="scan",
        title="Recovery of much",
        method="As above, with broker.session.timeout.ms=1000, so that waiting does not hide the scan, which is what a "
        "restart takes longer than one with nothing to recover.",
        metrics=(RESTART, more("scan GB/s", digits=2)),
        cases=(Case("10 GB", {"bytes": 10e9}),),
        measure=scan,
        settings={"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "250"},
        samples_at_most=1,
        warm_up=False,
    ),
)
