"""Clients as processes of their own, and the contract between the tests and the clients' drivers.

A driver is a program that reads one JSON request per line and answers each with one line:

    {"op": "produce", "bootstrap", "topic", "records": [record], "compression", "acks": "0" | "1" | "all",
     "idempotence", "timeout_ms"} -> {"offsets": [offset, or anything where the client does not tell or acks=0]}:
     after timeout_ms the client itself gives up, whatever it is waiting for, and says why
    {"op": "consume", "bootstrap", "topic", "partitions": [number], "count", "timeout_ms", "reset",
     "isolation": "read_committed" | "read_uncommitted",
     "start": {} | {"offset"} | {"timestamp"} | {"end": true}}
        -> {"records": [record with partition, offset, timestamp]}: `count` of them, fewer if time runs out.
     `start` is the beginning if it is empty. `reset` is auto.offset.reset, "earliest", "latest" or "none", or null
     for what the client does by itself; "none" makes an offset out of range an error
    {"op": "consume_paused", "bootstrap", "topic", "partitions": [number], "pause": [number], "count", "after",
     "timeout_ms"} -> {"records": [record], "after": [record]}: one consumer, assigned to all partitions from the
     beginning, reads `count` records while those in `pause` are paused, then resumes them and reads `after` more
    {"op": "offsets", "bootstrap", "topic", "partitions": [number], "timestamps": [ms]}
        -> {"beginning", "end", "at": [offset or null]}, all of the first partition
    {"op": "list_offsets", "bootstrap", "topic", "partitions": [number], "timestamp": -2 (earliest) | -1 (latest) | ms}
        -> {"offsets": [offset or null]}: of all partitions, in their order, in one question

    {"op": "hold", "bootstrap", "name", "topic", "settings": {Kafka's name: value}} -> {}: opens a producer (acks=all,
     idempotent where the client can) and a consumer assigned to partition 0 from its beginning; both live until "drop"
    {"op": "held_send", "name", "records": [record], "timeout_ms"} -> {"offsets"}: through that producer, waiting for
     the acknowledgements and retrying as the client itself does
    {"op": "held_read", "name", "count", "timeout_ms"} -> {"records"}: the next ones from that consumer
    {"op": "drop", "name"} -> {}

    {"op": "open_transactional", "bootstrap", "name", "transactional_id", "settings": {Kafka's name: value}} -> {}:
     opens a producer that lives until "drop_transactional"; unless the client puts that off, it asks for its identity
    {"op": "begin_transaction" | "commit_transaction" | "abort_transaction", "name"} -> {}
    {"op": "transactional_send", "name", "topic", "records", "timeout_ms"} -> {"offsets"}: waits for acknowledgements
    {"op": "send_offsets", "name", "group", "offsets": [{"topic", "partition", "offset", "metadata", "leader_epoch"}],
     "member": {"member_id", "generation"} | null} -> {}: in the transaction, of a member or of nobody
    {"op": "copy", "bootstrap", "transactional_id", "settings", "source", "target", "group", "count",
     "per_transaction", "abort_every"} -> {"copied", "transactions"}: reads one topic as a member of the group, writes
     the same records to the other, and sends the offsets with them, until `count` records are committed. Every
     transaction with a number that `abort_every` divides is aborted and then made again

    {"op": "describe_cluster", "bootstrap"}
        -> {"cluster_id" (null where the client does not tell), "brokers": [[id, host, port]], "controller": id or null}
    create_topic, list_topics, describe_topic, topic_configs, alter_topic_configs, create_partitions, delete_records,
    delete_topic: see any driver

    {"op": "join", "bootstrap", "member": name, "group", "settings": {Kafka's name: value}, "commits": bool,
     "topics": [name] | null, "pattern": regex | null, "broker_matches": bool, "assign": [[topic, partition]] | null}
        -> {}: a consumer that is polled in the background from now on; one driver may hold several
    {"op": "member_states", "members": [name]} -> {"states": {name: {"assignment": [[topic, partition]],
     "records": [[topic, partition, offset]], "member_id", "generation" (null where unknown), "revocations", "error"}}}
    {"op": "leave", "members": [name]} -> {"states"}: the last ones, of members that have left
    commit, committed, seek_to_committed: see members.py
    list_groups, describe_group, group_offsets, alter_group_offsets, delete_group_offsets, delete_group: see any driver

    anything that fails -> {"error": class or name, "message"}; what a client does not have -> {"error": "unsupported"}

A record is {"partition", "key", "value", "headers": [[name, value]], "timestamp"}; keys and values are base64 or null.
A new client is one file in drivers/ and one row of clients.py. Nothing here imports the broker: it is started through
its command line, and BROKER=kafka puts Apache Kafka in its place, so that a wrong test cannot pass for compatibility.
"""

import base64
import copy
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from compat_tests.brokers import close_pipes, end
from compat_tests.harness.clients import Client

ANSWER_SECONDS = 90


class Record(NamedTuple):
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None
    partition: int = 0
    offset: int | None = None


class DriverError(Exception):
    """What the client itself reported."""


class Driver:
    """One client as a process, started when it is first asked something."""

    def __init__(self, client: Client, bootstrap: str, log: Path) -> None:
        self.client = client
        self.bootstrap = bootstrap
        self.log = log
        self.process: subprocess.Popen[str] | None = None
        self.turn = threading.Lock()  # tests may ask from several threads

    def at(self, bootstrap: str) -> "Driver":
        """The same process, asked about another broker."""
        self.process = self.process or self._start()
        other = copy.copy(self)
        other.bootstrap = bootstrap
        return other

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        with self.turn:
            return self._ask(op, **fields)

    def _ask(self, op: str, **fields: Any) -> dict[str, Any]:
        process = self.process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        # A driver that hangs is ended, which ends the readline below.
        alarm = threading.Timer(ANSWER_SECONDS, process.kill)
        alarm.start()
        try:
            process.stdin.write(json.dumps({"op": op, "bootstrap": self.bootstrap, **fields}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        finally:
            alarm.cancel()
        if not line:
            ended = f"{self.client.name} ended with {process.wait()} instead of an answer to {op}"
            raise AssertionError(f"{ended}:\n{self.log.read_text()[-4000:]}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise DriverError(f"{self.client.name} {op}: {answer['error']}: {answer['message']}")
        return answer

    def produce(
        self,
        topic: str,
        records: Iterable[Record],
        *,
        compression: str = "none",
        acks: str = "all",
        idempotence: bool = False,
        timeout_ms: int = 30_000,
    ) -> list[int | None]:
        given = [encoded(record) for record in records]
        options = {"compression": compression, "acks": acks, "idempotence": idempotence, "timeout_ms": timeout_ms}
        offsets: list[int | None] = self.ask("produce", topic=topic, records=given, **options)["offsets"]
        return offsets

    def consume(
        self,
        topic: str,
        count: int,
        *,
        partitions: Iterable[int] = (0,),
        start: dict[str, int] | None = None,
        reset: str | None = None,
        isolation: str = "read_uncommitted",
        timeout_ms: int = 30_000,
    ) -> list[Record]:
        """Exactly `count` records, in the order of partitions and offsets."""
        where = {"topic": topic, "partitions": list(partitions), "start": start or {}, "reset": reset}
        answer = self.ask("consume", count=count, timeout_ms=timeout_ms, isolation=isolation, **where)
        records = sorted((decoded(record) for record in answer["records"]), key=lambda r: (r.partition, r.offset))
        assert len(records) == count, f"{self.client.name} read {len(records)} of {count} records"
        return records

    def offsets(self, topic: str, *, partition: int = 0, timestamps: Iterable[int] = ()) -> dict[str, Any]:
        return self.ask("offsets", topic=topic, partitions=[partition], timestamps=list(timestamps))

    def stop(self) -> None:
        if self.process is not None:
            end(self.process)
            close_pipes(self.process)

    def kill(self) -> None:
        """The client and all its members at once, without a word to the broker."""
        assert self.process is not None
        self.process.kill()
        self.stop()

    def _start(self) -> subprocess.Popen[str]:
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self.client.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **dict(self.client.environment)},
            )
        return self.process


def encoded(record: Record) -> dict[str, Any]:
    return {
        "partition": record.partition,
        "timestamp": record.timestamp,
        "key": to_text(record.key),
        "value": to_text(record.value),
        "headers": [[name, to_text(value)] for name, value in record.headers],
    }


def decoded(record: dict[str, Any]) -> Record:
    return Record(
        key=to_bytes(record["key"]),
        value=to_bytes(record["value"]),
        headers=tuple((name, to_bytes(value)) for name, value in record["headers"]),
        timestamp=record["timestamp"],
        partition=record["partition"],
        offset=record["offset"],
    )


def to_text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def to_bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def missing(needs: Iterable[str | Path]) -> str | None:
    """One line saying what is not there, or None."""
    lacking = [str(need) for need in needs if not (need.exists() if isinstance(need, Path) else shutil.which(need))]
    return f"needs {', '.join(lacking)}: `make setup` fetches it or says what to install" if lacking else None
