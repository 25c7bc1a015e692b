"""Quorums as scripts: what happens to the nodes, and what has become of them after each step.

`REWRITE_SCRIPTS=1 pytest tests/replication/quorum/test_scripts.py` writes the states again; look at the difference.
"""

import os
from pathlib import Path

import pytest

from tests.replication.quorum.script import run_script

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.txt"))


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in SCRIPTS])
def test_script(path: Path) -> None:
    text = path.read_text()
    found = run_script(text)
    if os.environ.get("REWRITE_SCRIPTS"):
        path.write_text(found)
    else:
        assert found == text
