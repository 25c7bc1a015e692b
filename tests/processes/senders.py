"""Clients that send numbers to every partition of a topic all the time, idempotent and with acks=all, and note when
each was acknowledged."""

import asyncio
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any

from confluent_kafka import Producer

from barnabas.base.network import Address
from tests.kafka_jars import java_command
from tests.processes.test_cluster_kills import PATIENCE_S

TOPIC = "orders"
PARTITIONS = 3
PAUSE_S = 0.02


class Sender(ABC, threading.Thread):
    """A client that sends numbers to every partition, each a moment after the one before, until it is stopped."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        super().__init__()
        self.servers = [str(address) for address in addresses]
        self.is_stopped = False
        self.errors: list[BaseException | str] = []
        self.acknowledged: dict[int, list[tuple[float, int, bytes]]] = {index: [] for index in range(PARTITIONS)}
        """When each record was acknowledged, its offset, and its value, by partition."""

    def run(self) -> None:
        try:
            self.send_all()
        except BaseException as error:
            self.errors.append(error)

    @abstractmethod
    def send_all(self) -> None: ...

    def stop(self) -> None:
        self.is_stopped = True

    def value(self, number: int) -> bytes:
        return f"{type(self).__name__} {number}".encode()

    def note(self, partition: int, offset: int, value: bytes) -> None:
        self.acknowledged[partition].append((time.monotonic(), offset, value))

    def longest_gap_since(self, begin: float) -> float:
        """Returns the longest silence of any partition, from this time on."""
        gaps = [0.0]
        for acknowledged in self.acknowledged.values():
            times = [begin, *(at for at, _, _ in acknowledged if at > begin)]
            gaps += [later - earlier for earlier, later in pairwise(times)]
        return max(gaps)


class Librdkafka(Sender):
    def send_all(self) -> None:
        producer = Producer(
            {"bootstrap.servers": ",".join(self.servers), "enable.idempotence": True, "linger.ms": 0, "log_level": 0}
        )

        def delivered(error: object, message: Any) -> None:
            if error is not None:
                self.errors.append(str(error))
            else:
                self.note(message.partition(), message.offset(), message.value())

        number = 0
        while not self.is_stopped:
            for partition in range(PARTITIONS):
                producer.produce(TOPIC, self.value(number), partition=partition, on_delivery=delivered)
            number += 1
            producer.poll(PAUSE_S)
        assert producer.flush(PATIENCE_S) == 0


class KafkaPython(Sender):
    def send_all(self) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=self.servers, acks="all", enable_idempotence=True)
        number = 0
        while not self.is_stopped:
            for partition in range(PARTITIONS):
                value = self.value(number)
                sent = producer.send(TOPIC, value, partition=partition)
                sent.add_callback(lambda told, value=value: self.note(told.partition, told.offset, value))
                sent.add_errback(self.errors.append)
            number += 1
            time.sleep(PAUSE_S)
        producer.close(PATIENCE_S)


class Aiokafka(Sender):
    def send_all(self) -> None:
        asyncio.run(self._send_all())

    async def _send_all(self) -> None:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(bootstrap_servers=self.servers, enable_idempotence=True, acks="all")
        await producer.start()
        under_way: set[asyncio.Future[Any]] = set()
        number = 0
        while not self.is_stopped:
            for partition in range(PARTITIONS):
                value = self.value(number)
                sent = await producer.send(TOPIC, value, partition=partition)
                sent.add_done_callback(lambda sent, value=value: self._sent(sent, value))
                under_way.add(sent)
                sent.add_done_callback(under_way.discard)
            number += 1
            await asyncio.sleep(PAUSE_S)
        await producer.stop()

    def _sent(self, sent: "asyncio.Future[Any]", value: bytes) -> None:
        if (error := sent.exception()) is not None:
            self.errors.append(error)
        else:
            told = sent.result()
            self.note(told.partition, told.offset, value)


class Jvm:
    """A process that sends with Kafka's own client, for one test after the other: see tests/java/NumberSender.java."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def answers(self) -> Iterator[str]:
        """Yields what it prints until the end of what it was told to do."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line == "end\n":
                return
            yield line.rstrip("\n")
        raise AssertionError(f"the JVM ended with {self._process.wait(PATIENCE_S)}")


@contextmanager
def running_jvm() -> Iterator[Jvm]:
    """Starts it, and does not wait for it. It ends by itself when its input does."""
    command = java_command("NumberSender.java", TOPIC, str(PARTITIONS), Java.__name__)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Jvm(process)
        except BaseException:
            process.kill()
            raise


class Java(Sender):
    def __init__(self, addresses: Sequence[Address], jvm: Jvm) -> None:
        super().__init__(addresses)
        self._jvm = jvm

    def start(self) -> None:
        self._jvm.tell(",".join(self.servers))
        super().start()

    def stop(self) -> None:
        super().stop()
        with suppress(BrokenPipeError):  # that it has ended is said where its answers are read
            self._jvm.tell("")

    def send_all(self) -> None:
        for answer in self._jvm.answers():
            word, *rest = answer.split(" ", 2)
            if word == "error":
                self.errors.append(answer)
            else:
                offset, value = rest
                self.note(int(word), int(offset), value.encode())
