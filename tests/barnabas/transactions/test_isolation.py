"""`barnabas consume --isolation`, on a log with aborted, committed and open transactions."""

from collections.abc import Iterator

import pytest

from barnabas.__main__ import main
from barnabas.client.aborted import AbortedTransactions
from barnabas.protocol.batch_header import iter_batches
from barnabas.protocol.records import ControlType
from tests.barnabas.transactions.written import Written, broker_on

A, B, C = 7, 8, 9


def written() -> Written:
    """Offsets 0 to 11; what follows 9 is not decided."""
    return (
        Written()
        .records(A, b"aborted", b"aborted")
        .records(B, b"two")
        .records(None, b"three")
        .marker(ControlType.ABORT, A)
        .records(A, b"five")  # the same producer, and this time it goes well
        .marker(ControlType.COMMIT, B)
        .marker(ControlType.COMMIT, A)
        .records(B, b"aborted")
        .marker(ControlType.ABORT, B)
        .records(C, b"open")
        .records(None, b"eleven")
    )


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with broker_on(written(), tmp_path_factory.mktemp("data")) as broker:
        yield broker.bootstrap_servers


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (("--isolation", "read_committed"), ["two", "three", "five"]),
        (("--isolation", "read_committed", "--from", "5"), ["five"]),  # A's transaction there is another one
        (("--isolation", "read_committed", "--from", "-5"), ["five"]),  # from the last stable offset
        (("--isolation", "read_committed", "--from", "end"), []),
        (("--isolation=read_uncommitted", "--from", "8"), ["aborted", "open", "eleven"]),
        (("--from", "8"), ["aborted", "open", "eleven"]),  # as Kafka's console consumer does
    ],
)
def test_who_reads_committed_records_gets_no_others(
    servers: str, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], shown: list[str]
) -> None:
    assert main(["consume", "orders", "-b", servers, *options]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines() == shown
    waits = "barnabas: partition 0 is read up to offset 10: what follows, up to offset 12, waits for the end of a"
    assert (waits in captured.err) == ("read_committed" in options)


def test_another_level_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["consume", "orders", "--isolation", "serializable"]) == 2
    assert "must be read_committed or read_uncommitted" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("aborted", "hidden"),
    [
        ([], [4, 6, 7, 9]),  # markers are never shown
        ([(0, A)], [0, 4, 6, 7, 9]),
        ([(8, B), (0, A)], [0, 4, 6, 7, 8, 9]),  # in any order
        ([(8, B), (20, A)], [4, 6, 7, 8, 9]),  # one that is beyond this answer is harmless
    ],
)
def test_batches_of_aborted_transactions_are_hidden_until_their_marker(
    aborted: list[tuple[int, int]], hidden: list[int]
) -> None:
    transactions = AbortedTransactions(aborted)
    headers = [header for _, header in iter_batches(memoryview(written().data))]
    assert [header.base_offset for header in headers if transactions.hides(header)] == hidden
