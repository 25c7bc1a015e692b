"""Defects of compaction are planted, one at a time: the crash simulation of compacted logs must find each."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from barnabas.protocol.batch_header import BatchHeader
from barnabas.protocol.errors import KafkaError
from barnabas.storage.compaction.cleaned_transactions import CleanedTransactions
from barnabas.storage.compaction.compaction import Compaction
from tests.simulation.cluster.defects.plants import Plant
from tests.simulation.seeds import collected_by_hand
from tests.simulation.test_compaction_crash import simulate

SEEDS = 20


@contextmanager
def a_marker_goes_and_its_row_stays() -> Iterator[None]:
    end = CleanedTransactions._end_aborted

    def ended(self: CleanedTransactions, header: BatchHeader) -> bool:
        aborted = self._ongoing.get(header.producer_id)
        is_obsolete = end(self, header)
        if is_obsolete and aborted is not None:
            self.retained.append(aborted)
        return is_obsolete

    with patch.object(CleanedTransactions, "_end_aborted", ended):
        yield


@contextmanager
def keys_of_aborted_transactions_count() -> Iterator[None]:
    map_segment = Compaction._map_segment

    def mapped(self: Compaction, segment: Any, _: CleanedTransactions) -> bool:
        return map_segment(self, segment, CleanedTransactions(()))

    with (
        patch.object(Compaction, "_map_segment", mapped),
        patch.object(CleanedTransactions, "_end_aborted", _ended_somehow),
    ):
        yield


def _ended_somehow(self: CleanedTransactions, header: BatchHeader) -> bool:
    """Like the real one, but does not notice that it was not told of the transaction."""
    self._committed.discard(header.producer_id)
    aborted = self._ongoing.pop(header.producer_id, None)
    if aborted is None or header.producer_id not in self._were_seen:
        return True
    self._were_seen.discard(header.producer_id)
    self.retained.append(aborted)
    return False


@pytest.mark.parametrize(
    ("plant", "found_by"),
    [
        (a_marker_goes_and_its_row_stays, "is not told"),
        (keys_of_aborted_transactions_count, "the last value of"),
    ],
)
def test_a_defect_is_found(plant: Callable[[], Plant], found_by: str) -> None:
    with plant(), collected_by_hand():
        assert found_by in first_failure()


def first_failure() -> str:
    """Returns what is said of the first seed that fails."""
    for seed in range(SEEDS):
        try:
            simulate(seed)
        except (AssertionError, KafkaError) as error:
            return str(error)
    return "nothing"
