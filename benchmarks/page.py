"""`python -m benchmarks.page [JSON]`: docs/benchmarks.md and its plots, from the figures of one run alone."""

import re
import shutil
import sys
from pathlib import Path

from benchmarks import network, plots, results, table
from benchmarks.goals import DEEP, judge
from benchmarks.results import CaseResult, Run, ScenarioResult
from benchmarks.systems import ROOT
from benchmarks.table import OURS, cells, extent, failed

RESULTS = ROOT / "benchmarks" / "results"
PUBLISHED = RESULTS / "published.json"
PAGE = ROOT / "docs" / "benchmarks.md"
PICTURES = ROOT / "docs" / "benchmarks"
README = ROOT / "README.md"
README_TABLE = re.compile(r"(?<=<!-- figures -->\n).*?(?=<!-- /figures -->)", re.DOTALL)

IN_SHORT = (
    ("start to the first answer", "start", "empty", "start ms", "{:,.0f} ms"),
    ("memory, idle", "memory", "idle", "RSS MB", "{:,.0f} MB"),
    ("memory after 3 GB in and out", "memory", "after 3 GB", "RSS MB", "{:,.0f} MB"),
    ("produce 1 KB records, through librdkafka", "throughput", "1 KB, none", "produce MB/s", "{:,.0f} MB/s"),
    ("consume them", "throughput", "1 KB, none", "consume MB/s", "{:,.0f} MB/s"),
    ("produce requests of one record, 16 connections, 64 in flight", "requests", DEEP, "requests/s", "{:,.0f}/s"),
    ("broker CPU for each", "requests", DEEP, "CPU µs/request", "{:,.1f} µs"),
    ("one record at a time, p99", "latency", "one at a time", "p99 ms", "{:.2f} ms"),
    ("128 producers, an fsync before every ack", "fsync", "128 producers", "acks/s", "{:,.0f}/s"),
)
"""The rows of the README: title, scenario, case, metric and format."""

METHOD = """\
## How it is measured

- Both brokers run on this machine, one at a time, on loopback, as they come: settings are below. Each scenario starts
  each broker on an empty data directory; the systems take turns, and who is first changes from round to round.
- Before the first case a broker is warmed up: the same loads again and again, until the CPU that one takes is within
  10 % of the one before, at most 6 seconds. A JVM still compiles then, a little. Before each case dirty pages are
  written out, and memory is warmed by writing and removing a file of the size that is about to be written: the first
  touch of cold memory costs more than a broker.
- The load generator is C. Throughput goes through librdkafka; requests, latencies, many connections and groups
  through sockets and frames made by hand (`benchmarks/native`), in the versions that librdkafka speaks. Both share
  the machine's cores with the broker; "client cores" says how many of them the generator kept busy.
- A figure is the median of its samples; brackets hold the least and the most. CPU is user and system time of the
  broker's processes and their children. `×` says how many times as good as the other we are: below 1 we lose. `~`
  marks what has no winner: samples that overlap, or fewer than 4 of them (`n=2`). A goal that holds, or
  does not, "within noise" would be judged the other way by other samples of the same run.
- Every record carries its stream, its sequence number and known content, and everything that was acknowledged is read
  back. A record that is lost, repeated, moved or altered fails the sample, and a case that failed once has no figure.
  The tests of the harness put a lying proxy before a broker and look for that.
- Latency at a fixed rate counts from when a request was due, not from when it could be sent (no coordinated
  omission).
- {tcp}
- A commit may be rebased away. The sources that were measured are those of which
  `git ls-tree -r HEAD barnabas broker protocol replication storage | sha256sum` begins with what is said below.

`make bench` runs all of it, `make bench-quick` a few cases in two minutes, `make profile SCENARIO=requests` shows
where a request's time goes. `python -m benchmarks --list` names the scenarios, `--only NAME` runs one. A scenario is
an entry in `benchmarks/scenarios/`."""

SAME_TCP = """\
Neither broker is tuned for this machine. Both have the same TCP: the run has a network namespace of its own, whose
  congestion control is Reno. Left alone, Barnabas does without BBR on loopback and Apache Kafka does not
  (docs/design.md, "The event loop")."""
OTHER_TCP = """\
Neither broker is tuned for this machine. One thing to know when consumers are compared: the system's TCP congestion
  control (see below) is that of loopback, too, and where it is BBR it paces. Kafka leaves it at that; Barnabas, when it
  listens on loopback, does without (docs/design.md, "The event loop"). A run by root gives both the same."""


def page(run: Run) -> str:
    others = ", ".join(name for name in run.systems if name != OURS) or "nobody else"
    parts = [
        "# Benchmarks",
        f"Barnabas and {others} side by side on one machine: {extent(run)}, {run.started[:10]}, {run.seconds / 60:.0f} "
        "minutes. This page is written by `make bench` from "
        "[the figures](../benchmarks/results/published.json).",
        goals(run),
        losses(run),
        *([failures(run)] if run.failures() else []),
        METHOD.format(tcp=SAME_TCP if has_same_tcp(run) else OTHER_TCP),
        setting(run),
        "## All figures",
        *(scenario(run, entry) for entry in run.scenarios),
    ]
    return "\n\n".join(parts) + "\n"


def has_same_tcp(run: Run) -> bool:
    return run.machine.get("TCP congestion control") == network.SAME_FOR_BOTH


def goals(run: Run) -> str:
    judged = judge(run)
    held = [judgement for judgement in judged if judgement.holds]
    noise = sum(judgement.within_noise for judgement in held)
    rows = [f"| {j.goal.title} | {j.found} | {f'**{j.verdict}**' if j.holds is False else j.verdict} |" for j in judged]
    doubt = f", {noise} of them within noise" if noise else ""
    heading = f"## Goals: {len(held)} of {len(judged)} hold in this run{doubt}"
    return "\n".join([heading, "", "| goal | here | holds |", "|---|--:|---|", *rows])


def losses(run: Run) -> str:
    """Returns where the median of another system is better; "~" where that may be chance."""
    found = []
    for entry in run.scenarios:
        for case in entry.cases:
            for metric in case.metrics:
                for other in run.systems:
                    if other != OURS and (loss := lost(case, metric, other)):
                        found.append(f"| {entry.title}: {case.name} | {metric} | {loss} |")
    if not found:
        return "## What we lose\n\nNothing, in this run."
    return "\n".join(["## What we lose", "", "| | | Barnabas | the other | |", "|---|---|--:|--:|--:|", *found])


def lost(case: CaseResult, metric: str, other: str) -> str | None:
    ours, theirs = case.figure(metric, OURS), case.figure(metric, other)
    if ours is None or theirs is None or not case.metrics[metric].judged:
        return None
    more, digits = case.metrics[metric].more_is_better, case.metrics[metric].digits
    if not (ours.median < theirs.median if more else ours.median > theirs.median):
        return None
    shown = f"{ours.median:,.{digits}f} | {theirs.median:,.{digits}f} ({other})"
    return f"{shown} | {table.ratio(ours, theirs, more)}"


def failures(run: Run) -> str:
    return "\n".join(["## What failed", "", *(f"- {failure}" for failure in run.failures())])


def setting(run: Run) -> str:
    rows = [f"| {key} | {value} |" for key, value in run.machine.items()]
    for name, about in run.systems.items():
        rows.append(f"| {name} | {about['version']}; `{about['command']}`; {about['settings']} |")
    return "\n".join(["### This run", "", "| | |", "|---|---|", *rows])


def scenario(run: Run, entry: ScenarioResult) -> str:
    systems = list(run.systems)
    others = [name for name in systems if name != OURS]
    drawn = [
        f"![{plot.title}](benchmarks/{plot.name}.svg)"
        for plot in plots.PLOTS
        if plot.scenarios[0] == entry.name and any(plot.metric in case.metrics for case in entry.cases)
    ]
    header = ["| | | " + " | ".join([*systems, *(f"vs {name}" for name in others)]) + " |"]
    rule = ["|---|---|" + "--:|" * (len(systems) + len(others))]
    rows = []
    for case in entry.cases:
        for number, metric in enumerate(case.metrics):
            name = case.name if number == 0 else ""
            rows.append(f"| {name} | {metric} | {' | '.join(cells(case, metric, systems))} |")
        if not case.metrics:
            failures = " | ".join([*(failed(case, system) for system in systems), *("" for _ in others)])
            rows.append(f"| {case.name} | | {failures} |")
    method = f"{entry.method}{fewer(run, entry)}"
    return "\n".join([f"### {entry.title}", "", method, "", *header, *rule, *rows, "", *drawn]).rstrip()


def fewer(run: Run, entry: ScenarioResult) -> str:
    """Returns the scenarios with fewer samples than the page says at its top, because they take minutes or say
    little."""
    taken = {case.name: most for case in entry.cases if (most := case.samples_most())}
    few = {name: count for name, count in taken.items() if count < run.samples}
    if not few:
        return ""
    if len(few) == len(taken) and len(set(few.values())) == 1:
        return f" Samples: {min(few.values())}."
    return f" Samples: {'; '.join(f'{count} of {name}' for name, count in few.items())}."


def in_short(run: Run) -> str:
    """Returns the README's table: a few figures of both systems, of those that were measured."""
    rows = [f"| | {' | '.join(run.systems)} |", "|---|" + "--:|" * len(run.systems)]
    for title, scenario_name, case_name, metric, shown in IN_SHORT:
        if case := run.case(scenario_name, case_name):
            found = [case.figure(metric, system) for system in run.systems]
            rows.append(f"| {title} | {' | '.join(shown.format(each.median) if each else '' for each in found)} |")
    return "\n".join(rows) + "\n"


def publish(source: Path) -> str:
    """Puts the figures, the page and its plots where readers find them, and says so."""
    run = results.read(source)
    if source.resolve() != PUBLISHED:
        shutil.copyfile(source, PUBLISHED)
    PAGE.write_text(page(run))
    README.write_text(README_TABLE.sub(lambda _: in_short(run), README.read_text()))
    PICTURES.mkdir(exist_ok=True)
    for old in PICTURES.glob("*.svg"):
        old.unlink()
    plots.draw(run, PICTURES)
    return f"written: {PAGE.relative_to(ROOT)}, {PICTURES.relative_to(ROOT)}/, figures in {README.relative_to(ROOT)}"


def main(words: list[str]) -> int:
    print(publish(Path(words[0]) if words else RESULTS / "latest.json"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
