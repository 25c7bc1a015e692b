"""A consumer that reads one partition from its start with read_committed, by the rules of Java's: it leaves out the
batches of a producer from where the broker says that it aborted up to the marker that says so, too."""

from collections.abc import Iterator
from typing import NamedTuple

from barnabas.protocol.batch_header import iter_batches
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from barnabas.protocol.records import iter_records
from barnabas.protocol.types import TopicPartition
from tests.simulation.clients.client import REQUEST_TIMEOUT_MS, Place
from tests.simulation.clients.script import Script
from tests.simulation.cluster.clients import TRY_AGAIN
from tests.simulation.cluster.routing import ClusterClient, LeaderLink
from tests.simulation.cluster.transactions.oracle import TransactionOracle

READ_COMMITTED = 1
MAX_WAIT_MS = 500
_ABORT = b"\x00\x00\x00\x00"


class Passed(NamedTuple):
    """What an answer gives to the application, and the offset after it."""

    records: list[tuple[int, bytes]]
    next_offset: int


class CommittedReader(ClusterClient):
    oracle: TransactionOracle

    def __init__(self, place: Place, name: str, partition: TopicPartition) -> None:
        super().__init__(place, name)
        self.partition = partition

    def script(self) -> Script[None]:
        link = LeaderLink(self, self.partition)
        position = 0
        while not self.is_stopping:
            try:
                position = yield from self._read(link, position)
            except KafkaError:
                yield self.back_off()

    def _read(self, link: LeaderLink, position: int) -> Script[int]:
        data = FetchPartition(
            partition=self.partition.partition,
            fetch_offset=position,
            partition_max_bytes=self.random.choice((200, 600, 1 << 20)),
        )
        request = FetchRequest(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            isolation_level=READ_COMMITTED,
            topics=[FetchTopic(topic=self.partition.topic, partitions=[data])],
        )
        response = yield link.send(request, FetchResponse, timeout_ms=MAX_WAIT_MS + REQUEST_TIMEOUT_MS)
        for topic in response.responses:
            for answer in topic.partitions:
                code = ErrorCode(answer.error_code)
                if code is ErrorCode.OFFSET_OUT_OF_RANGE and self.oracle.is_void:
                    return 0
                if code in TRY_AGAIN:
                    yield self.back_off()
                    return position
                assert not code, f"TI2: {self.name} at {position}: {code.name}"
                self.oracle.stable_told(self.partition, data.current_leader_epoch, answer.last_stable_offset)
                passed = pass_on(answer, position)
                assert passed.next_offset <= max(answer.last_stable_offset, position), (
                    f"TI6: {self.name} was given up to {passed.next_offset}, {answer.last_stable_offset} is stable"
                )
                self.oracle.read(self.partition, position, passed.next_offset, passed.records)
                position = passed.next_offset
        return position


def pass_on(answer: PartitionData, position: int) -> Passed:
    """Leaves out what was aborted. Batches may begin before the position, which was read already."""
    view = answer.records or b""
    assert isinstance(view, memoryview | bytes)
    begun = sorted((each.first_offset, each.producer_id) for each in answer.aborted_transactions or ())
    aborted: set[int] = set()
    records: list[tuple[int, bytes]] = []
    next_offset = position
    for at, header in iter_batches(view):
        next_offset = max(next_offset, header.next_offset)
        found = _records(view[at : at + header.size_bytes])
        while begun and begun[0][0] <= header.last_offset:
            aborted.add(begun.pop(0)[1])
        if header.is_control:
            if any(key == _ABORT for _, key, _ in found):
                aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            records += [(offset, value) for offset, _, value in found if offset >= position]
    return Passed(records, next_offset)


def _records(batch: memoryview | bytes) -> Iterator[tuple[int, bytes, bytes]]:
    return (
        (each.offset, bytes(each.key or b""), bytes(each.value or b""))
        for each in iter_records(batch, max_decompressed_bytes=1 << 20)
    )
