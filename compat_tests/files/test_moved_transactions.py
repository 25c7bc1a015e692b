"""Transactions that one broker has begun or decided are finished by the other: both ways."""

import signal
from typing import NamedTuple

import pytest

from compat_tests.brokers import Broker
from compat_tests.conftest import require
from compat_tests.files.moved_transactions import (
    ENDS,
    LEDGER,
    PARTITIONS,
    ROTATED,
    SETTINGS,
    STATE,
    begin,
    committed,
    create_ledger,
    decide,
    producer_of,
    states,
    write_transactions,
)
from compat_tests.files.sites import CLEAN_SHUTDOWN, Site
from compat_tests.files.test_files import java
from compat_tests.harness.groups import eventually

OTHER = {"kafka": "barnabas", "barnabas": "kafka"}
IN_ORDER = [name for name, state in ENDS.items() if state == "CompleteCommit"]
"""What is committed, in the order in which it was written."""
WITHIN_SECONDS = 60


class Finished(NamedTuple):
    states: dict[str, tuple[str, int]]
    committed: dict[int, list[str]]
    afterwards: dict[int, list[str]]


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Site]:
    """Both brokers, each with the topics, and stopped in the middle of everything."""
    require(java().needs)
    folder = tmp_path_factory.mktemp("sites")
    sites = {name: Site(name, folder / name, SETTINGS) for name in OTHER}
    for site in sites.values():
        with site.running(signal.SIGKILL) as broker:
            create_ledger(broker.bootstrap)
            producers = write_transactions(broker.bootstrap)
        del producers  # those whose transactions are open cannot tell their broker any more
        decide(site)
    return sites


@pytest.fixture(scope="module", params=OTHER)
def finished(
    request: pytest.FixtureRequest, sites: dict[str, Site], tmp_path_factory: pytest.TempPathFactory
) -> Finished:
    """What the other broker has made of what this one wrote. It was stopped cleanly before: in a start after a kill
    Kafka takes the partitions that it led for deleted when it loads transactions, and ends these without markers."""
    source = sites[request.param]
    site = sites[OTHER[source.name]].copy(tmp_path_factory.mktemp("moved") / "site")
    with site.running():
        pass
    site.take(source, (LEDGER, STATE))
    (site.data_dir / CLEAN_SHUTDOWN).unlink(missing_ok=True)
    with site.running() as broker:
        return finish(broker)


def finish(broker: Broker) -> Finished:
    eventually(
        lambda: {name: state for name, (state, _) in states(broker.port).items()} == ENDS,
        "every transaction has an end",
        lambda: states(broker.port),
        seconds=WITHIN_SECONDS,
    )
    found, read = states(broker.port), committed(broker.bootstrap)
    for transactional_id in ENDS:
        producer = producer_of(broker.bootstrap, transactional_id)
        begin(producer, f"again-{transactional_id}")
        producer.commit_transaction(30)
    return Finished(found, read, committed(broker.bootstrap))


def test_every_transaction_ends_as_it_was_decided_and_what_was_open_is_aborted(finished: Finished) -> None:
    assert {name: state for name, (state, _) in finished.states.items()} == ENDS


def test_the_producer_id_that_was_stored_with_the_decision_takes_over(finished: Finished) -> None:
    assert finished.states["decided-rotating"][1] == ROTATED


def test_what_is_committed_is_read_and_every_transactional_id_goes_on(finished: Finished) -> None:
    assert finished.committed == dict.fromkeys(range(PARTITIONS), IN_ORDER)
    assert finished.afterwards == dict.fromkeys(range(PARTITIONS), IN_ORDER + [f"again-{name}" for name in ENDS])
