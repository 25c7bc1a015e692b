"""`barnabas consume --isolation`, on a log with aborted, committed and open transactions."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.__main__ import main
from barnabas.client.aborted import AbortedTransactions
from barnabas.protocol.batch_builder import build_batch, build_end_transaction_marker
from barnabas.protocol.batch_header import iter_batches
from barnabas.protocol.records import ControlType, NewRecord
from barnabas.storage.metadata_files import CLEAN_SHUTDOWN_FILE
from barnabas.testing import Broker

A, B, C = 7, 8, 9


class Written:
    """The bytes of a log, batch by batch."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.offset = 0
        self._sequences: dict[int, int] = {}

    def records(self, producer_id: int | None, *values: bytes) -> "Written":
        records = [NewRecord(None, value, (), 1_700_000_000_000) for value in values]
        if producer_id is None:
            self.data += build_batch(records, base_offset=self.offset)
        else:
            sequence = self._sequences.get(producer_id, 0)
            self._sequences[producer_id] = sequence + len(values)
            self.data += build_batch(
                records,
                base_offset=self.offset,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=sequence,
                transactional=True,
            )
        self.offset += len(values)
        return self

    def marker(self, control_type: ControlType, producer_id: int) -> "Written":
        self.data += build_end_transaction_marker(
            control_type,
            coordinator_epoch=0,
            producer_id=producer_id,
            producer_epoch=0,
            timestamp=1_700_000_000_000,
            base_offset=self.offset,
        )
        self.offset += 1
        return self


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
    data_dir = tmp_path_factory.mktemp("data")
    with Broker({"orders": 1}, data_dir=str(data_dir)):
        pass
    (data_dir / "orders-0" / f"{0:020}.log").write_bytes(written().data)
    Path(data_dir, CLEAN_SHUTDOWN_FILE).unlink()
    with Broker(data_dir=str(data_dir)) as broker:
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
