"""What is made of the figures: goals, ratios, the page; and what the kernel is asked about processes."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import network, page, plots, results, table
from benchmarks.goals import DEEP, GOALS, judge
from benchmarks.processes import cpu_seconds, rss_mb, tree
from benchmarks.results import CaseResult, Figure, MetricResult, Run, ScenarioResult
from benchmarks.scenarios import SCENARIOS


def run_with(samples: dict[str, list[float]], *, judged: bool = True) -> Run:
    run = Run(started="2026-01-01", quick=False, samples=3, scale=1, machine={}, systems={"barnabas": {}, "kafka": {}})
    for about in run.systems.values():
        about.update(version="1", command="start", settings="defaults")
    case = CaseResult("empty", {"start ms": MetricResult(False, 0, judged, samples)})
    run.scenarios.append(ScenarioResult("start", "Start", "How.", {}, [case]))
    return run


@pytest.mark.parametrize(
    ("ours", "theirs", "more_is_better", "told"),
    [
        ([100, 100, 100, 102], [200, 200, 200, 220], True, "0.49× loss"),
        ([100, 100, 100, 102], [200, 200, 200, 220], False, "2.04×"),
        ([1, 1, 2, 2], [100, 150, 150, 200], False, "100×"),  # no digits that mean nothing
        ([100, 200, 200, 300], [200, 225, 225, 250], True, "~0.89×"),  # samples overlap: nobody wins
        ([1, 1, 1, 1], [2, 2, 2], False, "~2.00×, n=3"),  # too few to say that they do not
        ([2], [1], False, "~0.50×, n=1"),  # nor is that a loss
    ],
)
def test_a_ratio_says_how_many_times_as_good_we_are(
    ours: list[float], theirs: list[float], more_is_better: bool, told: str
) -> None:
    def figure(samples: list[float]) -> Figure:
        return Figure(sum(samples) / len(samples), min(samples), max(samples), len(samples))

    assert table.ratio(figure(ours), figure(theirs), more_is_better) == told


def test_goals_and_the_readme_name_figures_that_a_full_run_takes() -> None:
    known = {
        (scenario.name, case.name, metric.name)
        for scenario in SCENARIOS
        for case in scenario.cases
        for metric in scenario.metrics
    }
    asked = {(goal.scenario, case, goal.metric) for goal in GOALS for case in (goal.case, goal.case_before) if case}
    asked |= {(goal.scenario_before, goal.case, goal.metric) for goal in GOALS if goal.scenario_before}
    in_short = {(scenario, case, metric) for _, scenario, case, metric, _ in page.IN_SHORT}
    assert asked | in_short <= known


@pytest.mark.parametrize(
    ("ours", "theirs", "verdicts"),
    [
        ([100.0] * 4, [3000.0] * 4, ["yes", "yes"]),
        ([130.0] * 4, [3000.0] * 4, ["NO", "yes"]),  # 23 times faster, and yet too slow
        ([110.0] * 4, [2000.0] * 4, ["yes", "NO"]),
        ([110.0] * 4, [], ["yes", "not measured"]),  # nobody to compare with
        ([], [2000.0] * 4, ["not measured", "not measured"]),
        ([100.0] * 4, [3000.0] * 3, ["yes", "yes, n=3"]),  # the one with fewer samples decides
        ([100.0, 100.0, 100.0, 125.0], [3000.0] * 4, ["yes, within noise", "yes"]),  # once above 120
        ([100.0] * 4, [1900.0, 1900.0, 1900.0, 2100.0], ["yes", "NO, within noise"]),  # once 21 times faster
    ],
)
def test_goals_are_judged_by_the_figures(ours: list[float], theirs: list[float], verdicts: list[str]) -> None:
    judged = judge(run_with({"barnabas": ours, "kafka": theirs}))
    assert [judgement.verdict for judgement in judged[:2]] == verdicts


def test_a_system_that_failed_once_has_no_figure_and_meets_no_goal() -> None:
    run = run_with({"barnabas": [1.0, 1.0], "kafka": [3000.0]})
    run.scenarios[0].cases[0].failures["barnabas"] = ["a record was lost"]
    assert judge(run)[0].holds is None
    assert "FAILED" in table.figures(run)
    assert "a record was lost" in page.page(run)


def test_a_case_that_all_failed_is_in_the_table_and_on_the_page() -> None:
    run = run_with({"barnabas": [1.0], "kafka": [2.0]})
    failures = {"barnabas": ["no answer"], "kafka": ["no answer either"]}
    run.scenarios[0].cases.append(CaseResult("full", {}, failures))
    assert table.figures(run).count("FAILED") == 2
    assert page.page(run).count("FAILED") >= 2


def test_the_page_says_what_we_lose() -> None:
    won, lost = ({"barnabas": [ours] * 4, "kafka": [2.0] * 4} for ours in (1.0, 3.0))
    assert "Nothing, in this run" in page.page(run_with(won))
    assert "| Start: empty | start ms | 3 | 2 (kafka) | 0.67× loss |" in page.page(run_with(lost))


def test_nobody_loses_what_is_only_told() -> None:
    run = run_with({"barnabas": [3.0], "kafka": [2.0]}, judged=False)
    assert "Nothing, in this run" in page.page(run)
    assert "loss" not in table.figures(run)


def test_a_run_is_read_as_it_was_saved(tmp_path: Path) -> None:
    run = run_with({"barnabas": [1.0], "kafka": [2.0]})
    results.save(run, tmp_path / "run.json")
    assert results.read(tmp_path / "run.json") == run


def test_plots_are_whole_drawings(tmp_path: Path) -> None:
    drawn = plots.draw(run_with({"barnabas": [80.0, 90.0], "kafka": [2500.0]}), tmp_path)
    assert [path.name for path in drawn] == ["start.svg"]
    texts = [element.text for element in ElementTree.parse(drawn[0]).iter() if element.tag.endswith("text")]
    assert {"barnabas", "kafka", "empty", "2,000"} <= set(texts)


def test_the_page_says_where_fewer_samples_were_taken() -> None:
    few, all_three = {"barnabas": [2.0], "kafka": [3.0, 3.0]}, {"barnabas": [2.0] * 3, "kafka": [3.0] * 3}
    assert "How. Samples: 2.\n" in page.page(run_with(few))
    assert "How.\n" in page.page(run_with(all_three))


def test_the_page_names_the_cases_that_have_fewer_samples_than_the_rest() -> None:
    run = run_with({"barnabas": [2.0] * 3, "kafka": [3.0] * 3})
    few = MetricResult(False, 0, True, {"barnabas": [2.0], "kafka": [3.0]})
    run.scenarios[0].cases.append(CaseResult("full", {"start ms": few}))
    assert "How. Samples: 1 of full.\n" in page.page(run)


def test_a_metric_that_only_one_case_has_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    """A quantile that needs more samples than a slow rate gives, say."""
    run = run_with({"barnabas": [2.0], "kafka": [3.0]})
    without = CaseResult("slow", {"other ms": MetricResult(False, 0, True, {"barnabas": [1.0]})})
    run.scenarios[0].cases.append(without)
    assert "| slow | other ms | 1 (1–1) | – |  |" in page.page(run)
    assert table.figures(run).count("other ms") == 1
    assert [path.name for path in plots.draw(run, tmp_path)] == ["start.svg"]


@pytest.mark.parametrize(
    ("congestion_control", "told"),
    [
        (network.SAME_FOR_BOTH, "Both have the same TCP"),
        ("bbr; reno where Barnabas sends", "Barnabas, when it\n  listens on loopback, does without"),
    ],
)
def test_the_page_says_whether_both_had_the_same_tcp(congestion_control: str, told: str) -> None:
    run = run_with({"barnabas": [2.0], "kafka": [3.0]})
    run.machine["TCP congestion control"] = congestion_control
    assert told in page.page(run)


@pytest.mark.parametrize(
    ("one", "two", "verdict"),
    [([50_000.0] * 4, [90_000.0] * 4, "yes"), ([50_000.0] * 4, [70_000.0] * 4, "NO"), ([], [9.0] * 4, "not measured")],
)
def test_two_brokers_are_judged_by_what_one_does(one: list[float], two: list[float], verdict: str) -> None:
    run = run_with({"barnabas": [2.0], "kafka": [3.0]})
    for name, samples in (("one-broker-requests", one), ("two-brokers-requests", two)):
        case = CaseResult(DEEP, {"requests/s": MetricResult(True, 0, True, {"barnabas": samples, "kafka": [1.0] * 4})})
        run.scenarios.append(ScenarioResult(name, name, "How.", {}, [case]))
    (found,) = (judgement for judgement in judge(run) if judgement.goal.scenario_before)
    assert found.verdict == verdict


def test_an_interrupted_run_says_so() -> None:
    run = run_with({"barnabas": [2.0], "kafka": [3.0]})
    run.interrupted = True
    assert "interrupted, all cases" in table.heading(run)


def test_the_page_in_docs_is_made_of_the_published_figures() -> None:
    published = results.read(page.PUBLISHED)
    assert page.PAGE.read_text() == page.page(published)
    assert page.README_TABLE.findall(page.README.read_text()) == [page.in_short(published)]


def test_what_the_readme_shows_leaves_out_what_was_not_measured() -> None:
    assert page.in_short(run_with({"barnabas": [80.0, 90.0, 100.0], "kafka": [3000.0]})).splitlines() == [
        "| | barnabas | kafka |",
        "|---|--:|--:|",
        "| start to the first answer | 90 ms | 3,000 ms |",
    ]


def test_cpu_and_memory_are_those_of_a_process_and_its_children() -> None:
    burn = "import time\nwhile time.process_time() < 0.15: pass"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}]); print(1, flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        pids = tree(process.pid)
        assert pids == [process.pid]  # the child has ended; its time is not lost
        assert cpu_seconds(pids) >= 0.15
        assert rss_mb(pids) > 1
        process.communicate(b"\n")
