"""What a checkpoint and an output note of each other, and what happens if one of them has lost it."""

import errno
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.pipelines.rollups.batch_notes import BatchNotes
from barnabas.pipelines.rollups.options import make_parser, rollup_of
from barnabas.pipelines.rollups.output import ParquetOutput
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.files.folder import LocalFolder
from tests.pipelines.archives import WatchedFolder

ID = "checkpoint"


class Output:
    """An output with a file for each of the batches 1 and 3, and a checkpoint that notes 0 to 3."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.checkpoint = LocalFolder(str(folder / "checkpoint"))
        self.folder = folder / "out"
        for batch_id in range(4):
            self.checkpoint.create(f"offsets/{batch_id}", f"planned {batch_id}")
        output = self.opened()
        for batch_id in (1, 3):
            output.write(spark.range(batch_id), batch_id)
        output.close()

    def opened(self) -> ParquetOutput:
        output = ParquetOutput(LocalFolder(str(self.folder)), BatchNotes(self.checkpoint))
        output.open(ID)
        return output

    def files(self) -> list[str]:
        return sorted(path.name[:16] for path in self.folder.glob("*.parquet"))


@pytest.fixture
def output(spark: SparkSession, tmp_path: Path) -> Output:
    return Output(spark, tmp_path)


def test_a_batch_that_is_run_again_finds_its_file(output: Output) -> None:
    again = output.opened()
    assert [again.holds(batch_id) for batch_id in range(5)] == [False, True, False, True, False]
    again.close()


def test_a_checkpoint_that_knows_less_than_the_output_holds_is_refused(output: Output) -> None:
    for batch_id in (2, 3):
        output.checkpoint.remove(f"offsets/{batch_id}")
    with pytest.raises(Failure, match=r"windows of batch 3, .* ends with batch 1: .* from batch-0000000003 on"):
        output.opened()
    assert output.files() == ["batch-0000000001", "batch-0000000003"]

    [lost] = output.folder.glob("batch-0000000003*")
    lost.unlink()
    output.opened().close()  # as the line says


@pytest.mark.parametrize("more", [(), (4, 5)])
def test_a_batch_that_was_planned_anew_does_not_take_the_file_for_its_own(output: Output, more: tuple[int]) -> None:
    for batch_id in (2, 3, *more):
        output.checkpoint.replace(f"offsets/{batch_id}", f"planned {batch_id}, later")
    with pytest.raises(Failure, match="windows of another batch 3 than the checkpoint"):
        output.opened()


def test_a_batch_that_is_planned_anew_while_the_job_runs_is_refused(output: Output) -> None:
    running = output.opened()
    output.checkpoint.replace("offsets/1", "planned 1, later")
    with pytest.raises(Failure, match="windows of another batch 1"):
        running.holds(1)
    running.close()


def test_an_output_on_another_file_system_than_its_staging_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    def mounted(step: str) -> None:
        if step.startswith("before move"):
            raise OSError(errno.EXDEV, "Invalid cross-device link")

    folder = WatchedFolder(LocalFolder(str(tmp_path / "out")), mounted)
    output = ParquetOutput(folder, BatchNotes(LocalFolder(str(tmp_path / "checkpoint"))))
    with pytest.raises(Failure, match=r"out is a file system of its own, .* name a folder in it, for example .*/out/"):
        output.open(ID)
    output.close()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("window", "noted"),
    [("1h", "3600s"), ("3600001ms", "3600.001s"), ("30d", "2592000s"), ("250ms", "0.25s"), ("100d", "8640000s")],
)
def test_a_duration_is_noted_to_the_millisecond(window: str, noted: str) -> None:
    words = ["--bootstrap-servers", "-", "--topic", "t", "--checkpoint", "c", "--output", "o", "--time-field", "at"]
    assert rollup_of(make_parser().parse_args([*words, "--window", window])).fixed["--window"] == noted


def test_notes_that_spark_has_removed_are_not_missed(output: Output) -> None:
    for batch_id in range(4):
        output.checkpoint.remove(f"offsets/{batch_id}")
    output.checkpoint.create("offsets/200", "planned 200")
    output.opened().close()
