"""How long a consumer group takes to agree."""

from benchmarks.bench import Bench
from benchmarks.scenario import Case, Figures, Scenario, less


def measure(bench: Bench, case: Case) -> Figures:
    members = case.options["members"]
    topic = bench.topic(200)
    # Whoever is first makes the topic of groups; that is not what is measured.
    bench.load("groups", group=f"first-{topic}", topic=topic, partitions=200, members=2, rounds=1)
    rounds = bench.scaled(5)
    found = bench.load("groups", group=f"of-{members}", topic=topic, partitions=200, members=members, rounds=rounds)
    return {
        "all join ms": found["all_joined_ms"],
        "one leaves ms": found["leave_ms_p50"],
        "one joins ms": found["join_ms_p50"],
        "CPU ms/rebalance": found["cpu_s"] * 1000 / (2 * rounds + 1),
    }


SCENARIOS = (
    Scenario(
        name="groups",
        title="Joining and rebalancing",
        method="A classic group over 200 partitions whose members heartbeat every 20 ms: until all are in one "
        "generation and every partition has one owner. group.initial.rebalance.delay.ms is 0, to leave out that wait.",
        metrics=(
            *(less(name, digits=1) for name in ("all join ms", "one leaves ms", "one joins ms")),
            less("CPU ms/rebalance", digits=1),
        ),
        cases=tuple(Case(f"{members} members", {"members": members}) for members in (2, 10, 100)),
        measure=measure,
        samples_at_most=4,
        settings={"group.initial.rebalance.delay.ms": "0"},
    ),
)
