"""The metadata log on a log dir, with time and workers that move only when told."""

from barnabas.replication.metadata_batches import QuorumVoter
from barnabas.replication.metadata_log import (
    METADATA_PARTITION,
    METADATA_TOPIC_ID,
    MetadataLog,
    MetadataLogSettings,
    metadata_log_config,
)
from barnabas.storage.log_manager import LogManager
from tests.replication.clusters import CLUSTER_ID, uuid
from tests.storage.fakes import FakeClock, FakeReport, QueuedWorkers

VOTERS = [QuorumVoter(1, uuid(201), [("CONTROLLER", "localhost", 9093)])]


class Quorum:
    """A quorum of one on one log dir: what a broker's start makes of it."""

    def __init__(self, files, path, **settings):
        self.files = files
        self.clock = FakeClock()
        self.workers = QueuedWorkers()
        self.report = FakeReport()
        self.commits = []
        self.logs = LogManager([path], files=files, clock=self.clock, workers=self.workers, report=self.report)
        self.logs.open()
        self.log = self.logs.create(METADATA_PARTITION, METADATA_TOPIC_ID, metadata_log_config())
        self.metadata = MetadataLog(
            self.log,
            MetadataLogSettings(1, CLUSTER_ID, VOTERS, **settings),
            files=files,
            clock=self.clock,
            workers=self.workers,
            report=self.report,
            on_commit=lambda image, changes: self.commits.append((image, changes)),
        )

    def lead(self):
        self.metadata.become_leader(raise_if_failed)
        self.run()
        return self

    def run(self):
        """Until nothing is left to do at this time."""
        self.clock.turn()
        while self.workers.jobs:
            self.workers.do()
            self.clock.turn()

    def append(self, *records):
        errors = []
        self.metadata.append(records, errors.append)
        self.run()
        assert errors == [None], errors

    def stop(self):
        self.metadata.close()
        self.logs.close()


def raise_if_failed(error):
    if error is not None:
        raise error
