"""Spark's checkpoint for a job that keeps its position elsewhere: created again for each run, and never relied on."""

from pyspark.sql import SparkSession

from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.files.file_system import Files
from barnabas.pipelines.shared.files.offset_log import batch_range
from barnabas.pipelines.shared.position import Offsets

OWNER = "_owner"


class OwnCheckpoint:
    def __init__(self, spark: SparkSession, directory: str, owner: str) -> None:
        """Takes as `owner` the output whose position counts instead."""
        self._files = Files(spark, directory)
        self._owner = owner
        self.uri = self._files.root

    def begin(self) -> None:
        """Empties the directory if it was ours; anybody else's is left alone."""
        if self._files.names(self.uri):
            if not self._files.exists(OWNER) or self._files.read_text(OWNER) != self._owner:
                raise Failure(
                    f"{self.uri} already holds something else: give this job a --checkpoint of its own, or none"
                )
            self.remove()
        self._files.make_directory(self.uri)
        self._files.write_text_atomically(OWNER, self._owner)

    def batch_ends(self, batch_id: int) -> Offsets:
        """Returns where the running batch ends in each partition that it reads."""
        return {place: span.stop for place, span in batch_range(self._files, batch_id).spans.items()}

    def remove(self) -> None:
        self._files.delete(self.uri, recursive=True)
