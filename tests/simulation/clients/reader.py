"""A consumer without a group: it reads every partition from its start and reports each record to the oracle."""

from barnabas.broker.network.peer_client import PeerClient
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import TopicPartition
from tests.simulation.clients.client import SimulatedClient
from tests.simulation.clients.fetching import fetch
from tests.simulation.clients.script import Script

_TRY_AGAIN = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE}
)


class Reader(SimulatedClient):
    """A power cut may take what it has read of a topic that is not flushed at once: it reads that from the start."""

    def prepare(self) -> None:
        self._power_cuts = self.oracle.power_cuts

    def script(self) -> Script[None]:
        link = self.link()
        while not self.is_stopping:
            self._power_cuts = self.oracle.power_cuts
            positions = {partition: len(model.read) for partition, model in self.oracle.partitions.items()}
            try:
                yield from self._read(link, positions)
            except KafkaError:
                yield self.back_off()

    def _read(self, link: PeerClient, positions: dict[TopicPartition, int]) -> Script[None]:
        answers = yield from fetch(link, positions, min_bytes=4_000, max_wait_ms=1_000)
        for partition, code, records, _ in answers:
            if code in _TRY_AGAIN:
                yield self.back_off()
                continue
            if self._power_cuts < self.oracle.power_cuts and partition.topic not in self.oracle.flushed_topics:
                continue
            assert not code, f"{self.name} at {positions[partition]} of {partition}: {code.name}"
            for offset, value in records:
                self.oracle.record_read(partition, offset, value)
