"""All clients of a run that work in transactions, and what must come of them when everything is mended."""

from collections.abc import Callable, Mapping

from barnabas.protocol.types import TopicPartition
from tests.simulation.clients.client import Place
from tests.simulation.cluster.replicas.claims import DataOracle
from tests.simulation.cluster.settings import Settings
from tests.simulation.cluster.transactions.copier import Copier
from tests.simulation.cluster.transactions.oracle import TransactionOracle
from tests.simulation.cluster.transactions.producer import TransactionalProducer
from tests.simulation.cluster.transactions.reader import CommittedReader
from tests.simulation.cluster.transactions.rules import V1, V2, Rules

TRANSACTIONAL = "transactional"
PARTITIONS = 3
SOURCE = TopicPartition("flushed", 0)
ENDED_WITHIN_MS = 20_000
"""After that, and after the time of the transactions, all of them have an end."""

Within = Callable[[float, Callable[[], bool], str], None]


class Transactions:
    def __init__(self, settings: Settings, given: set[int]) -> None:
        self.settings = settings
        self.partitions = [TopicPartition(TRANSACTIONAL, index) for index in range(PARTITIONS)]
        self.oracle = TransactionOracle(self.partitions, given)
        self.oracle.is_calm = not settings.faults or not settings.kinds
        self.producers: list[TransactionalProducer] = []
        self.readers: list[CommittedReader] = []

    def join(self, place: Place, oracles: Mapping[TopicPartition, DataOracle]) -> None:
        """Takes the place of those who live in the cluster, and the oracles of all partitions."""
        place = place._replace(oracle=self.oracle)
        timeout_ms = self.settings.transaction_timeout_ms
        for number in range(self.settings.transactional):
            self.producers.append(
                TransactionalProducer(place, f"t{number}", rules=self._rules(number), timeout_ms=timeout_ms)
            )
        for number in range(self.settings.copiers):
            rules = self._rules(self.settings.transactional + number)
            copier = Copier(place, f"c{number}", rules=rules, timeout_ms=timeout_ms)
            copier.copies(SOURCE, self.partitions[-1], oracles[SOURCE])
            self.producers.append(copier)
        for client in self.producers:
            client.transactions_of_an_id = self.settings.transactions_of_an_id
        self.readers = [CommittedReader(place, f"reader-of-{partition}", partition) for partition in self.partitions]

    def _rules(self, number: int) -> Rules:
        return V1 if number < self.settings.old_rules else V2

    def start(self) -> None:
        for client in (*self.producers, *self.readers):
            client.start()

    def stop(self) -> None:
        for client in self.producers:
            client.stop()

    def _may_wait_for_ever(self, client: TransactionalProducer) -> bool:
        """Returns whether nobody may know any more of a transaction that is open in the offsets of its group: the only
        replica of the coordinator's log was on a disk that was wiped. An operator would have to abort it."""
        return self.oracle.is_void and isinstance(client, Copier)

    def end(self, place: Place, within: Within) -> None:
        """Everything is mended: every transaction ends, every id can begin another, and all of it is read."""
        within(
            self.settings.transaction_timeout_ms + ENDED_WITHIN_MS,
            lambda: all(client.has_ended or self._may_wait_for_ever(client) for client in self.producers),
            "TI8: every transaction can be ended",
        )
        for client in self.producers:
            if not client.has_ended:
                client.kill()
        place = place._replace(oracle=self.oracle)
        rules = V1 if self.settings.old_rules >= len(self.producers) else V2
        probes = [
            TransactionalProducer(
                place, f"{client.name}-probe", rules=rules, timeout_ms=self.settings.transaction_timeout_ms
            )
            for client in self.producers
        ]
        for probe, client in zip(probes, self.producers):
            probe.transactional_id = client.transactional_id
            probe.transactions_max = 2
            probe.start()
        within(ENDED_WITHIN_MS, lambda: all(probe.has_ended for probe in probes), "TI8: every id begins another one")
        within(
            ENDED_WITHIN_MS, self.oracle.is_read_to_the_end, "TI5: all that was committed is read, and nothing is open"
        )
        self.oracle.everything_has_ended()
        for reader in self.readers:
            reader.stop()
        within(ENDED_WITHIN_MS, lambda: all(reader.has_ended for reader in self.readers), "I23: readers have left")
