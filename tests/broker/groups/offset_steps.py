"""The steps of scripts that are about committed offsets, also in transactions:

    commit WHO PLACE OFFSET        a member commits; WHO is its name, NAME@EPOCH for what it knew then, or nobody
    offset PRODUCER WHO PLACE OFFSET   ... in the transaction of a producer
    refuse                         the coordinator of the next transaction that begins here does not know of it
    marker PRODUCER commit|abort   the transaction ends; a producer is a letter, with @EPOCH if that is not 0
    delete PLACE, delete group     OffsetDelete, DeleteGroups
    delete topic NAME              a topic is deleted
    expire                         what has been kept for long enough is removed

PLACE is a topic and a partition, orders-0. The state says what OffsetFetch returns of each place that was named, and
whether a client that asks for stable offsets is told to wait.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from barnabas.base.promise import Promise, resolved
from barnabas.broker.coordinator.decision import TransactionalProducer
from barnabas.protocol.errors import ErrorCode, InvalidTxnState, KafkaError
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.protocol.types import TopicPartition
from barnabas.storage.transactions.marker import TransactionMarker
from tests.broker.groups.consumer.client import CLIENT, GROUP, without_topic
from tests.broker.groups.harness import GroupHarness


class Who(NamedTuple):
    member_id: str
    epoch: int
    instance_id: str | None = None


NOBODY = Who("", -1)


class OffsetSteps:
    def __init__(self, harness: GroupHarness, who: Callable[[str], Who]) -> None:
        self._harness = harness
        self._who = who
        self._places: dict[TopicPartition, None] = {}
        self._refusal: KafkaError | None = None
        self.error = ""
        """What the last step was told."""
        self.steps: dict[str, Callable[..., None]] = {
            "commit": self._commit,
            "offset": self._commit_in_transaction,
            "refuse": self._refuse,
            "marker": self._end,
            "delete": self._delete,
            "expire": self._expire,
        }

    def state(self) -> list[str]:
        lines = [f"  refused: {self.error}"] if self.error else []
        return [*lines, *(f"  {place}: {self._fetched(place)}" for place in self._places)]

    # ---- steps

    def _commit(self, who: str, place: str, offset: str) -> None:
        member, (topic, index) = self._who(who), self._place(place)
        partition = OffsetCommitRequestPartition(
            partition_index=index, committed_offset=int(offset), committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id=GROUP,
            member_id=member.member_id,
            generation_id_or_member_epoch=member.epoch,
            group_instance_id=member.instance_id,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
        )
        client = CLIENT._replace(api_version=9)
        self._note(self._harness.ask(lambda shard: shard.offsets.commit(request, client)))

    def _commit_in_transaction(self, producer: str, who: str, place: str, offset: str) -> None:
        member, (topic, index) = self._who(who), self._place(place)
        (producer_id, epoch), transactional_id = _producer(producer), producer[0]
        partition = TxnOffsetCommitRequestPartition(
            partition_index=index, committed_offset=int(offset), committed_metadata=None
        )
        request = TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=GROUP,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id=member.epoch,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])],
        )
        by = TransactionalProducer(producer_id, epoch, is_v2=False)
        runtime = self._harness.runtime
        self._note(
            runtime.run_in_transaction(by, self._verify, lambda shard: shard.offsets.commit_in_transaction(request, 5))
        )

    def _verify(self, _partition: TopicPartition) -> Promise[KafkaError | None]:
        refusal, self._refusal = self._refusal, None
        return resolved(refusal)

    def _refuse(self) -> None:
        self._refusal = InvalidTxnState("nobody has added the partition to the transaction")

    def _end(self, producer: str, how: str) -> None:
        producer_id, epoch = _producer(producer)
        marker = TransactionMarker(producer_id, epoch, 0, how == "commit", transaction_version=1)
        self._note(self._harness.runtime.end_transaction(marker))

    def _delete(self, what: str, name: str = "") -> None:
        if what == "group":
            return self._note(self._harness.ask(lambda shard: shard.delete(GROUP)))
        if what == "topic":
            self._harness.image = without_topic(self._harness.image, name)
            return self._note(self._harness.ask(lambda shard: shard.on_topics_deleted([name])))
        topic, index = self._place(what)
        partitions = [OffsetDeleteRequestPartition(partition_index=index)]
        topics = [OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
        self._note(
            self._harness.ask(lambda shard: shard.offsets.delete(OffsetDeleteRequest(group_id=GROUP, topics=topics)))
        )

    def _expire(self) -> None:
        self._note(self._harness.ask(lambda shard: shard.expire()))

    # ---- answers

    def _place(self, text: str) -> TopicPartition:
        topic, _, index = text.rpartition("-")
        place = TopicPartition(topic, int(index))
        self._places[place] = None
        return place

    def _note(self, answer: Promise[Any]) -> None:
        if not answer.done:
            self.error = "no answer so far"
        elif answer.error is not None:
            assert isinstance(answer.error, KafkaError), repr(answer.error)
            self.error = answer.error.code.name
        elif code := _first_code(answer.value):
            self.error = ErrorCode(code).name

    def _fetched(self, place: TopicPartition) -> str:
        committed, code = self._fetch(place, require_stable=False)
        assert code == ErrorCode.NONE, code
        _, stable = self._fetch(place, require_stable=True)
        assert stable in (ErrorCode.NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        return ("nothing" if committed < 0 else str(committed)) + (", unstable" if stable else "")

    def _fetch(self, place: TopicPartition, *, require_stable: bool) -> tuple[int, int]:
        topics = [OffsetFetchRequestTopics(name=place.topic, partition_indexes=[place.partition])]
        asked = OffsetFetchRequestGroup(group_id=GROUP, topics=topics)
        shard = self._harness.machine  # not as a decision: that would wait for what is not committed
        (partition,) = shard.offsets.fetch(asked, require_stable=require_stable).topics[0].partitions
        return partition.committed_offset, partition.error_code


def _producer(text: str) -> tuple[int, int]:
    """Returns the id and epoch of a producer, which is a letter."""
    letter, _, epoch = text.partition("@")
    return ord(letter), int(epoch or 0)


def _first_code(response: Any) -> int:
    """Returns the error of a response about one thing, at whatever level it is."""
    if getattr(response, "error_code", 0):
        return int(response.error_code)
    partitions = [partition for topic in getattr(response, "topics", ()) for partition in topic.partitions]
    return partitions[0].error_code if partitions else 0
