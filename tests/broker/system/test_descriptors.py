"""Who gets how many of the descriptors that the system allows."""

import resource
from math import inf

import pytest

from barnabas.broker.system.descriptors import connections_below, open_files_max


@pytest.mark.parametrize(
    ("limit", "files", "of_a_guest", "below"),
    [
        (64, 36, 16, 48),  # a quarter is kept, and connections have a share though files use all of theirs
        (256, 144, 48, 192),
        (1_024, 720, 240, 960),  # no more than 64 are kept
        (1_048_576, 65_536, 65_536, 1_048_512),
        (resource.RLIM_INFINITY, 65_536, 65_536, inf),
    ],
)
def test_files_connections_and_what_is_kept_from_both(
    monkeypatch: pytest.MonkeyPatch, limit: int, files: int, of_a_guest: int, below: float
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (limit, limit))
    assert (open_files_max(is_alone=True), open_files_max(is_alone=False)) == (files, of_a_guest)
    assert connections_below() == below
