"""The page that tells of these tests: it has a place for each of them, and is made of what the last runs saw."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests import page
from compat_tests.brokers import ROOT
from compat_tests.harness.clients import CLIENTS, Client
from compat_tests.harness.features import CLIENT_FEATURES, RECORDS, Feature, features_of
from compat_tests.recorder import Recorder
from compat_tests.sources import NAME, sources


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> page.Run:
    """Every test that a full run would run."""
    record = tmp_path_factory.mktemp("collected") / "tests.json"
    options = ("-q", "--collect-only", "-p", "no:cacheprovider", "-p", "compat_tests.recorder", "--record", str(record))
    command = [sys.executable, "-m", "pytest", *options, "compat_tests"]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "COMPAT": "full"}, check=True, capture_output=True)
    return page.Run.read(record)


def test_every_test_has_a_row(collected: page.Run) -> None:
    lost = [name for name, test in collected.tests.items() if not features_of(name, test["consumer_protocol"])]
    assert collected.tests
    assert not lost


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_every_client_is_in_every_row_or_excused(collected: page.Run, client: Client) -> None:
    for feature in CLIENT_FEATURES:
        is_tested = bool(collected.of(feature, client.name))
        assert is_tested == (client.excuse(feature) is None), feature.title


def test_every_excuse_is_of_a_row_and_says_why() -> None:
    for client in CLIENTS:
        assert {*client.lacks} <= {*CLIENT_FEATURES}
        assert all(len(reason.split()) > 2 for reason in client.lacks.values()), client.lacks


def test_the_page_is_made_of_the_recorded_runs() -> None:
    runs = page.Runs.read()
    assert page.PAGE.read_text() == page.page(runs)
    (table,) = page.README_TABLE.findall(page.README.read_text())
    assert table == page.readme_table(runs.ours)


@pytest.mark.parametrize("broker", ["barnabas", "kafka"])
def test_what_was_tested_has_a_name(broker: str) -> None:
    about = page.Run.read(page.RESULTS / f"{broker}.json").about
    # Whether it is that of this checkout is not asked: every commit would make the page wrong.
    assert NAME.fullmatch(about.get("sources", sources()))


def run_of(client: Client, feature: Feature, outcome: str = "passed") -> page.Run:
    """In which one test of one client ended so."""
    about = {"broker": "barnabas", "date": "2026-01-01", "sources": "0123456789ab"}
    test = {"clients": [client.name], "consumer_protocol": False, "outcome": outcome, "reason": "a record was lost"}
    return page.Run(about, {f"compat_tests/{feature.tests[0]}::one[{client.name}]": test})


AIOKAFKA, KCAT = (next(client for client in CLIENTS if client.name == name) for name in ("aiokafka", "kcat"))


def test_what_failed_once_is_on_the_page() -> None:
    failed = run_of(AIOKAFKA, RECORDS, "failed")
    told = page.page(page.Runs(failed, page.Run(failed.about, {})))
    assert "**1 failed**, 0" in told
    assert "one[aiokafka]`: failed, a record was lost" in told
    assert "| aiokafka 0.14.0 | **no** |" in page.readme_table(failed)


def test_what_was_run_again_takes_the_place_of_what_failed_and_the_page_says_so(tmp_path: Path) -> None:
    path = tmp_path / "barnabas.json"
    failed = run_of(AIOKAFKA, RECORDS, "failed")
    path.write_text(json.dumps({"about": failed.about, "tests": {**failed.tests, "another": {"outcome": "passed"}}}))
    again = Recorder(path, is_again=True)
    again.tests = run_of(AIOKAFKA, RECORDS).tests
    again.pytest_sessionfinish()
    run = page.Run.read(path)
    assert [test["outcome"] for test in run.tests.values()] == ["passed", "passed"]
    assert run.about["sources"] == failed.about["sources"]
    (told,) = page.repeated(page.Runs(run, failed))
    assert told.startswith("Barnabas: 1 of these failed at first; they ran again on 20")


def test_three_brokers_have_a_table_of_their_own() -> None:
    passed, failed = run_of(AIOKAFKA, RECORDS), run_of(AIOKAFKA, RECORDS, "failed")
    told = page.page(page.Runs(passed, passed, cluster=failed))
    assert f"| {RECORDS.title} | 1 | **1 failed**, 0 |" in told
    assert "| Barnabas, three brokers | 2026-01-01 | 0 | 1 | 0 |" in told
    assert "## What did not pass against Barnabas, three brokers" in told


def test_one_row_of_several_is_no_yes() -> None:
    table = page.readme_table(run_of(AIOKAFKA, RECORDS))
    assert "| aiokafka 0.14.0 | in part | in part | in part | n/a | in part | in part |" in table


def test_who_is_left_out_is_told_why_and_who_is_missing_that_it_is() -> None:
    told = page.client_matrix(run_of(KCAT, RECORDS))
    assert ". has no admin client" in told
    assert "not tested" in told
