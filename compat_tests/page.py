"""`python -m compat_tests.page`: docs/compatibility.md and the README's table of clients, from what the last runs saw.

The figures are those of results/: of this broker, of a cluster of it, and of Apache Kafka, which has to pass the same
tests.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

from compat_tests.brokers import ROOT
from compat_tests.differential.allowed import ALLOWED
from compat_tests.harness.clients import CLIENTS, Client
from compat_tests.harness.features import (
    BROKER_FEATURES,
    CLIENT_FEATURES,
    COLUMNS,
    FEATURES,
    SPARK_FEATURES,
    SPARK_TITLES,
    Feature,
    features_of,
)
from compat_tests.harness.not_served import NOT_SERVED

RESULTS = ROOT / "compat_tests" / "results"
PAGE = ROOT / "docs" / "compatibility.md"
APIS = ROOT / "docs" / "apis.md"
README = ROOT / "README.md"
README_TABLE = re.compile(r"(?<=<!-- clients -->\n).*?(?=<!-- /clients -->)", re.DOTALL)

Tests = dict[str, dict[str, Any]]


class Run:
    def __init__(self, about: dict[str, Any], tests: Tests) -> None:
        self.about = about
        self.tests = tests

    @classmethod
    def read(cls, path: Path) -> "Run":
        return cls(**json.loads(path.read_text()))

    def of(self, feature: Feature, client: str | None = None) -> Tests:
        return {
            name: test
            for name, test in self.tests.items()
            if feature in features_of(name, test["consumer_protocol"]) and (client is None or client in test["clients"])
        }

    def count(self, outcome: str) -> int:
        return sum(test["outcome"] == outcome for test in self.tests.values())


class Runs(NamedTuple):
    ours: Run
    kafkas: Run
    cluster: Run | None = None
    """Three brokers, and the tests that compare one with one left out. None if that was never run."""

    @classmethod
    def read(cls) -> "Runs":
        path = RESULTS / "barnabas-cluster.json"
        cluster = Run.read(path) if path.exists() else None
        return cls(Run.read(RESULTS / "barnabas.json"), Run.read(RESULTS / "kafka.json"), cluster)

    @property
    def titled(self) -> dict[str, Run]:
        clusters = {} if self.cluster is None else {"Barnabas, three brokers": self.cluster}
        return {"Barnabas": self.ours, **clusters, "Apache Kafka 4.3.0": self.kafkas}


def page(runs: Runs) -> str:
    ours = runs.ours
    sections = [
        "# Compatibility",
        "Unmodified clients, Apache Kafka's own tools, its files, and raw requests, against a running broker. "
        "`make compat` runs all of it against Barnabas, against three of it as a cluster, and then against Apache "
        "Kafka 4.3, so that a wrong test cannot pass for compatibility, and writes this page from what it saw.",
        summary(runs),
        "## Clients\n\nA figure is the number of tests passed"
        + (".\n\n" if runs.cluster is None else " by one broker.\n\n")
        + client_matrix(ours),
        "## Spark\n\nSpark's built-in Kafka source and sink.\n\n" + matrix(ours, SPARK_FEATURES, SPARK_TITLES),
        "## Tools, files, protocol\n\n" + matrix(ours, BROKER_FEATURES, {None: "passed"}),
        *([] if runs.cluster is None else ["## Three brokers\n\n" + cluster_matrix(ours, runs.cluster)]),
        *(section for title, run in runs.titled.items() for section in failures(run, title)),
        "## APIs\n\n[apis.md](apis.md) says more about each.\n\n" + api_table(APIS.read_text()),
        "## What Apache Kafka has and this broker does not\n\n" + not_served(),
        "## Known differences\n\nAnswers to raw requests are compared field by field. These are the differences that "
        "are intended; [design.md](design.md#where-we-differ-from-kafka) has those in behaviour.\n\n"
        + known_differences(),
    ]
    return "\n\n".join(sections) + "\n"


def summary(runs: Runs) -> str:
    rows = [
        f"| {title} | {run.about['date']} | {run.count('passed'):,} | {run.count('failed')} | {run.count('skipped')} |"
        for title, run in runs.titled.items()
    ]
    table = "\n".join(["| | run on | passed | failed | skipped |", "|---|---|--:|--:|--:|", *rows])
    return "\n\n".join([table, *([provenance(runs)] if "sources" in runs.ours.about else []), *repeated(runs)])


def provenance(runs: Runs) -> str:
    """Names what was tested, by a digest that a rewritten history does not change."""
    names = [run.about.get("sources", "") for run in (runs.ours, runs.kafkas)]
    both = names[0] if names[0] == names[1] else f"{names[0]}, against Apache Kafka {names[1]}"
    return f"Broker and tests: `{both}`, which is what `python -m compat_tests.sources` says in a checkout of them."


def repeated(runs: Runs) -> list[str]:
    """Says which runs were not made in one piece: tests that failed were mended and run again by themselves."""
    return [
        f"{title}: {again['tests']} of these failed at first; they ran again on {again['date']}, `{again['sources']}`."
        for title, run in runs.titled.items()
        for again in run.about.get("again", ())
    ]


def client_matrix(run: Run) -> str:
    """Returns the table, with notes below that say why a client is left out of something."""
    reasons: dict[str, int] = {}
    rows = [
        f"| {f.title} | {' | '.join(client_cell(run, f, client, reasons) for client in CLIENTS)} |"
        for f in CLIENT_FEATURES
    ]
    header = f"| | {' | '.join(client.title for client in CLIENTS)} |"
    notes = "\n".join(f"{number}. {reason}" for reason, number in reasons.items())
    matrix = "\n".join([header, "|---|" + "--:|" * len(CLIENTS), *rows])
    return "\n\n".join([matrix, f"Not applicable, because:\n\n{notes}", *repeats()])


def repeats() -> list[str]:
    return [
        f"{client.title} in groups of KIP-848 must read every record, but may read some twice, as it does from "
        f"Apache Kafka: {client.repeats}."
        for client in CLIENTS
        if client.repeats
    ]


def client_cell(run: Run, feature: Feature, client: Client, reasons: dict[str, int]) -> str:
    tests, reason = run.of(feature, client.name), client.excuse(feature)
    if not tests and reason is not None:
        return f"n/a ({reasons.setdefault(reason, len(reasons) + 1)})"
    return cell(tests) or "not tested"


def matrix(run: Run, features: tuple[Feature, ...], columns: dict[Any, str]) -> str:
    header = f"| | {' | '.join(columns.values())} |"
    rule = "|---|" + "--:|" * len(columns)
    rows = [f"| {f.title} | {' | '.join(cell(run.of(f, client)) for client in columns)} |" for f in features]
    return "\n".join([header, rule, *rows])


def cluster_matrix(ours: Run, cluster: Run) -> str:
    """Returns what one broker and what three passed, of all clients together."""
    runs = (ours, cluster)
    rows = [f"| {f.title} | {' | '.join(cell(run.of(f)) for run in runs)} |" for f in FEATURES if cluster.of(f)]
    return "\n".join(["| | one broker | three |", "|---|--:|--:|", *rows])


def cell(tests: Tests) -> str:
    outcomes = [test["outcome"] for test in tests.values()]
    passed, failed = outcomes.count("passed"), outcomes.count("failed")
    return f"**{failed} failed**, {passed}" if failed else str(passed or "")


def failures(run: Run, broker: str) -> list[str]:
    found = [
        f"- `{name.removeprefix('compat_tests/')}`: {test['outcome']}, {test['reason']}"
        for name, test in run.tests.items()
        if test["outcome"] != "passed"
    ]
    return ["\n".join([f"## What did not pass against {broker}", "", *found])] if found else []


def api_table(apis: str) -> str:
    """Returns number, name and versions of each API, without its place in the code."""
    rows = re.findall(r"^(\|[^|]+\|[^|]+\|[^|]+\|).+\|$", apis, re.MULTILINE)
    return "\n".join(rows)


def not_served() -> str:
    rows = [f"| {absent.what} | {absent.why} | {', '.join(absent.apis)} |" for absent in NOT_SERVED]
    return "\n".join(["| | | APIs |", "|---|---|---|", *rows])


def known_differences() -> str:
    rows = [
        f"| {'all' if allowed.api == '*' else allowed.api} | `{allowed.path}` | {allowed.reason} |"
        for allowed in ALLOWED
    ]
    return "\n".join(["| API | field | why |", "|---|---|---|", *rows])


def readme_table(run: Run) -> str:
    rows = [f"| client | {' | '.join(COLUMNS)} |", "|---|" + "---|" * len(COLUMNS)]
    for client in CLIENTS:
        cells = (verdict(run, [f for f in CLIENT_FEATURES if f.column == column], client) for column in COLUMNS)
        rows.append(f"| {client.title} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def verdict(run: Run, features: list[Feature], client: Client) -> str:
    """Returns yes if everything that the client is not left out of was tested, and passed."""
    expected = [feature for feature in features if client.excuse(feature) is None]
    outcomes = [{test["outcome"] for test in run.of(feature, client.name).values()} for feature in expected]
    if any("failed" in seen for seen in outcomes):
        return "**no**"
    if not expected:
        return "n/a"
    return "yes" if all("passed" in seen for seen in outcomes) else "in part"


def main() -> int:
    runs = Runs.read()
    PAGE.write_text(page(runs))
    README.write_text(README_TABLE.sub(lambda _: readme_table(runs.ours), README.read_text()))
    print(f"written: {PAGE.relative_to(ROOT)} and the table of clients in {README.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
