"""Writes windows: to Parquet exactly once, to a topic at least once under keys that stay the same."""

import errno
import json
import re
import uuid
from collections.abc import Mapping
from typing import IO

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from barnabas.pipelines.rollups.batch_notes import BatchNotes
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.files.file_system import Files
from barnabas.pipelines.shared.files.folder import Folder
from barnabas.pipelines.shared.files.output_marks import require_no_other_job

OWNER = "_rollup.json"
LOCK = "_rollup.lock"
PROBE = "_rollup.probe"
SETTINGS = "rollup.json"
FILE = re.compile(r"batch-([0-9]{10,})(?:-([0-9a-f]+))?\.parquet")


class ParquetOutput:
    """One file for each batch that wrote windows, named after the batch and moved into place whole.

    A batch that is run again after a crash has the same windows. It finds its file and leaves it as it is, or does
    not find it and writes it: no reader sees a window twice, or a part of a batch. The name holds the mark of Spark's
    note too: a batch that was planned again has other windows, and must not take the file for its own.
    """

    def __init__(self, folder: Folder, notes: BatchNotes) -> None:
        self.folder = folder
        self.notes = notes
        self._marks: dict[int, str | None] = {}
        """The marks of the batches whose files are here."""
        # Beside the folder, so that no reader of the folder finds it by any pattern.
        self._staging = folder.sibling(f".{folder.root.rpartition('/')[2]}.rollup.staging")
        self._lock: IO[str] | None = None

    def check(self, checkpoint_id: str) -> None:
        """Refuses another checkpoint, which counts its batches from 0 again: its files would replace those in the
        folder."""
        require_no_other_job(self.folder, "rollup")
        if self.folder.exists(OWNER):
            if json.loads(self.folder.read(OWNER))["checkpoint"] != checkpoint_id:
                raise Failure(
                    f"{self.folder.root} holds windows of another checkpoint, and this one would write them again: "
                    "name an empty --output, or the --checkpoint that belongs to it"
                )
        elif any(name.endswith(".parquet") for name in self.folder.names("")):
            raise Failure(f"{self.folder.root} holds Parquet files of something else: name an empty --output")
        found = (FILE.fullmatch(name) for name in self.folder.names(""))
        self._marks = {int(each[1]): each[2] for each in found if each}
        self._check_checkpoint_is_not_older()

    def _check_checkpoint_is_not_older(self) -> None:
        """Refuses a checkpoint that is older than the output, after a power cut or because an older copy was put
        back."""
        if not self._marks:
            return
        last, known = max(self._marks), self.notes.last()
        if last > known:
            first = min(batch_id for batch_id in self._marks if batch_id > known)
            raise Failure(
                f"{self.folder.root} holds windows of batch {last}, and the checkpoint "
                f"{self.notes.checkpoint.root} {f'ends with batch {known}' if known >= 0 else 'has none'}: put "
                f"back the newer checkpoint, or remove the files from batch-{first:010} on and start again, and their "
                "windows are written again"
            )
        self._check_same(last)

    def _check_same(self, batch_id: int) -> None:
        written, noted = self._marks[batch_id], self.notes.mark(batch_id)
        if written is not None and noted is not None and written != noted:
            raise Failure(
                f"{self.folder.root} holds windows of another batch {batch_id} than the checkpoint "
                f"{self.notes.checkpoint.root}, which has read other offsets since an older copy of it was put back: "
                "put back the newer checkpoint, or begin again with an empty --checkpoint and an empty --output"
            )

    def open(self, checkpoint_id: str) -> None:
        self.check(checkpoint_id)
        try:
            self._lock = self.folder.lock(LOCK)
        except BlockingIOError:
            raise Failure(f"{self.folder.root} is being written by another rollup: stop it first") from None
        self.folder.create(OWNER, json.dumps({"checkpoint": checkpoint_id}))
        self.folder.remove(self._staging)  # of a process that died while it wrote
        self._check_one_file_system()

    def _check_one_file_system(self) -> None:
        """Moves a file, because that is what has to work."""
        self.folder.remove(PROBE)
        try:
            self.folder.create(f"{self._staging}/probe", "")
            self.folder.move(f"{self._staging}/probe", PROBE)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise Failure(f"{self._staging}, where files are prepared, cannot be written: {error}") from error
            raise Failure(
                f"{self.folder.root} is a file system of its own, and files are prepared beside it: name a folder in "
                f"it, for example {self.folder.root}/windows"
            ) from None
        finally:
            self.folder.remove(self._staging)
        self.folder.remove(PROBE)

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()

    def holds(self, batch_id: int) -> bool:
        if batch_id not in self._marks:
            return False
        self._check_same(batch_id)
        return True

    def write(self, windows: DataFrame, batch_id: int) -> None:
        staged = f"{self._staging}/{uuid.uuid4().hex}"
        # Spark's default for timestamps is INT96, which few others still know.
        windows.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        windows.coalesce(1).write.parquet(self.folder.uri(staged))
        [name] = [name for name in self.folder.names(staged) if name.endswith(".parquet") and not name.startswith(".")]
        self.folder.sync([f"{staged}/{name}"])
        self.notes.sync(batch_id)  # else a power cut could leave the file without the note that it belongs to
        mark = self.notes.mark(batch_id)
        assert mark is not None, "Spark notes a batch before it runs it"
        target = f"batch-{batch_id:010}-{mark}.parquet"
        self.folder.move(f"{staged}/{name}", target)
        self.folder.sync([target])
        self._marks[batch_id] = mark
        self.folder.remove(self._staging)

    def batches(self) -> int:
        return sum(name.endswith(".parquet") and not name.startswith(".") for name in self.folder.names(""))


def send(windows: DataFrame, topic: str, keys: list[str], settings: Mapping[str, str]) -> None:
    """Sends windows under keys that name them: in a compacted topic a window that is sent again replaces the first."""
    key = F.to_json(F.struct(*(F.col(f"`{name}`") for name in [*keys, "window_start"])))
    value = F.to_json(F.struct(*(F.col(f"`{name}`") for name in windows.columns)))
    rows = windows.select(key.cast("binary").alias("key"), value.cast("binary").alias("value"))
    rows.write.format("kafka").options(**settings, topic=topic).save()


def check_checkpoint(checkpoint: Files, settings: Mapping[str, str]) -> str | None:
    """Returns the checkpoint's id; None if it is new. Its state is of one kind of window: no other kind can use it."""
    if not checkpoint.exists(SETTINGS):
        if checkpoint.names(checkpoint.root):
            raise Failure(f"{checkpoint.root} is not the checkpoint of a rollup: name an empty folder as --checkpoint")
        return None
    noted = json.loads(checkpoint.read_text(SETTINGS))
    before = noted["settings"]
    changed = [
        f"{name} was {before.get(name, 'not given')}, now {settings.get(name, 'not given')}"
        for name in sorted({*before, *settings})
        if before.get(name) != settings.get(name)
    ]
    if changed:
        raise Failure(
            f"{checkpoint.root} holds windows of other options ({'; '.join(changed)}): use those, or begin "
            "again with an empty --checkpoint and an empty --output"
        )
    return str(noted["id"])


def make_checkpoint(checkpoint: Files, settings: Mapping[str, str]) -> str:
    made = uuid.uuid4().hex
    checkpoint.make_directory(checkpoint.root)
    checkpoint.write_text_atomically(SETTINGS, json.dumps({"id": made, "settings": settings}, indent=1))
    return made
