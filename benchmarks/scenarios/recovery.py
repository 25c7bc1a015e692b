"""After `kill -9`: how long until a broker answers again, with everything that it acknowledged."""

import time

from benchmarks import admin
from benchmarks.bench import Bench
from benchmarks.scenario import Case, Figures, Scenario, less, more


def measure(bench: Bench, case: Case) -> Figures:
    records, topic = bench.scaled(case.options["bytes"] / 1000, at_least=8), bench.topic(4)
    bench.settle(records * 1000)
    load = {"topic": topic, "partitions": 4, "records": records}
    bench.load("produce-bulk", record_bytes=1000, **load)
    empty_start = bench.start_seconds
    bench.system.kill()
    started = time.perf_counter()
    bench.system.start()
    admin.wait_for_leaders(bench.system.address, topic, 4)
    restart = time.perf_counter() - started
    # What an empty start takes is not scanning; a start that is as quick as that scanned faster than can be told.
    scan = max(restart - empty_start, 0.001)
    bench.load("consume-bulk", **load)
    return {"restart s": restart, "scan GB/s": records * 1000 / 1e9 / scan}


SCENARIOS = (
    Scenario(
        name="recovery",
        title="Recovery after kill -9",
        method="The broker is killed after records of 1 KB were acknowledged (4 partitions, none flushed) and "
        "started again; until all partitions answer. The scan is that less an empty start. Then all is read back.",
        metrics=(less("restart s", digits=2), more("scan GB/s", digits=2)),
        cases=(Case("1 GB", {"bytes": 1e9}), Case("10 GB", {"bytes": 10e9}, long=True)),
        measure=measure,
        samples_at_most=2,
        warm_up=False,
    ),
)
