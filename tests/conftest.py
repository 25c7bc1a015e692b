"""For every test of these folders."""

import gc
import logging
import warnings
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("unhurried", deadline=None)  # a machine that is busy is no failure
settings.load_profile("unhurried")


@pytest.fixture
def forgotten_sockets() -> Iterator[None]:
    """Collects the sockets that clients forgot when their connections failed, so that no other test is blamed for them.
    What they log would hold on to their sockets. The test itself has to ignore `unclosed <socket`."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
