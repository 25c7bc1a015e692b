"""`python -m compat_tests.page`: docs/compatibility.md and the README's table of clients, from what the last runs saw.

The figures are those of results/: of this broker, and of Apache Kafka, which has to pass the same tests.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

from compat_tests.differential.allowed import ALLOWED
from compat_tests.features import (
    BROKER_FEATURES,
    CLIENT_FEATURES,
    CLIENT_TITLES,
    COLUMNS,
    SPARK_FEATURES,
    SPARK_TITLES,
    Feature,
    features_of,
)
from compat_tests.harness import ROOT
from compat_tests.not_served import NOT_SERVED

RESULTS = ROOT / "compat_tests" / "results"
PAGE = ROOT / "docs" / "compatibility.md"
APIS = ROOT / "docs" / "apis.md"
README = ROOT / "README.md"
README_TABLE = re.compile(r"(?<=<!-- clients -->\n).*?(?=<!-- /clients -->)", re.DOTALL)

Tests = dict[str, dict[str, Any]]


class Run:
    def __init__(self, about: dict[str, str], tests: Tests) -> None:
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


def page(ours: Run, kafkas: Run) -> str:
    sections = [
        "# Compatibility",
        "Unmodified clients, Apache Kafka's own tools, its files, and raw requests, against a running broker. "
        "`make compat` runs all of it against Barnabas and then against Apache Kafka 4.3, so that a wrong test cannot "
        "pass for compatibility, and writes this page from what it saw.",
        summary(ours, kafkas),
        "## Clients\n\nA figure is the number of tests passed; an empty cell means not applicable or not tested.\n\n"
        + matrix(ours, CLIENT_FEATURES, CLIENT_TITLES),
        "## Spark\n\nSpark's built-in Kafka source and sink.\n\n" + matrix(ours, SPARK_FEATURES, SPARK_TITLES),
        "## Tools, files, protocol\n\n" + matrix(ours, BROKER_FEATURES, {None: "passed"}),
        *failures(ours, "Barnabas"),
        *failures(kafkas, "Apache Kafka"),
        "## APIs\n\n[apis.md](apis.md) tells more of each.\n\n" + api_table(APIS.read_text()),
        "## What Apache Kafka has and this broker has not\n\n" + not_served(),
        "## Known differences\n\nAnswers to raw requests are compared field by field. These are the differences that "
        "were looked at and let be; [design.md](design.md#where-we-differ-from-kafka) tells of those in behaviour.\n\n"
        + known_differences(),
    ]
    return "\n\n".join(sections) + "\n"


def summary(ours: Run, kafkas: Run) -> str:
    rows = [
        f"| {title} | {run.about['date']} | {run.count('passed'):,} | {run.count('failed')} | {run.count('skipped')} |"
        for title, run in ((f"Barnabas `{ours.about['commit']}`", ours), ("Apache Kafka 4.3.0", kafkas))
    ]
    return "\n".join(["| | run on | passed | failed | skipped |", "|---|---|--:|--:|--:|", *rows])


def matrix(run: Run, features: tuple[Feature, ...], columns: dict[Any, str]) -> str:
    header = f"| | {' | '.join(columns.values())} |"
    rule = "|---|" + "--:|" * len(columns)
    rows = [f"| {f.title} | {' | '.join(cell(run.of(f, client)) for client in columns)} |" for f in features]
    return "\n".join([header, rule, *rows])


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
    """Without the places in the code: number, name, versions."""
    rows = re.findall(r"^(\|[^|]+\|[^|]+\|[^|]+\|)[^|]+\|$", apis, re.MULTILINE)
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
    for client, title in CLIENT_TITLES.items():
        cells = (verdict(run, [f for f in CLIENT_FEATURES if f.column == column], client) for column in COLUMNS)
        rows.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def verdict(run: Run, features: list[Feature], client: str) -> str:
    outcomes = [test["outcome"] for feature in features for test in run.of(feature, client).values()]
    return "**no**" if "failed" in outcomes else "yes" if "passed" in outcomes else ""


def main() -> int:
    ours, kafkas = Run.read(RESULTS / "barnabas.json"), Run.read(RESULTS / "kafka.json")
    PAGE.write_text(page(ours, kafkas))
    README.write_text(README_TABLE.sub(lambda _: readme_table(ours), README.read_text()))
    print(f"written: {PAGE.relative_to(ROOT)} and the table of clients in {README.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
