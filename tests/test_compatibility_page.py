"""The page that tells of these tests: it has a place for each of them, and is made of what the last runs saw."""

import pytest

from compat_tests import page
from compat_tests.features import CLIENT_TITLES, features_of
from compat_tests.harness import CLIENTS, ROOT

FILES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "compat_tests").rglob("test_*.py"))


def test_every_client_has_a_column() -> None:
    assert {client.name for client in CLIENTS} == {*CLIENT_TITLES}


@pytest.mark.parametrize("file", FILES)
def test_every_test_has_a_row(file: str) -> None:
    assert features_of(f"{file}::test[case]", consumer_protocol=False), f"{file} is missing in features.py"


def test_the_page_is_made_of_the_recorded_runs() -> None:
    ours, kafkas = page.Run.read(page.RESULTS / "barnabas.json"), page.Run.read(page.RESULTS / "kafka.json")
    assert page.PAGE.read_text() == page.page(ours, kafkas)
    (table,) = page.README_TABLE.findall(page.README.read_text())
    assert table == page.readme_table(ours)


def test_what_failed_once_is_on_the_page() -> None:
    passed = {"outcome": "passed", "clients": ["aiokafka"], "consumer_protocol": False}
    failed = {**passed, "outcome": "failed", "reason": "a record was lost"}
    tests = {
        "compat_tests/test_records.py::one[aiokafka]": passed,
        "compat_tests/test_records.py::two[aiokafka]": failed,
    }
    about = {"broker": "barnabas", "date": "2026-01-01", "commit": "abc"}
    ours, kafkas = page.Run(about, tests), page.Run(about, {})
    assert "**1 failed**, 1" in page.page(ours, kafkas)
    assert "two[aiokafka]`: failed, a record was lost" in page.page(ours, kafkas)
    assert "| aiokafka 0.14.0 | **no** |  |" in page.readme_table(ours)
