"""`python -m compat_tests.sources`: a short name for what is tested, which stays the same when history is rewritten.

It is a digest of the files that git keeps of the broker and of these tests, and says whether there are others on disk.
"""

import hashlib
import re
import subprocess

from compat_tests.brokers import ROOT

TESTED = ("barnabas", "base", "broker", "protocol", "storage", "replication", "compat_tests", ":!compat_tests/results")
"""The results are left out: what a run writes is no part of what it ran."""

CHANGED = " with changes"
NAME = re.compile(rf"[0-9a-f]{{12}}({CHANGED})?")


def sources() -> str:
    """Returns the digest of the files that are committed or staged, with a mark if there is more to commit."""
    digest = hashlib.sha256(_git("ls-files", "--stage", "--", *TESTED).encode()).hexdigest()[:12]
    return digest + (CHANGED if _git("status", "--porcelain", "--", *TESTED) else "")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    print(sources())
