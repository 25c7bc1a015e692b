"""Clients in transactions, by the rules of both versions, where nothing goes wrong and where much does."""

import pytest

from tests.simulation.cluster.plan import plan_of
from tests.simulation.cluster.scenario import ManyBrokers
from tests.simulation.cluster.settings import Settings
from tests.simulation.cluster.transactions import late_marker, power
from tests.simulation.cluster.transactions.workload import Transactions
from tests.simulation.seeds import chosen_seeds, replayable

THREE = Settings(replication_factor=3, min_insync_replicas=2, producers=1, transactional=2, copiers=1)
ONE = Settings(brokers=1, voters=1, producers=1, transactional=2, copiers=1)
LEADERS_CHANGE = ("kill", "isolate", "pause", "stall")


def run(seed: int, settings: Settings) -> Transactions:
    scenario = ManyBrokers(plan_of(seed, settings))
    with replayable(seed, scenario.world.trace):
        scenario.run()
    assert scenario.transactions is not None
    return scenario.transactions


@pytest.mark.parametrize("settings", [THREE, ONE], ids=["three brokers", "one broker"])
@pytest.mark.parametrize("old_rules", [0, 3])
def test_without_faults_all_transactions_are_judged(settings: Settings, old_rules: int) -> None:
    transactions = run(1, settings._replace(old_rules=old_rules))
    oracle = transactions.oracle
    assert oracle.committed_transactions > 100
    assert all(transaction.is_judged for transaction in oracle.transactions.values())
    assert not oracle.is_void
    assert oracle.copiers["c0"] > 0


def test_producers_whose_epochs_run_out_get_another_id() -> None:
    transactions = run(2, THREE._replace(first_producer_epoch=32_760))
    ids = {(producer.name, producer.producer_id) for producer in transactions.producers}
    assert {producer_id for _, producer_id in ids} != {0, 1, 2}
    assert all(producer.producer_epoch < 32_000 for producer in transactions.producers)


@pytest.mark.parametrize("seed", range(3))
def test_transactions_are_right_while_leaders_change(seed: int) -> None:
    settings = THREE._replace(kinds=LEADERS_CHANGE, faults=20, old_rules=1, transaction_timeout_ms=2_000)
    assert run(seed, settings).oracle.committed_transactions > 20


def test_a_transaction_has_one_end_though_power_fails_in_the_middle_of_it() -> None:
    for seed in chosen_seeds(range(60)):
        with replayable(seed):
            power.simulate(seed)


def test_a_late_marker_of_a_former_coordinator_does_not_end_the_next_transaction() -> None:
    for seed in chosen_seeds(range(4)):
        with replayable(seed):
            late_marker.simulate(seed)


def test_clients_of_version_1_outlive_the_memory_of_their_coordinator() -> None:
    transactions = run(1, ONE._replace(old_rules=3, copiers=0, transactional=3, id_expiration_ms=1_000))
    assert transactions.oracle.committed_transactions > 50
