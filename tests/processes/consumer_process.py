"""A consumer of a group as a process of its own, so that it can be killed. It commits every record after telling it."""

import json
import signal
import subprocess
import sys
import threading
from types import TracebackType

from confluent_kafka import Consumer, KafkaException


class ConsumerProcess:
    """What the process has told so far; it is ended on the way out."""

    def __init__(self, bootstrap_servers: str, group: str, topic: str, *, session_timeout_ms: int) -> None:
        command = [sys.executable, "-m", "tests.processes.consumer_process"]
        self.assignment: list[int] = []
        self.records: list[tuple[int, int]] = []  # partition and offset
        self._process = subprocess.Popen(
            [*command, bootstrap_servers, group, topic, str(session_timeout_ms)], stdout=subprocess.PIPE, text=True
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if "assignment" in told:
                self.assignment = told["assignment"]
            else:
                self.records.append((told["partition"], told["offset"]))

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def leave(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        self._process.send_signal(number)
        self._process.wait(timeout=30)
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self.assignment = []

    def __enter__(self) -> "ConsumerProcess":
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if self._process.returncode is None:
            self.kill()


def tell(**what: object) -> None:
    print(json.dumps(what), flush=True)


def main(bootstrap_servers: str, group: str, topic: str, session_timeout_ms: str) -> None:
    leaving = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: leaving.set())
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": int(session_timeout_ms),
            "heartbeat.interval.ms": 300,
        }
    )
    consumer.subscribe(
        [topic],
        on_assign=lambda _, given: tell(assignment=sorted(p.partition for p in given)),
        on_revoke=lambda _, taken: tell(assignment=[]),
    )
    while not leaving.is_set():
        message = consumer.poll(0.1)
        if message is None:
            continue
        if message.error() is not None:
            raise KafkaException(message.error())
        tell(partition=message.partition(), offset=message.offset())
        consumer.commit(message=message, asynchronous=False)
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
