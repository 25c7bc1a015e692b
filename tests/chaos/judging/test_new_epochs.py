"""A record that is there twice is the fault of a broker, unless its producer sent it again in a new epoch."""

from pathlib import Path

import pytest

from barnabas.protocol.batch_builder import build_batch
from tests.chaos.judging.new_epochs import Copies, copies_in, offsets_of_new_epochs

Sent = tuple[str, int, int]
"""The key of a record, and the id and the epoch of its producer."""


def log(folder: Path, *sent: Sent) -> Path:
    batches = [
        build_batch([(key.encode(), b"", (), 0)], base_offset=offset, producer_id=producer, producer_epoch=epoch)
        for offset, (key, producer, epoch) in enumerate(sent)
    ]
    (folder / f"{0:020}.log").write_bytes(b"".join(batches))
    return folder


@pytest.mark.parametrize(
    ("sent", "copies"),
    [
        ([("a", 7, 0), ("b", 7, 0)], Copies(0, 0)),
        ([("a", 7, 0), ("a", 7, 1)], Copies(1, 0)),
        ([("a", 7, 0), ("a", 7, 1), ("a", 7, 2)], Copies(2, 0)),
        ([("a", 7, 0), ("a", 7, 0)], Copies(0, 1)),
        ([("a", 7, 0), ("a", 7, 1), ("a", 7, 1)], Copies(1, 1)),
        ([("a", 7, 0), ("a", 8, 0)], Copies(0, 1)),  # no producer sends what another one was given
    ],
)
def test_copies_are_counted(tmp_path: Path, sent: list[Sent], copies: Copies) -> None:
    assert copies_in(log(tmp_path, *sent), len(sent)) == copies


def test_what_is_of_a_later_epoch_is_known_by_its_offset(tmp_path: Path) -> None:
    assert offsets_of_new_epochs([log(tmp_path, ("a", 7, 0), ("a", 7, 1), ("b", 7, 1))], 3) == {1, 2}
