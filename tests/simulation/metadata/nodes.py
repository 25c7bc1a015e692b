"""Nodes of a metadata quorum in the simulated world: the real driver, logs, connections and bytes, without a broker."""

from typing import Any

from barnabas.base.promise import Promise
from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.network.acceptor import Acceptor
from barnabas.broker.network.buffers import Buffers
from barnabas.broker.network.quorum_peers import QuorumPeers
from barnabas.broker.network.reply_queue import Reply
from barnabas.broker.network.session import Session
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.frame import decode_request_header, encode_response
from barnabas.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from barnabas.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from barnabas.protocol.messages.vote import VoteRequest
from barnabas.protocol.schema import decode_from
from barnabas.protocol.stored.metadata_records import ConfigRecord
from barnabas.replication.metadata.log import METADATA_PARTITION, METADATA_TOPIC_ID, MetadataLog, metadata_log_config
from barnabas.replication.metadata.snapshotter import SnapshotSettings, Snapshotter
from barnabas.replication.quorum.driver import QuorumDriver
from barnabas.replication.quorum.opening import ConfiguredVoters, open_quorum
from barnabas.replication.quorum.settings import Identity, QuorumConfig
from barnabas.replication.quorum.voters import Address, ReplicaKey, VoterNode, VoterSet
from barnabas.storage.log_manager import LogManager
from tests.simulation.metadata.oracle import Answer, Oracle
from tests.simulation.world import Machine, Process, World

PORT = 9093
CLUSTER_ID = "simulated-cluster-0000"
KEYS = 10
SNAPSHOT_BYTES = 2_000
"""A snapshot every twenty decisions or so."""
_SERVED: dict[int, Any] = {
    int(kind.__api_key__): kind  # type: ignore[union-attr]
    for kind in (
        ApiVersionsRequest,
        BeginQuorumEpochRequest,
        EndQuorumEpochRequest,
        FetchRequest,
        FetchSnapshotRequest,
        VoteRequest,
    )
}
_FLEXIBLE_SINCE: dict[int, int | None] = {key: kind.__flexible_since__ for key, kind in _SERVED.items()}
_API_VERSIONS = ApiVersionsResponse(
    error_code=0,
    api_keys=[
        ApiVersion(api_key=key, min_version=kind.__versions__[0], max_version=kind.__versions__[-1])
        for key, kind in _SERVED.items()
    ],
)


def key_of(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, bytes(15) + bytes([100 + node_id]))


def voters_of(size: int) -> VoterSet:
    return VoterSet(
        [
            VoterNode(key_of(node_id), (Address("CONTROLLER", f"node-{node_id}", PORT),))
            for node_id in range(1, size + 1)
        ]
    )


class QuorumNode:
    """A machine with a node on it, as often as it is started. It is the quorum's listener as a controller would be."""

    def __init__(self, world: World, node_id: int, voters: VoterSet, oracle: Oracle) -> None:
        self.world = world
        self.node_id = node_id
        self.machine: Machine = world.machine(f"node-{node_id}")
        self._voters = voters
        self._oracle = oracle
        self._answers: list[Answer] = []
        self.driver: QuorumDriver | None = None

    @property
    def is_running(self) -> bool:
        return self.machine.process is not None

    # ---- lives

    def start(self) -> None:
        process = self.machine.start()
        self.world.trace.tell(self.machine.name, "starts")
        process.loop.call_soon(self._start, process)

    def _start(self, process: Process) -> None:
        environment = process.environment
        config = BrokerConfig.parse({"node.id": str(self.node_id), "listeners": f"PLAINTEXT://:{PORT}"})
        logs = LogManager(["/data"], environment)
        logs.open()
        log = MetadataLog(logs.create(METADATA_PARTITION, METADATA_TOPIC_ID, metadata_log_config(segment_bytes=4_000)))
        opened = open_quorum(log, ConfiguredVoters(self._voters, 1), CLUSTER_ID, environment)
        buffers = Buffers()
        peers = QuorumPeers(environment, buffers, client_id=self.machine.name)
        me = Identity(CLUSTER_ID, key_of(self.node_id), (Address("CONTROLLER", self.machine.name, PORT),))
        opened.loader.subscribe(lambda image, _changes: self._oracle.published(self.machine.name, image))
        self.driver = QuorumDriver(me, QuorumConfig(), opened, peers, environment, self)
        settings = SnapshotSettings(max_record_bytes_between_snapshots=SNAPSHOT_BYTES, max_snapshot_interval_ms=0)
        self.snapshotter = Snapshotter(
            log, opened.loader, environment, settings, self.driver, opened.loader.image.end_offset
        )
        acceptor = Acceptor(config, environment, buffers)
        acceptor.bind(config.client_listeners)
        self.driver.start().when_done(lambda _: acceptor.accept(self._dispatch))

    def kill(self) -> None:
        self._forget()
        self.machine.kill()

    def cut_power(self) -> None:
        self._forget()
        self.machine.cut_power()

    def _forget(self) -> None:
        self.driver, self._answers = None, []

    # ---- requests

    def _dispatch(self, frame: memoryview, session: Session) -> Promise[Reply] | Reply:
        header, position = decode_request_header(frame, _FLEXIBLE_SINCE)
        request, _ = decode_from(_SERVED[header.api_key], header.api_version, frame, position)
        if header.api_key == ApiKey.API_VERSIONS:
            return encode_response(_API_VERSIONS, header.api_version, header.correlation_id)
        assert self.driver is not None
        answer = self.driver.receive(request)
        return answer.map(lambda response: encode_response(response, header.api_version, header.correlation_id))

    @property
    def may_decide(self) -> bool:
        driver = self.driver
        return driver is not None and driver.core.is_leader and driver.loader.image.epoch == driver.core.epoch

    def decide(self, number: int) -> None:
        """Appends a record, as a controller does that leads; the oracle hears when it is answered."""
        assert self.driver is not None
        key = f"key-{number % KEYS}"
        record = ConfigRecord(resource_type=ResourceType.TOPIC, resource_name="t", name=key, value=str(number))
        end_offset = self.driver.append([record])
        self._answers.append(Answer(end_offset, key, number))

    # ---- what a controller hears

    def on_leader_change(self, leader_id: int | None, epoch: int) -> None:
        self.world.trace.tell(self.machine.name, "follows {} in epoch {}", leader_id, epoch)
        if leader_id == self.node_id:
            self._oracle.leads(self.node_id, epoch)
        else:
            self._answers = []  # they hear NOT_CONTROLLER, whatever becomes of their records

    def on_commit(self, high_watermark: int) -> None:
        assert self.driver is not None
        while self.driver.loader.publish_next(high_watermark) is not None:
            pass
        self.snapshotter.schedule()
        while self._answers and self._answers[0].end_offset <= high_watermark:
            self._oracle.answered(self._answers.pop(0))

    def on_failure(self, error: Exception) -> None:
        raise AssertionError(f"{self.machine.name} failed: {error!r}")
