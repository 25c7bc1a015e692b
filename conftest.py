"""For every test: processes that a test starts hear the signals that they are sent, and two workers share the work.

A signal that is ignored stays ignored in every child: a shell ignores SIGINT in what it puts in the background, `nohup`
ignores SIGHUP, and a broker that a test starts would never hear them. A handler is not inherited. So pytest handles
what it was started to ignore, by doing nothing, and its children begin as if nothing had been ignored.
"""

import signal
from typing import Any

import pytest

ON_THEIR_OWN = "tests/simulation/"
"""Tests that share no fixture. Any worker may take the next of them; those of other files stay together."""
KEY = "ignored_signals"
IGNORED_BY_PYTHON = {signal.SIGPIPE, getattr(signal, "SIGXFSZ", signal.SIGPIPE)}  # subprocess restores these itself


def pytest_configure(config: pytest.Config) -> None:
    """Handles what is ignored; in a worker, what the process that started it was started to ignore."""
    ignored = getattr(config, "workerinput", {}).get(KEY) or [
        int(number)
        for number in signal.valid_signals() - IGNORED_BY_PYTHON
        if signal.getsignal(number) is signal.SIG_IGN
    ]
    for number in ignored:
        signal.signal(number, do_nothing)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Called by xdist for each worker, before it is started."""
    node.workerinput[KEY] = [int(number) for number in signal.valid_signals() if signal.getsignal(number) is do_nothing]


def do_nothing(_number: int, _frame: object) -> None:
    pass


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keeps the tests of a file on one worker, as `--dist loadfile` does, but spreads the simulations.

    A thousand simulated minutes in one file would keep one worker busy while the other has nothing left to do. Files
    with many tests are begun first, so that simulations fill the gaps at the end."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class BalancedScheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return nodeid if nodeid.startswith(ON_THEIR_OWN) else super()._split_scope(nodeid)

    return BalancedScheduling(config, log)
