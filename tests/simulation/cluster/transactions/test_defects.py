"""The quickest of the planted defects of transactions are found, each time; `make simulate-defects` looks for all."""

import pytest

from tests.simulation.cluster.defects.planted import Defect, first_failure, profile_passes
from tests.simulation.cluster.transactions import late_marker
from tests.simulation.cluster.transactions.defects import DEFECTS, IN_EVERY_TEST_RUN
from tests.simulation.seeds import collected_by_hand


@pytest.mark.parametrize("what", IN_EVERY_TEST_RUN)
def test_a_defect_is_found(what: str) -> None:
    defect = DEFECTS[what]
    with collected_by_hand():
        found = first_failure(defect)
    assert found is not None, f"not found within {defect.seeds} seeds"
    assert found.reason in defect.found_by, f"seed {found.seed}: {found.failure}"


@pytest.mark.parametrize("defect", [DEFECTS[what] for what in IN_EVERY_TEST_RUN[:2]], ids=IN_EVERY_TEST_RUN[:2])
def test_without_a_defect_its_profile_passes(defect: Defect) -> None:
    with collected_by_hand():
        assert profile_passes(defect, seeds=2)


@pytest.mark.parametrize("seed", range(4))
def test_each_story_of_a_late_marker_finds_who_obeys_it(seed: int) -> None:
    defect = DEFECTS["former coordinators are obeyed"]
    with defect.plant(), pytest.raises(AssertionError, match=r"^TI[34]: "):
        late_marker.simulate(seed)
