"""Transactions as they live: any step in any state, of the producer that the coordinator expects or of another."""

from typing import Any

from compat_tests.differential.batches import TRANSACTIONAL
from compat_tests.differential.sides import Side
from compat_tests.differential.stories.records import WithRecords
from compat_tests.differential.symbols import Symbol

TIMEOUT_MS = 600_000
V2_PRODUCE = 12
V2_END = 5
NONE = 0


class Transactions(WithRecords):
    """One transactional id. Every EndTxn is waited for, on both sides: how long markers travel is nobody's promise."""

    STEPS = 16

    def tell(self) -> None:
        self.prepare()
        for name in sorted(self.world.topics):
            self.ask("Metadata", {"Topics": [{"Name": name}]}, 12)
        self.name = f"{self.prefix}-transactional"
        self.group = self.world.groups[0]
        self.sequence = 0
        answer = self.init()
        self.identity = (answer["ProducerId"], answer["ProducerEpoch"])
        steps = (
            *(self.begin, self.begin, self.end, self.end, self.end, self.send_offsets),
            *(self.verify, self.again, self.look_at_transactions, self.look),
        )
        for _ in range(self.STEPS):
            self.random.choice(steps)()
        self.ask("DescribeTransactions", {"TransactionalIds": [self.name]}, 0)
        self.look()

    # ---- who asks

    def said_epoch(self, epoch: int) -> int:
        return self.world.pick(epoch, max(epoch - 1, 0), epoch + 1, 0, 32_767, p=0.2)

    def producer(self, prefix: str = "") -> dict[str, Any]:
        """Returns the producer that the coordinator expects, most likely."""
        producer_id, epoch = self.identity
        said = self.world.pick(producer_id, 5_000_000_000, p=0.07)
        name = self.world.pick(self.name, f"{self.prefix}-nobody", p=0.04)
        fields = {"TransactionalId": name, "ProducerId": said, "ProducerEpoch": self.said_epoch(epoch)}
        return {f"{prefix}{field}": value for field, value in fields.items()}

    def learn_identity(self, answer: dict[str, Any]) -> None:
        """Learns it from an InitProducerId, or from an EndTxn by the newer rules."""
        if answer.get("ErrorCode") == NONE and isinstance(answer.get("ProducerId"), Symbol):
            self.identity = (answer["ProducerId"], answer["ProducerEpoch"])
            self.sequence = 0

    # ---- steps

    def init(self, producer_id: Any = -1, epoch: int = -1) -> dict[str, Any]:
        version = self.version("InitProducerId", 3 if producer_id != -1 else 0)
        asked = {"TransactionalId": self.name, "TransactionTimeoutMs": TIMEOUT_MS}
        answer = self.ask("InitProducerId", {**asked, "ProducerId": producer_id, "ProducerEpoch": epoch}, version)
        self.wait_until_ended()
        return answer

    def again(self) -> None:
        """Asks for an identity, as a new instance or as one that goes on after an error."""
        producer_id, epoch = self.identity
        expected = self.world.one((-1, -1), (producer_id, self.said_epoch(epoch)), (5_000_000_000, epoch))
        self.learn_identity(self.init(*expected))

    def topics(self) -> list[dict[str, Any]]:
        name = self.world.pick(f"{self.prefix}-a", f"{self.prefix}-b", f"{self.prefix}-nope", p=0.2)
        return [{"Name": name, "Partitions": self.world.one([0], [0, 1], [1])}]

    def begin(self) -> None:
        version = self.version("Produce", 3)
        if version < V2_PRODUCE and self.random.random() < 0.9:
            asked = {**self.producer("V3AndBelow"), "V3AndBelowTopics": self.topics()}
            self.ask("AddPartitionsToTxn", asked, self.version("AddPartitionsToTxn", 0, 3))
        if self.random.random() < 0.8:
            self.write(version)

    def write(self, version: int) -> None:
        producer_id, epoch = self.identity
        batch = self.world.batch(
            producer_id=producer_id,
            producer_epoch=self.said_epoch(epoch),
            base_sequence=self.world.pick(self.sequence, 0, self.sequence + 1, p=0.05),
            attributes=self.world.pick(TRANSACTIONAL, 0, p=0.05),
        )
        topic = f"{self.prefix}-a"
        where = {"Name": topic} if version < 13 else {"TopicId": self.world.topic_ids[topic]}
        data = [{**where, "PartitionData": [{"Index": 0, "Records": batch}]}]
        asked = {"TransactionalId": self.name, "Acks": -1, "TimeoutMs": 5_000, "TopicData": data}
        answer = self.ask("Produce", asked, version)
        if answer["Responses"][0]["PartitionResponses"][0]["ErrorCode"] == NONE:
            self.sequence = batch.base_sequence + len(batch.records)

    def verify(self) -> None:
        transaction = {**self.producer(), "VerifyOnly": self.world.pick(True, False), "Topics": self.topics()}
        self.ask("AddPartitionsToTxn", {"Transactions": [transaction]}, self.version("AddPartitionsToTxn", 4))

    def send_offsets(self) -> None:
        version = self.version("TxnOffsetCommit")
        if version < V2_END and self.random.random() < 0.9:
            self.ask("AddOffsetsToTxn", {**self.producer(), "GroupId": self.group})
        partition = {"PartitionIndex": 0, "CommittedOffset": self.random.randrange(50), "CommittedMetadata": "note"}
        topics = [{"Name": f"{self.prefix}-a", "Partitions": [partition]}]
        outside = {"GenerationId": -1, "MemberId": "", "GroupInstanceId": None}
        self.ask("TxnOffsetCommit", {**self.producer(), **outside, "GroupId": self.group, "Topics": topics}, version)
        self.look_at_offsets()

    def end(self) -> None:
        answer = self.ask("EndTxn", {**self.producer(), "Committed": self.world.flag()})
        self.wait_until_ended()
        self.learn_identity(answer)
        self.look_at_offsets()

    # ---- what is seen

    def look_at_offsets(self) -> None:
        wanted = [{"Name": f"{self.prefix}-a", "PartitionIndexes": [0]}]
        group = {"GroupId": self.group, "MemberId": None, "MemberEpoch": -1, "Topics": wanted}
        self.ask(
            "OffsetFetch", {"Groups": [group], "RequireStable": self.world.flag()}, self.version("OffsetFetch", 8, 9)
        )

    def look_at_transactions(self) -> None:
        self.ask("DescribeTransactions", {"TransactionalIds": [self.name, f"{self.prefix}-nobody"]}, 0)
        pattern = f"{self.prefix}-.*"
        asked = {"StateFilters": self.world.pick([], ["Ongoing", "Empty"]), "TransactionalIdPattern": pattern}
        self.ask("ListTransactions", {**asked, "ProducerIdFilters": [], "DurationFilter": -1}, 2)

    def wait_until_ended(self) -> None:
        for side in self.sides:
            while self.state_at(side).startswith("Prepare"):
                pass

    def state_at(self, side: Side) -> str:
        (told,) = side.call("DescribeTransactions", {"TransactionalIds": [self.name]}, 0)["TransactionStates"]
        state: str = told["TransactionState"]
        return state
