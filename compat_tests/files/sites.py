"""Data directories that brokers are started on, one after the other, and files that move between them."""

import shutil
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from compat_tests.brokers import BROKERS, Broker

CHECKPOINTS = ("recovery-point-offset-checkpoint", "cleaner-offset-checkpoint")
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
PARTITION_METADATA = "partition.metadata"


class Site:
    """A data directory that brokers of one kind are started on."""

    def __init__(self, name: str, folder: Path, settings: dict[str, str]) -> None:
        self.name = name
        self.folder = folder
        self.settings = settings
        self.data_dir = folder / "data"

    @contextmanager
    def running(self, stop: signal.Signals = signal.SIGTERM) -> Iterator[Broker]:
        self.folder.mkdir(exist_ok=True)
        with BROKERS[self.name](self.folder, self.settings) as broker:
            yield broker
            broker.send_signal(stop)
            broker.process.wait(timeout=30)

    def copy(self, folder: Path) -> "Site":
        shutil.copytree(self.folder, folder)
        return Site(self.name, folder, self.settings)

    def partitions(self, topic: str) -> list[Path]:
        return sorted(self.data_dir.glob(f"{topic}-[0-9]*"))

    def take(self, other: "Site", topics: Iterable[str]) -> None:
        """Takes the log files of topics that are here too: each keeps its own id. Both brokers were stopped cleanly,
        and what was known about the files that were here is forgotten."""
        for topic in topics:
            for target in self.partitions(topic):
                for file in target.iterdir():
                    if file.name != PARTITION_METADATA:
                        file.unlink()
                for file in (other.data_dir / target.name).iterdir():
                    if file.name != PARTITION_METADATA:
                        shutil.copy(file, target)
        for name in CHECKPOINTS:
            (self.data_dir / name).unlink(missing_ok=True)

    def take_with_its_id(self, other: "Site", topic: str) -> None:
        """Takes the files with their topic id, as a user does who does not know about ids."""
        for target in self.partitions(topic):
            shutil.rmtree(target)
            shutil.copytree(other.data_dir / target.name, target)
