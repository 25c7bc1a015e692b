"""`barnabas transactions find-hanging`: what no coordinator knows, and how it ends."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.__main__ import main
from barnabas.testing import Broker
from tests.barnabas.groups.cluster import Barnabas, Done
from tests.barnabas.transactions.conftest import new_producer, send
from tests.barnabas.transactions.written import WRITTEN_MS, Written, broker_on

HANGING, OTHER = 4711, 4712
FOUND = {
    "topic": "orders",
    "partition": 0,
    "producer_id": HANGING,
    "producer_epoch": 0,
    "coordinator_epoch": -1,
    "start_offset": 1,
    "last_timestamp_ms": WRITTEN_MS,
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """One on whose disk two transactions are open, which no coordinator knows."""
    log = Written().records(None, b"zero").records(HANGING, b"one", b"two").records(OTHER, b"three")
    with broker_on(log, tmp_path) as broker:
        yield broker


@pytest.fixture
def barnabas(broker: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Barnabas:
    monkeypatch.setenv("BARNABAS_BOOTSTRAP_SERVERS", broker.bootstrap_servers)

    def command(line: str) -> Done:
        status = main(line.split())
        return Done(status, *capsys.readouterr())

    return command


def test_what_no_coordinator_knows_is_found_and_ended_one_by_one(barnabas: Barnabas) -> None:
    assert barnabas("consume orders --isolation read_committed").out == "zero\n"
    assert barnabas("transactions find-hanging --json").json == [
        FOUND,
        FOUND | {"producer_id": OTHER, "start_offset": 3},
    ]
    done = barnabas("transactions find-hanging")
    assert done.out.splitlines()[1].split()[:6] == ["orders", "0", "4711", "0", "1", "2023-11-14T22:13:20.000Z"]
    assert "`barnabas transactions abort --topic orders:0 --start-offset 1` ends the first" in done.err
    for offset, producer_id in ((1, HANGING), (3, OTHER)):
        done = barnabas(f"transactions abort --topic orders:0 --start-offset {offset}")
        assert done.out == f"transaction of producer {producer_id} in orders-0 aborted, from offset {offset} on\n", done
    assert barnabas("transactions find-hanging") == (0, "", "no transaction hangs in 1 partition\n")
    assert barnabas("consume orders --isolation read_committed") == (0, "zero\n", "")


@pytest.mark.parametrize(
    ("options", "status", "is_found"),
    [
        ("--topic orders", 0, True),
        ("--topic orders:0", 0, True),
        ("--broker 1", 0, True),
        ("--max-transaction-timeout 1d", 0, True),
        ("--max-transaction-timeout 5200w", 0, False),  # as young as that may be open
        ("--topic orders:1", 1, False),
        ("--topic nothing", 1, False),
        ("--broker 7", 1, False),
    ],
)
def test_it_is_looked_for_where_the_user_says(barnabas: Barnabas, options: str, status: int, is_found: bool) -> None:
    done = barnabas(f"transactions find-hanging {options}")
    assert (done.status, "4711" in done.out) == (status, is_found), done.err


def test_a_transaction_that_its_coordinator_knows_does_not_hang_however_old_its_last_record_is(
    barnabas: Barnabas, broker: Broker
) -> None:
    producer = new_producer(broker, "payments", 600_000)
    producer.begin_transaction()
    producer.produce("orders", b"old", partition=0, timestamp=WRITTEN_MS)
    send(producer, "orders")
    found = barnabas("transactions find-hanging --max-transaction-timeout 0s --json").json
    assert [each["producer_id"] for each in found] == [HANGING, OTHER]


def test_lag_says_that_nobody_will_end_what_a_group_waits_for(barnabas: Barnabas) -> None:
    barnabas("groups reset-offsets billing --topic orders --to-earliest --execute")
    (shown,) = barnabas("groups lag billing --json").json
    waits = shown["partitions"][0]["waits_for"]
    assert (waits["last_stable_offset"], waits["stopped_by"]["transactional_id"]) == (1, None)
    *_, line = barnabas("groups lag billing").out.splitlines()
    assert "until the end of the transaction that no coordinator knows (producer id 4711, last write" in line
