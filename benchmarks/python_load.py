"""What a Python program gets out of its client: kafka-python, aiokafka or confluent-kafka, with their defaults.

`python -m benchmarks.python_load CLIENT MODE address=… topic=… records=…`, to the rules of native/load.h. MODE is
`produce` (as fast as it goes), `consume` (the same records back) or `wait` (each when the last is acknowledged).
silence_s=N is how long a broker may take for one acknowledgement, or until the next records.
"""

import asyncio
import json
import struct
import sys
import time
from collections.abc import Callable, Iterable
from statistics import quantiles

VALUE_BYTES = 1000
SILENCE_SECONDS = 20.0
PRODUCE_SECONDS = 300  # for all that was sent as fast as it goes to be acknowledged
FILLER = bytes(range(256)) * 4


def value(sequence: int) -> bytes:
    return struct.pack(">q", sequence) + FILLER[: VALUE_BYTES - 8]


def check(position: int, found: bytes | None) -> None:
    """Checks the record at this place of the only partition: any other was lost, repeated, moved or altered."""
    if found != value(position):
        raise ValueError(f"offset {position} does not hold what was written there")


def acknowledged(offsets: list[object], records: int) -> None:
    """Checks an acknowledgement: nobody else writes to the only partition, so each record has the next offset."""
    if len(offsets) != records:
        raise ValueError(f"{len(offsets)} of {records} records were acknowledged")
    for expected, offset in enumerate(offsets):
        if offset != expected:
            raise ValueError(f"acknowledged as offset {offset} what must be {expected}")


def ready() -> float:
    print("ready", flush=True)
    if not sys.stdin.readline():
        sys.exit(3)
    return time.perf_counter()


def waited(started: float, waits: list[float]) -> dict[str, float]:
    cuts = quantiles(waits, n=100)
    return {"seconds": time.perf_counter() - started, "p50_ms": cuts[49] * 1000, "p99_ms": cuts[98] * 1000}


def timed(send: Callable[[bytes], object], records: int) -> list[float]:
    """Measures `send`, which returns the offset under which the record was acknowledged."""
    waits, offsets = [], []
    for sequence in range(records):
        started = time.perf_counter()
        offset = send(value(sequence))
        waits.append(time.perf_counter() - started)
        offsets.append(offset)
    acknowledged(offsets, records)
    return waits


def checked(started: float, values: Iterable[bytes | None], records: int) -> dict[str, float]:
    count = 0
    for found in values:
        check(count, found)
        count += 1
        if count == records:
            return {"seconds": time.perf_counter() - started}
    raise ValueError(f"{count} records came back of {records} that were acknowledged")


def kafka_python(mode: str, address: str, topic: str, records: int, silence_s: float) -> dict[str, float]:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

    if mode == "consume":
        consumer = KafkaConsumer(bootstrap_servers=address, consumer_timeout_ms=int(silence_s * 1000))
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        return checked(ready(), (record.value for record in consumer), records)
    producer = KafkaProducer(bootstrap_servers=address)
    producer.partitions_for(topic)
    started = ready()
    if mode == "wait":
        return waited(
            started, timed(lambda data: producer.send(topic, data, partition=0).get(silence_s).offset, records)
        )
    sent = [producer.send(topic, value(sequence), partition=0) for sequence in range(records)]
    producer.flush(PRODUCE_SECONDS)
    acknowledged([future.get(silence_s).offset for future in sent], records)
    return {"seconds": time.perf_counter() - started}


def aiokafka(mode: str, address: str, topic: str, records: int, silence_s: float) -> dict[str, float]:
    return asyncio.run(in_aiokafka(mode, address, topic, records, silence_s))


async def in_aiokafka(mode: str, address: str, topic: str, records: int, silence_s: float) -> dict[str, float]:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    if mode == "consume":
        consumer = AIOKafkaConsumer(bootstrap_servers=address)
        await consumer.start()
        consumer.assign([TopicPartition(topic, 0)])
        await consumer.seek_to_beginning()
        values: list[bytes | None] = []
        started = ready()
        while len(values) < records:
            found = await consumer.getmany(timeout_ms=int(silence_s * 1000))
            if not found:
                break
            values += [record.value for batch in found.values() for record in batch]
        await consumer.stop()
        return checked(started, values, records)
    producer = AIOKafkaProducer(bootstrap_servers=address)
    await producer.start()
    await producer.partitions_for(topic)
    started, waits, sent = ready(), [], []
    # One limit for all: one for each record would be most of what a short wait costs.
    limit = asyncio.timeout(silence_s + records if mode == "wait" else PRODUCE_SECONDS)
    try:
        async with limit:
            for sequence in range(records):
                before = time.perf_counter()
                future = await producer.send(topic, value(sequence), partition=0)
                if mode == "wait":
                    await future
                    waits.append(time.perf_counter() - before)
                sent.append(future)
            offsets = [(await future).offset for future in sent]
    except TimeoutError:
        raise TimeoutError(f"{len(waits)} of {records} records were acknowledged in time") from None
    result = waited(started, waits) if mode == "wait" else {"seconds": time.perf_counter() - started}
    await producer.stop()
    acknowledged(offsets, records)
    return result


def confluent_kafka(mode: str, address: str, topic: str, records: int, silence_s: float) -> dict[str, float]:
    from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

    if mode == "consume":
        consumer = Consumer({"bootstrap.servers": address, "group.id": "unused", "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, 0, 0)])
        fetched: list[bytes | None] = []
        started = ready()
        while len(fetched) < records:
            found = consumer.consume(min(1000, records - len(fetched)), timeout=silence_s)
            if not found:
                break
            for message in found:
                if message.error():
                    raise ValueError(f"not read: {message.error()}")
                fetched.append(message.value())
        return checked(started, fetched, records)
    producer = Producer({"bootstrap.servers": address})
    producer.list_topics(topic)
    offsets: list[object] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        offsets.append(message.offset() if error is None else error)

    def flush(seconds: float) -> None:
        if left := producer.flush(seconds):
            raise TimeoutError(f"{left} records were not acknowledged within {seconds:g} s")

    started = ready()
    if mode == "wait":

        def send(data: bytes) -> object:
            producer.produce(topic, data, partition=0, on_delivery=delivered)
            flush(silence_s)
            return offsets[-1]

        return waited(started, timed(send, records))
    for sequence in range(records):
        while True:
            try:
                producer.produce(topic, value(sequence), partition=0, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    flush(PRODUCE_SECONDS)
    acknowledged(offsets, records)
    return {"seconds": time.perf_counter() - started}


CLIENTS = {"kafka-python": kafka_python, "aiokafka": aiokafka, "confluent-kafka": confluent_kafka}


def main() -> int:
    client, mode = sys.argv[1:3]
    options = dict(word.split("=", 1) for word in sys.argv[3:])
    try:
        silence_s = float(options.get("silence_s", SILENCE_SECONDS))
        found = CLIENTS[client](mode, options["address"], options["topic"], int(options["records"]), silence_s)
    except Exception as error:
        print(json.dumps({"error": f"{client}: {type(error).__name__}: {error}"}), flush=True)
        return 1
    print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
