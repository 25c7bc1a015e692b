"""Transactions in tests: producers of any client, by the rules of either version of the protocol."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from compat_tests.harness.clients import taking_part
from compat_tests.harness.driver import Driver, Record, encoded
from compat_tests.harness.features import Feature

SEND_MS = 30_000
READ_COMMITTED = "read_committed"


class Speaker(NamedTuple):
    """A client, and the version of transactions that it speaks."""

    client: str
    version: int

    def __str__(self) -> str:
        return f"{self.client} version {self.version}"


def speakers(feature: Feature) -> list[Speaker]:
    """Returns every client with each version that it speaks."""
    return [
        Speaker(client.name, version)
        for client in taking_part(feature)
        for version in range(1, client.transactions_version + 1)
    ]


class Transactional:
    """A producer that lives in its driver."""

    def __init__(self, driver: Driver, name: str, transactional_id: str, **settings: Any) -> None:
        self.driver = driver
        self.name = name
        driver.ask(
            "open_transactional",
            name=name,
            transactional_id=transactional_id,
            settings={key.replace("_", "."): value for key, value in settings.items()},
        )

    def begin(self) -> None:
        self.driver.ask("begin_transaction", name=self.name)

    def send(self, topic: str, records: Iterable[Record], timeout_ms: int = SEND_MS) -> list[int | None]:
        given = [encoded(record) for record in records]
        answer = self.driver.ask(
            "transactional_send", name=self.name, topic=topic, records=given, timeout_ms=timeout_ms
        )
        offsets: list[int | None] = answer["offsets"]
        return offsets

    def send_offsets(
        self, group: str, offsets: dict[tuple[str, int], int], member: dict[str, Any] | None = None
    ) -> None:
        given = [
            {"topic": topic, "partition": partition, "offset": offset, "metadata": "", "leader_epoch": -1}
            for (topic, partition), offset in offsets.items()
        ]
        self.driver.ask("send_offsets", name=self.name, group=group, offsets=given, member=member)

    def commit(self) -> None:
        self.driver.ask("commit_transaction", name=self.name)

    def abort(self) -> None:
        self.driver.ask("abort_transaction", name=self.name)

    def committed(self, topic: str, *records: Record) -> None:
        """Writes these in a transaction of their own."""
        self.begin()
        self.send(topic, records)
        self.commit()

    def aborted(self, topic: str, *records: Record) -> None:
        self.begin()
        self.send(topic, records)
        self.abort()

    def drop(self) -> None:
        self.driver.ask("drop_transactional", name=self.name)


def stable_end(java: Driver, topic: str, partition: int = 0) -> int:
    """Returns where those who read what is committed find the end of a partition."""
    answer = java.ask("list_offsets", topic=topic, partitions=[partition], timestamp=-1, isolation=READ_COMMITTED)
    end: int = answer["offsets"][0]
    return end
