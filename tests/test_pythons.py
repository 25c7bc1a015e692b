"""The newest Python of this machine, if the tests run with an older one: the core works, and nothing is deprecated.

`make setup` gives it an environment of its own in .cache; where the tests run with the newest there is nothing to do.
"""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NEWER = sorted((ROOT / ".cache").glob("python-3.*/bin/python"))
CORE = ("tests/base", "tests/protocol/test_frame.py", "tests/storage/test_log_append.py", "tests/broker/test_server.py")


@pytest.mark.skipif(not NEWER, reason="there is no newer Python on this machine, or `make setup` was not run since")
def test_the_core_works_with_the_newest_python(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [str(NEWER[-1]), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'inner'}", *CORE],
        cwd=ROOT,
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
