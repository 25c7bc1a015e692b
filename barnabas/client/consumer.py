"""Consuming without a group: every leader has one long-polling fetch in flight, records come as they arrive.

Rules:
- A partition ends at its `end` offset (exclusive) if it has one; the consumer ends when all of them have.
- Control records are never shown. The position after a batch is the batch's own next offset, so gaps that compaction
  and markers leave do not hold a partition up.
- Who reads committed records is sent nothing beyond the last stable offset, and is told which transactions were
  aborted.
- A leader that moves or dies is looked up again. Records that retention removed below the position are skipped, and
  `on_skip` is called.
"""

import select
import time
from collections.abc import Callable, Iterator, Sequence

from barnabas.client.aborted import AbortedTransactions
from barnabas.client.admin import EARLIEST, Isolation, list_offsets
from barnabas.client.client import Client, backoffs
from barnabas.client.cluster import Partition, Topic, by_leader
from barnabas.client.errors import RETRIABLE, Unreachable, check
from barnabas.protocol.batch_header import crc_of, iter_batches
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.records import Record, iter_records
from barnabas.protocol.types import ZERO_UUID

FETCH_BYTES_MAX = 16 << 20
PARTITION_BYTES_MAX = 1 << 20
FETCH_WAIT_MS = 500
DECOMPRESSED_BYTES_MAX = 1 << 30
LAST_VERSION_WITH_NAMES = 12


class Consumed(NamedTuple):
    topic: str
    partition: int
    record: Record


class Position:
    """The place where one partition is being read."""

    __slots__ = ("end", "offset")

    def __init__(self, offset: int, end: int | None) -> None:
        self.offset = offset
        self.end = end

    @property
    def done(self) -> bool:
        return self.end is not None and self.offset >= self.end


class Consumer:
    def __init__(
        self,
        client: Client,
        topic: Topic,
        positions: dict[int, Position],
        *,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        on_skip: Callable[[int, int, int], None] = lambda partition, from_offset, to_offset: None,
    ) -> None:
        self.client = client
        self.topic = topic
        self.positions = positions
        self.isolation = isolation
        self.on_skip = on_skip
        self._in_flight: dict[int, int] = {}
        """The leader behind each file descriptor on which a fetch waits for its answer."""

    def batches(self) -> Iterator[Iterator[Consumed]]:
        """Yields the records of each answer. Read them before you ask for the next; ends when every partition has
        ended."""
        moved = False
        backoff, since = backoffs(), time.monotonic()
        while not all(position.done for position in self.positions.values()):
            try:
                if moved:
                    self._look_again()
                self._send_fetches()
                for response in self._receive():
                    yield self._records_of(response)
                    self._look_for_errors(response)
                moved, backoff, since = False, backoffs(), time.monotonic()
            except (KafkaError, Unreachable) as error:
                retriable = isinstance(error, Unreachable) or error.code in RETRIABLE
                if not retriable or time.monotonic() - since > self.client.timeout_s:
                    raise
                moved = True
                time.sleep(next(backoff))

    def _look_again(self) -> None:
        self.abandon_fetches()
        self.topic = self.client.topic(self.topic.name)

    def abandon_fetches(self) -> None:
        """Closes the connections that wait for one: nothing else can be asked there."""
        for leader_id in set(self._in_flight.values()):
            self.client.forget(leader_id)
        self._in_flight.clear()

    def _send_fetches(self) -> None:
        busy = set(self._in_flight.values())
        unfinished = [
            partition
            for partition in self.topic.partitions
            if partition.partition_index in self.positions and not self.positions[partition.partition_index].done
        ]
        for leader_id, partitions in by_leader(unfinished).items():
            if leader_id not in busy:
                self._send_fetch(leader_id, partitions)

    def _send_fetch(self, leader_id: int, partitions: Sequence[Partition]) -> None:
        connection = self.client.node(leader_id)
        self._in_flight[connection.fileno()] = leader_id
        wanted = [
            FetchPartition(
                partition=partition.partition_index,
                fetch_offset=self.positions[partition.partition_index].offset,
                partition_max_bytes=PARTITION_BYTES_MAX,
            )
            for partition in partitions
        ]
        topic = FetchTopic(topic=self.topic.name, topic_id=self.topic.topic_id, partitions=wanted)
        request = FetchRequest(
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            isolation_level=self.isolation,
            topics=[topic],
        )
        knows_id = self.topic.topic_id != ZERO_UUID
        version = connection.version_of(FetchRequest, None if knows_id else LAST_VERSION_WITH_NAMES)
        connection.send(request, FetchResponse, version)

    def _receive(self) -> Iterator[FetchResponse]:
        """Returns the answers that are there. Waits for the first."""
        ready, _, _ = select.select(list(self._in_flight), [], [], self.client.timeout_s + FETCH_WAIT_MS / 1000)
        if not ready:
            raise Unreachable("no broker answered a fetch in time")
        for descriptor in ready:
            leader_id = self._in_flight.get(descriptor)
            if leader_id is None:
                continue  # what the answer before this one told has closed it
            response = self.client.node(leader_id).receive(FetchResponse)
            del self._in_flight[descriptor]
            check(response.error_code, None, "the fetch was refused")
            yield response

    def _records_of(self, response: FetchResponse) -> Iterator[Consumed]:
        for topic in response.responses:
            for partition in topic.partitions:
                if partition.error_code == ErrorCode.NONE:
                    yield from self._records_of_partition(partition)

    def _look_for_errors(self, response: FetchResponse) -> None:
        """Skips what is gone. Raises the first error of any other kind: a leader that has moved is looked up again."""
        partitions = [partition for topic in response.responses for partition in topic.partitions]
        for partition in partitions:
            if partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self._skip_what_is_gone(partition.partition_index)
        for partition in partitions:
            if partition.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
                check(partition.error_code, None, f"partition {partition.partition_index} of topic {self.topic.name}")

    def _records_of_partition(self, partition: PartitionData) -> Iterator[Consumed]:
        records = partition.records
        if not records:
            return
        assert isinstance(records, memoryview), "decoded records are views"
        position = self.positions[partition.partition_index]
        aborted = AbortedTransactions(
            (transaction.first_offset, transaction.producer_id) for transaction in partition.aborted_transactions or ()
        )
        for start, header in iter_batches(records):
            batch = records[start : start + header.size_bytes]
            if crc_of(batch) != header.crc:
                raise KafkaError(
                    f"the batch at offset {header.base_offset} of {self.topic.name}-{partition.partition_index} "
                    "does not match its CRC",
                    ErrorCode.CORRUPT_MESSAGE,
                )
            for record in (
                () if aborted.hides(header) else iter_records(batch, max_decompressed_bytes=DECOMPRESSED_BYTES_MAX)
            ):
                if position.offset <= record.offset and (position.end is None or record.offset < position.end):
                    position.offset = record.offset + 1
                    yield Consumed(self.topic.name, partition.partition_index, record)
            position.offset = max(position.offset, header.next_offset)

    def _skip_what_is_gone(self, index: int) -> None:
        position = self.positions[index]
        self.abandon_fetches()
        earliest = list_offsets(self.client, self.topic, EARLIEST, [index])[index]
        if earliest <= position.offset:
            raise KafkaError(
                f"offset {position.offset} is beyond the end of partition {index} of topic {self.topic.name}",
                ErrorCode.OFFSET_OUT_OF_RANGE,
            )
        self.on_skip(index, position.offset, earliest)
        position.offset = earliest
