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
from barnabas.replication.metadata.batches import BATCH_BYTES_MAX
from barnabas.replication.metadata.image import ImageChanges, MetadataImage
from barnabas.replication.metadata.log import METADATA_PARTITION, METADATA_TOPIC_ID, metadata_log_config
from barnabas.replication.metadata.snapshotter import SnapshotSettings
from barnabas.replication.quorum.log_view import OffsetAndEpoch
from barnabas.replication.quorum.messages import vote_request
from barnabas.replication.quorum.opening import ConfiguredVoters
from barnabas.replication.quorum.settings import Identity, QuorumConfig
from barnabas.replication.quorum.voters import Address, ReplicaKey, VoterSet
from barnabas.storage.log_manager import LogManager
from tests.fakes import FakeClock, FakeReport, QueuedWorkers, fake_environment
from tests.replication.clusters import CLUSTER_ID, controller, uuid

ME = Identity(CLUSTER_ID, ReplicaKey(1, uuid(201)), (Address("CONTROLLER", "localhost", 9093),))


class NoPeers:
    """A sole voter talks to nobody."""

    def send(self, node_id: int, address: Address | None, request: Any, *, timeout_ms: int) -> Promise[Any]:
        raise AssertionError(f"{request} to node {node_id}")

    def is_refused(self, error: Exception) -> bool:
        raise AssertionError(error)


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
        settings = QuorumSettings(
            ME,
            ConfiguredVoters(VoterSet([ME.node]), 1),
            snapshots=SnapshotSettings(**snapshots),
            batch_bytes_max=batch_bytes_max,
        )
        self.controller = QuorumController(
            self.log, settings, NoPeers(), environment, controller(), self.failures.append
        )
        self.controller.loader.subscribe(lambda image, changes: self.commits.append((image, changes)))

    @property
    def image(self) -> MetadataImage:
        return self.controller.loader.image

    @property
    def appended_image(self) -> MetadataImage:
        return self.controller.loader.appended_image

    @property
    def epoch(self) -> int:
        return self.controller.driver.core.epoch

    def lead(self) -> "Quorum":
        """A sole voter leads as soon as it has started."""
        started = self.controller.start()
        self.run()
        check_kept(started)
        assert self.controller.is_active
        return self

    def found(self) -> MetadataImage:
        """Everything that is in the log, without its leader, whom a snapshot does not name."""
        return self.appended_image._replace(controller_id=-1)

    def depose(self) -> None:
        """Lets another node, which will not be elected, begin a new epoch."""
        stranger = ReplicaKey(9, uuid(209))
        request = vote_request(
            Identity(CLUSTER_ID, stranger), ME.key, self.epoch + 1, OffsetAndEpoch(0, 0), pre_vote=False
        )
        self.controller.driver.receive(request)
        assert not self.controller.is_active

    def lead_again(self) -> None:
        self.clock.advance(QuorumConfig().election_timeout_ms * 2)
        self.run()
        assert self.controller.is_active

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
