"""Which job a folder is the output of."""

from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.files.folder import Folder

MARKS = {"archive": "_archive", "table": "_table", "rollup": "_rollup.json"}
"""What each job leaves in its output, and no other."""


def require_no_other_job(folder: Folder, job: str) -> None:
    for other, mark in MARKS.items():
        if other != job and folder.exists(mark):
            raise Failure(f"{folder.uri()} is the output of {other}: give {job} an --output of its own")
