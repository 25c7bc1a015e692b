"""The controller on a log dir, with time and workers that move only when told."""

from typing import Any

from barnabas.base.environment import Environment
from barnabas.base.files import Files
from barnabas.base.promise import Promise
from barnabas.protocol.batch_header import iter_batches
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord
from barnabas.replication.controller.channel import own_context
from barnabas.replication.controller.quorum_controller import QuorumController, QuorumSettings
from barnabas.replication.metadata.batches import BATCH_BYTES_MAX, QuorumVoter
from barnabas.replication.metadata.image import ImageChanges, MetadataImage
from barnabas.replication.metadata.log import METADATA_PARTITION, METADATA_TOPIC_ID, metadata_log_config
from barnabas.replication.metadata.snapshotter import SnapshotSettings
from barnabas.storage.log_manager import LogManager
from tests.fakes import FakeClock, FakeReport, QueuedWorkers, fake_environment
from tests.replication.clusters import CLUSTER_ID, controller, uuid

VOTERS = (QuorumVoter(1, uuid(201), [("CONTROLLER", "localhost", 9093)]),)


class Quorum:
    """A quorum of one on one log dir: what a broker's start makes of it."""

    def __init__(
        self,
        files: Files,
        path: str,
        *,
        environment: Environment | None = None,
        batch_bytes_max: int = BATCH_BYTES_MAX,
        **snapshots: int,
    ) -> None:
        """Without an environment that moves by itself, time and workers move when `run` is called."""
        self.files = files
        self.clock = FakeClock()
        self.workers = QueuedWorkers()
        self.report = FakeReport()
        self.commits: list[tuple[MetadataImage, ImageChanges]] = []
        self.failures: list[BaseException] = []
        environment = environment or fake_environment(files, clock=self.clock, workers=self.workers, report=self.report)
        self.logs = LogManager([path], environment)
        self.logs.open()
        self.log = self.logs.create(METADATA_PARTITION, METADATA_TOPIC_ID, metadata_log_config())
        settings = QuorumSettings(1, CLUSTER_ID, VOTERS, SnapshotSettings(**snapshots), batch_bytes_max)
        self.controller = QuorumController(self.log, settings, environment, controller(), self.failures.append)
        self.controller.loader.subscribe(lambda image, changes: self.commits.append((image, changes)))

    @property
    def image(self) -> MetadataImage:
        return self.controller.loader.image

    @property
    def appended_image(self) -> MetadataImage:
        return self.controller.loader.appended_image

    def lead(self) -> "Quorum":
        leads = self.controller.become_leader()
        self.run()
        check_kept(leads)
        return self

    def run(self) -> None:
        """Until nothing is left to do at this time."""
        self.clock.turn()
        while self.workers.jobs:
            self.workers.do()
            self.clock.turn()

    def append(self, *records: MetadataRecord) -> None:
        appended = self.controller.append(records)
        self.run()
        check_kept(appended)

    def submit(self, request: Any) -> Promise[Any]:
        return self.controller.submit(request, own_context(request))

    def stop(self) -> None:
        self.controller.close()
        self.logs.close()


def log_text(quorum: Quorum) -> list[tuple[int, int, int, bool]]:
    """Every batch as (base offset, records, epoch, is control)."""
    found = quorum.log.read(quorum.log.log_start_offset, 1 << 20, max_offset=quorum.log.log_end_offset)
    assert found is not None
    return [
        (header.base_offset, header.records_count, header.partition_leader_epoch, header.is_control)
        for _, header in iter_batches(found.read())
    ]


def check_kept(promise: Promise[Any]) -> None:
    assert promise.done
    if promise.error is not None:
        raise promise.error


def error_code(promise: Promise[Any]) -> ErrorCode:
    assert isinstance(promise.error, KafkaError), promise.error
    return promise.error.code
