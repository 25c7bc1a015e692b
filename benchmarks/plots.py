"""Bar charts of a run as SVG, written by hand: a plot is sixty rectangles, and matplotlib would be 60 MB for them."""

from pathlib import Path

from benchmarks.results import Run


def draw(run: Run, folder: Path) -> list[Path]:
    return []
