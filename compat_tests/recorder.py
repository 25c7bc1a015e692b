"""A pytest plugin: `-p compat_tests.recorder --record FILE` writes what each test said about which client.

The page of docs/ is written from these files, so that it claims what was seen and nothing else. Under xdist the workers
say which clients a test is about, and the controller, which hears of all tests, writes the file.
"""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from compat_tests.brokers import ROOT
from compat_tests.harness.clients import CLIENTS
from compat_tests.harness.groups import Kind
from compat_tests.sources import sources

NAMES = [client.name for client in CLIENTS]
ABOUT = "compat"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", type=Path, metavar="FILE", help="write what each test said about which client")
    parser.addoption("--record-again", action="store_true", help="keep what that file has of tests that are not run")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--record")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(path, is_again=config.getoption("--record-again")))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.user_properties.append((ABOUT, about(item)))


def about(item: pytest.Item) -> dict[str, Any]:
    """Returns the clients that a test is about; more than one if one reads what another wrote."""
    module = getattr(item, "module", None)
    kinds, pyspark = getattr(module, "KINDS", {}), getattr(module, "PYSPARK", None)
    params = item.callspec.params.values() if hasattr(item, "callspec") else ()
    values = [kinds.get(value, value) if isinstance(value, str) else value for value in params]
    clients = {name for value in values for name in clients_named(value)}
    return {
        "clients": sorted(clients) if pyspark is None else [f"spark-{pyspark}"],
        "consumer_protocol": any(speaks_consumer_protocol(value) for value in values),
    }


def clients_named(value: Any) -> list[str]:
    if isinstance(value, Kind):
        return [value.client]
    if isinstance(value, tuple):
        return [name for part in value for name in clients_named(part)]
    return [value] if value in NAMES else []


def speaks_consumer_protocol(value: Any) -> bool:
    return isinstance(value, Kind) and bool(value.settings.get("group.protocol") == "consumer")


class Recorder:
    def __init__(self, path: Path, *, is_again: bool = False) -> None:
        self.path = path
        self.is_again = is_again
        self.about: dict[str, Any] = {
            "broker": os.environ.get("BROKER", "barnabas"), "date": today(), "sources": sources(),
        }  # fmt: skip
        self.tests: dict[str, dict[str, Any]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Records, with --collect-only, what there is to run."""
        if session.config.getoption("collectonly"):
            self.tests = {item.nodeid: {"outcome": "collected", **about(item)} for item in session.items}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Records the outcome of a test: that of its worst part, set-up, call or tear-down."""
        about: Any = dict(report.user_properties)[ABOUT]
        entry = self.tests.setdefault(report.nodeid, {"outcome": "passed", **about})
        if report.outcome == "failed" or (report.outcome == "skipped" and entry["outcome"] == "passed"):
            entry["outcome"] = report.outcome
            entry["reason"] = reason_of(report)

    def pytest_sessionfinish(self) -> None:
        if self.is_again:
            self.add_to_the_last_run()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        half = self.path.with_suffix(".part")
        rows = ",\n".join(f" {json.dumps(name)}: {json.dumps(entry)}" for name, entry in sorted(self.tests.items()))
        # A line each, so that a change can be read.
        half.write_text(f'{{"about": {json.dumps(self.about)},\n"tests": {{\n{rows}\n}}}}\n')
        half.rename(self.path)

    def add_to_the_last_run(self) -> None:
        """Puts these tests in the place of what they said when all were run, and keeps how many and when."""
        last = json.loads(self.path.read_text())
        again = {**self.about, "tests": len(self.tests)}
        self.about = {**last["about"], "again": [*last["about"].get("again", ()), again]}
        self.tests = {**last["tests"], **self.tests}


def reason_of(report: pytest.TestReport) -> str:
    told = report.longrepr
    text = str(told[2]) if isinstance(told, tuple) else str(getattr(told, "reprcrash", None) or told)
    return text.replace(str(ROOT), ".").partition("\n")[0][:300]


def today() -> str:
    return datetime.now(UTC).date().isoformat()
