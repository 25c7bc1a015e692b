"""Histories of a cluster that makes no mistake, out of a random number generator."""

from random import Random

from barnabas.verification import events
from barnabas.verification.events import Event

PARTITIONS = 2
PRODUCERS = 2


class Simulated:
    """A log, its producers, a reader, and a group with two members of which one at a time has each partition."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.logs: list[list[tuple[int, int]]] = [[] for _ in range(PARTITIONS)]
        self.next_sequences = [0] * PRODUCERS
        self.unanswered: list[Event] = []
        self.reader = [0] * PARTITIONS
        self.owners = ["member-1"] * PARTITIONS
        self.group = [0] * PARTITIONS
        self.committed: list[int | None] = [None] * PARTITIONS
        self.history: list[Event] = [
            events.Begin(0, "00" * 8, "orders", [0] * PARTITIONS, "all", True, False),
            events.Consumer(0, "reader-1", events.READER, None),
            *(events.Consumer(0, f"member-{number}", events.MEMBER, "kitchen") for number in (1, 2)),
        ]

    def run(self, steps: int) -> list[Event]:
        for _ in range(steps):
            self.random.choice((self._send, self._answer, self._read, self._read_as_member, self._rebalance))()
        self.random.shuffle(self.unanswered)
        self.history += self.unanswered
        self._read_back()
        return self.history

    def _send(self) -> None:
        producer, partition = self.random.randrange(PRODUCERS), self.random.randrange(PARTITIONS)
        sequence = self.next_sequences[producer]
        self.next_sequences[producer] += 1
        self.history.append(events.Sent(1, producer, sequence, partition))
        offset = len(self.logs[partition])
        answers: list[tuple[Event, bool]] = [
            (events.Acknowledged(2, producer, sequence, offset), True),
            (events.Acknowledged(2, producer, sequence, None), True),
            (events.Failed(2, producer, sequence, "_MSG_TIMED_OUT", False), True),
            (events.Failed(2, producer, sequence, "_MSG_TIMED_OUT", False), False),
            (events.Failed(2, producer, sequence, "MSG_SIZE_TOO_LARGE", True), False),
        ]
        (answer, is_stored), *_ = self.random.choices(answers, (20, 1, 1, 1, 1))
        if is_stored:
            self.logs[partition].append((producer, sequence))
        self.unanswered.append(answer)

    def _answer(self) -> None:
        if self.unanswered:
            self.history.append(self.unanswered.pop(self.random.randrange(len(self.unanswered))))

    def _poll(self, name: str, partition: int, position: int) -> int:
        """Reads some of what is there. Returns the next position."""
        end = min(len(self.logs[partition]), position + self.random.randrange(1, 5))
        records = [(offset, *self.logs[partition][offset]) for offset in range(position, end)]
        if records:
            self.history.append(events.Polled(3, name, partition, records))
        return max(position, end)

    def _read(self) -> None:
        partition = self.random.randrange(PARTITIONS)
        self.reader[partition] = self._poll("reader-1", partition, self.reader[partition])

    def _read_as_member(self) -> None:
        partition = self.random.randrange(PARTITIONS)
        owner = self.owners[partition]
        self.group[partition] = self._poll(owner, partition, self.group[partition])
        if self.random.random() < 0.5:
            stored = self.random.choice((True, True, True, False))
            self.history.append(events.Commit(3, owner, partition, self.group[partition]))
            self.history.append(events.Committed(3, owner, partition, stored))
            self.committed[partition] = self.group[partition] if stored else self.committed[partition]

    def _rebalance(self) -> None:
        partition = self.random.randrange(PARTITIONS)
        self.owners[partition] = owner = self.random.choice(("member-1", "member-2"))
        committed = self.committed[partition]
        self.group[partition] = committed or 0
        self.history.append(events.Asked(3, owner, partition))
        self.history.append(events.Told(3, owner, partition, committed))
        self.history.append(events.Assigned(3, owner, partition, self.group[partition]))

    def _read_back(self) -> None:
        self.history.append(events.Consumer(4, "read-back-1", events.READ_BACK, None))
        for partition, log in enumerate(self.logs):
            self.history.append(events.Assigned(4, "read-back-1", partition, 0))
            records = [(offset, *record) for offset, record in enumerate(log)]
            self.history.append(events.Polled(4, "read-back-1", partition, records))
            self.history.append(events.Bounds(5, partition, 0, len(log)))
            self.history.append(events.Ended(5, "read-back-1", partition, len(log)))
