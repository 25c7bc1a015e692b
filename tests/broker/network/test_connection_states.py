"""The legal states of a connection are a table: what is absent cannot happen."""

import pytest

from barnabas.broker.network.connection import TRANSITIONS, Change, State


def test_a_closed_connection_stays_closed() -> None:
    assert not [change for state, change in TRANSITIONS if state is State.CLOSED]


@pytest.mark.parametrize("state", [state for state in State if state is not State.CLOSED])
def test_every_other_connection_can_be_stopped_and_closed(state: State) -> None:
    assert TRANSITIONS[state, Change.STOP_READING] is State.DRAINING
    assert TRANSITIONS[state, Change.CLOSE] is State.CLOSED


def test_a_connection_that_drains_reads_no_more() -> None:
    after = {target for (state, _), target in TRANSITIONS.items() if state is State.DRAINING}
    assert after == {State.DRAINING, State.CLOSED}


def test_only_a_client_that_is_behind_can_catch_up() -> None:
    assert [state for state, change in TRANSITIONS if change is Change.CATCH_UP] == [State.BEHIND]
