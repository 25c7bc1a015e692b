"""A broker behind a proxy that lies: `barnabas verify` finds out, through an ordinary client."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.__main__ import main
from barnabas.testing import Broker
from tests.lying import lies
from tests.lying.proxy import Lie, LyingProxy

RECORDS = 40
LOAD = f"--seconds 1 --rate {RECORDS} --producers 1 --consumers 1 --partitions 1"
ONE_BY_ONE = "--client-property batch.num.messages=1 --client-property max.in.flight.requests.per.connection=1"

LIES: dict[str, tuple[Lie, str, set[str]]] = {
    "acknowledges without storing": (lies.acknowledges_without_storing(5), "--no-idempotence", {"lost-write"}),
    "refuses what it stores": (lies.refuses, "", {"refused-but-stored"}),
    "leaves out a batch": (lies.fetching(lies.without_the_second), "", {"lost-write"}),
    "repeats a batch": (lies.fetching(lies.the_second_again), "", {"non-monotonic-poll"}),
    "repeats a batch at another offset": (
        lies.fetching(lies.the_second_in_place_of_the_third),
        "",
        {"duplicate", "inconsistent-offset", "lost-write"},
    ),
    "exchanges two batches": (lies.fetching(lies.exchanged), "", {"inconsistent-offset"}),
    "alters a byte": (lies.fetching(lies.altered), "", {"corrupt"}),
    "alters a byte and its CRC": (lies.fetching(lies.altered_with_a_right_crc), "", {"corrupt"}),
    "delivers nothing": (lies.fetching(lies.nothing), "--timeout 3", {"stuck-read", "unseen"}),
    "forgets commits": (lies.forgets_commits, "--seconds 3", {"commit-went-back"}),
}
TRANSACTIONS = "--transactions --seconds 3 --rate 100"
LIES_ABOUT_TRANSACTIONS: dict[str, tuple[Lie, set[str]]] = {
    "commits what is to be aborted": (lies.commits_all_transactions, {"aborted-read"}),
    "aborts what is to be committed": (lies.aborts_the_third_transaction, {"lost-write"}),
    "shows what is not committed": (lies.shows_what_is_not_committed, {"aborted-read", "uncommitted-read"}),
    "leaves out a part of the second transaction": (
        lies.fetching(lies.without_the_fourth),
        {"lost-write", "torn-transaction"},
    ),
}


@pytest.fixture(scope="module")
def proxy() -> Iterator[LyingProxy]:
    proxy = LyingProxy(lies.none)
    with Broker(config={"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}) as broker:
        proxy.start(broker.port)
        try:
            yield proxy
        finally:
            proxy.close()


@pytest.fixture
def verify(proxy: LyingProxy, tmp_path: Path) -> Callable[[Lie, str], tuple[int, dict[str, dict[str, int]]]]:
    """Runs the command. Its exit code and its evidence."""

    def command(lie: Lie, options: str) -> tuple[int, dict[str, dict[str, int]]]:
        proxy.tell(lies.without_newer_fetches(lie))
        evidence = tmp_path / "verdict.json"
        line = f"verify -b 127.0.0.1:{proxy.port} --json {evidence} {LOAD} {ONE_BY_ONE} {options}"
        return main(line.split()), json.loads(evidence.read_text())

    return command


Verify = Callable[[Lie, str], tuple[int, dict[str, dict[str, int]]]]


def test_the_truth_passes(verify: Verify) -> None:
    status, evidence = verify(lies.none, "")
    assert (status, evidence["anomalies"], evidence["warnings"]) == (0, {}, {})


@pytest.mark.parametrize(("lie", "options", "expected"), LIES.values(), ids=LIES.keys())
def test_a_lie_is_found(lie: Lie, options: str, expected: set[str], verify: Verify) -> None:
    status, evidence = verify(lie, options)
    assert status == 1
    assert expected <= set(evidence["anomalies"])


def test_the_truth_about_transactions_passes(verify: Verify) -> None:
    status, evidence = verify(lies.none, TRANSACTIONS)
    assert (status, evidence["anomalies"], evidence["warnings"]) == (0, {}, {})


@pytest.mark.parametrize(("lie", "expected"), LIES_ABOUT_TRANSACTIONS.values(), ids=LIES_ABOUT_TRANSACTIONS.keys())
def test_a_lie_about_transactions_is_found(lie: Lie, expected: set[str], verify: Verify) -> None:
    status, evidence = verify(lie, TRANSACTIONS)
    assert status == 1
    assert expected <= set(evidence["anomalies"])


def test_a_batch_that_is_stored_twice_is_a_warning_without_idempotence(verify: Verify) -> None:
    status, evidence = verify(lies.stores_twice, "--no-idempotence")
    assert (status, evidence["anomalies"], evidence["warnings"]) == (0, {}, {"duplicate": 1})


def test_a_producer_that_fails_for_good_is_replaced(verify: Verify) -> None:
    status, evidence = verify(lies.breaks_the_order, "")
    assert (status, evidence["anomalies"]) == (0, {})
    assert evidence["errors"]["OUT_OF_ORDER_SEQUENCE_NUMBER"] == 1
    assert evidence["counts"]["unknown"] >= 1
    assert evidence["counts"]["acknowledged"] >= RECORDS // 2
