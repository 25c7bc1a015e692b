"""The commands as real processes against a real broker."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import IO, Any

import pytest

from tests.barnabas.processes import READY, TIMEOUT_S, broker, environment, one_line, run

Barnabas = Callable[..., bytes]


@pytest.fixture(scope="module")
def bootstrap_servers() -> Iterator[str]:
    if servers := os.environ.get("BARNABAS_TEST_BOOTSTRAP_SERVERS"):
        yield servers
        return
    with broker("--port", "0", "--ephemeral") as running:
        yield running.bootstrap_servers


@pytest.fixture
def env(bootstrap_servers: str) -> dict[str, str]:
    return environment(BARNABAS_BOOTSTRAP_SERVERS=bootstrap_servers)


@pytest.fixture
def barnabas(env: dict[str, str]) -> Barnabas:
    """Runs a command that must succeed; its stdout."""

    def command(*arguments: str, stdin: bytes = b"") -> bytes:
        done = run(*arguments, stdin=stdin, env=env)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    return command


@pytest.fixture
def topic(barnabas: Barnabas) -> str:
    """A new topic with three partitions."""
    name = f"t-{time.time_ns()}"
    barnabas("topics", "create", name, "--partitions", "3")
    return name


def parsed(lines: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.splitlines()]


# ---- topics


def test_a_topic_is_created_listed_described_altered_and_deleted(barnabas: Barnabas, env: dict[str, str]) -> None:
    name = f"orders-{time.time_ns()}"
    created = barnabas(
        "topics", "create", name, "-p", "2", "-r", "1", "-c", "retention.ms=1000000", "-c", "flush.messages=1"
    )
    assert created == f"topic {name} created with 2 partitions\n".encode()

    listed = json.loads(barnabas("topics", "list", "--json"))
    assert {"name": name, "num_partitions": 2, "replication_factor": 1} in listed
    assert name.encode() in barnabas("topics", "list")

    (described,) = json.loads(barnabas("topics", "describe", name, "--json"))
    assert described["configs"] == {"retention.ms": "1000000", "flush.messages": "1"}
    assert [partition["partition"] for partition in described["partitions"]] == [0, 1]
    assert [partition["end_offset"] for partition in described["partitions"]] == [0, 0]
    assert b"PARTITION  LEADER  REPLICAS  ISR  START  END" in barnabas("topics", "describe", name)

    barnabas("topics", "alter", name, "--partitions", "4", "--config", "max.message.bytes=5000", "-d", "flush.messages")
    (described,) = json.loads(barnabas("topics", "describe", name, "--json"))
    assert described["configs"] == {"retention.ms": "1000000", "max.message.bytes": "5000"}
    assert len(described["partitions"]) == 4

    assert barnabas("topics", "delete", name) == f"topic {name} deleted\n".encode()
    assert name not in [each["name"] for each in json.loads(barnabas("topics", "list", "--json"))]


def test_what_was_deleted_before_a_failure_is_told(env: dict[str, str], topic: str) -> None:
    done = run("topics", "delete", topic, "missing", "--json", env=env)
    assert json.loads(done.stdout) == {"deleted": [topic]}
    assert done.returncode == 1
    assert b"UNKNOWN_TOPIC_OR_PARTITION" in done.stderr


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("topics create {topic}", "TOPIC_ALREADY_EXISTS"),
        ("topics create a/b", "INVALID_TOPIC_EXCEPTION"),
        ("topics create new -r 9", "INVALID_REPLICATION_FACTOR"),
        ("topics create new -c retention.mz=1", "INVALID_CONFIG); `barnabas configs describe --all --topic TOPIC`"),
        ("topics alter {topic} -p 2", "INVALID_PARTITIONS"),
        ("topics alter missing -p 2", "topic missing does not exist"),
        ("topics describe missing", "topic missing does not exist"),
        ("topics delete missing", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("configs describe --broker 99", "the cluster has no broker 99"),
        ("configs alter --topic {topic} --set retention.mz=1", "INVALID_CONFIG"),
        ("consume missing", "topic missing does not exist"),
        ("consume {topic} -p 7", "has no partition 7: it has 3, counted from 0; `barnabas topics describe "),
        ("consume {topic} --from 5", "has no offset 5: it holds 0 to 0"),
        ("produce {topic} -p 7", "has no partition 7: it has 3"),
        ("topics list -b 127.0.0.1:1", "start it with `barnabas start`"),
        ("topics list -b nobody.invalid:1", "look at the address again, or name another with --bootstrap-servers"),
        ("log dump /nowhere", "/nowhere: no such file or directory"),
    ],
)
def test_what_cannot_be_done_is_one_line(env: dict[str, str], topic: str, line: str, complaint: str) -> None:
    done = run(*line.format(topic=topic).split(), env=env)
    err = done.stderr.decode()
    assert done.returncode == 1
    assert done.stdout == b""
    assert complaint in err
    assert one_line(err)
    assert err.startswith("barnabas: ")


# ---- produce and consume


def test_lines_go_in_and_come_out(barnabas: Barnabas, topic: str) -> None:
    barnabas("produce", topic, "--partition", "1", stdin="eins\nzwei\n\ndreißig".encode())
    assert barnabas("consume", topic) == "eins\nzwei\n\ndreißig\n".encode()


def test_keys_headers_and_nulls_go_in_and_come_out(barnabas: Barnabas, topic: str) -> None:
    stdin = b"a\t1\nb\t2=\t3\nc\tNIL\nNIL\t4\n"
    barnabas("produce", topic, "-k", "\\t", "-H", "source=test", "-H", "empty=", "-Z", "NIL", stdin=stdin)
    records = sorted(parsed(barnabas("consume", topic, "--json")), key=lambda record: record["value"] or "")
    assert [(record["key"], record["value"]) for record in records] == [
        ("c", None),
        ("a", "1"),
        ("b", "2=\t3"),
        (None, "4"),
    ]
    headers = [{"key": "source", "value": "test"}, {"key": "empty", "value": ""}]
    assert all(record["headers"] == headers for record in records)
    assert {record["key"]: record["partition"] for record in records if record["key"]} == {"a": 1, "b": 2, "c": 1}


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["1", "all"])
def test_every_compression_comes_out_as_it_went_in(barnabas: Barnabas, topic: str, compression: str, acks: str) -> None:
    lines = b"".join(b"line %d\n" % number for number in range(5000))
    barnabas("produce", topic, "-p", "0", "--compression", compression, "--acks", acks, stdin=lines)
    assert barnabas("consume", topic) == lines


def test_without_acks_records_arrive_too(barnabas: Barnabas, topic: str) -> None:
    barnabas("produce", topic, "-p", "0", "--acks", "0", stdin=b"one\n")
    assert barnabas("consume", topic, "--follow", "--max", "1") == b"one\n"


def test_bytes_that_are_no_text_survive(barnabas: Barnabas, topic: str) -> None:
    data = bytes(byte for byte in range(256) if byte != 10)
    barnabas("produce", topic, "-p", "0", stdin=data)
    assert barnabas("consume", topic, "--raw", "--format", "%v") == data
    assert b"\\xff" in barnabas("consume", topic)
    assert "value_base64" in parsed(barnabas("consume", topic, "--json"))[0]


def test_a_format_shows_all_of_a_record(barnabas: Barnabas, topic: str) -> None:
    barnabas("produce", topic, "-k", ":", "-H", "h=1", stdin=b"a:x\n")
    assert barnabas("consume", topic, "-F", "%t %p %o %k=%v %h %K %S%%\\n") == f"{topic} 1 0 a=x h=1 1 1%\n".encode()


def test_reading_starts_where_it_is_told_to(barnabas: Barnabas, topic: str) -> None:
    produce = ("produce", topic, "-p", "0")
    barnabas(*produce, stdin=b"0\n1\n2\n")
    last = max(record["timestamp"] for record in parsed(barnabas("consume", topic, "--json")))
    while time.time_ns() // 1_000_000 <= last:
        pass
    barnabas(*produce, stdin=b"3\n4\n")
    cases = {"beginning": 5, "end": 0, "3": 2, "5": 0, "-2": 2, "-99": 5, f"@{last + 1}": 2, "@0": 5}
    cases |= {"2020-01-01": 5, "2020-01-01T12:00:00+02:00": 5, "2999-01-01T00:00:00Z": 0}
    for start, expected in cases.items():
        shown = barnabas("consume", topic, "-p", "0", "--from", start).splitlines()
        assert shown == [b"0", b"1", b"2", b"3", b"4"][5 - expected :], start


def test_at_most_as_many_records_as_asked_for(barnabas: Barnabas, topic: str) -> None:
    barnabas("produce", topic, "-p", "0", stdin=b"a\nb\nc\n")
    assert barnabas("consume", topic, "--max", "2") == b"a\nb\n"


def test_a_line_without_its_separator_stops_produce_and_what_was_before_is_sent(
    barnabas: Barnabas, env: dict[str, str], topic: str
) -> None:
    done = run("produce", topic, "-k", ":", stdin=b"a:1\nb\nc:3\n", env=env)
    assert done.returncode == 1
    assert b"line 2 has no key separator ':'" in done.stderr
    assert b"1 record," in done.stderr
    assert barnabas("consume", topic) == b"1\n"


def test_produce_says_what_it_sent(env: dict[str, str], topic: str) -> None:
    done = run("produce", topic, stdin=b"a\nb\n", env=env)
    assert done.stdout == b""
    assert done.stderr.startswith(b"2 records, 2 B in ")
    assert one_line(done.stderr.decode())
    done = run("produce", topic, "--json", stdin=b"a\nb\n", env=env)
    assert (json.loads(done.stdout)["records"], done.stderr) == (2, b"")
    assert run("produce", topic, "--quiet", stdin=b"a\n", env=env).stderr == b""


def test_a_record_above_the_limit_is_refused_with_a_hint(env: dict[str, str], topic: str) -> None:
    done = run("produce", topic, "--quiet", stdin=b"x" * 2_000_000, env=env)
    assert done.returncode == 1
    assert b"MESSAGE_TOO_LARGE" in done.stderr
    assert b"max.message.bytes" in done.stderr
    assert one_line(done.stderr.decode())


def test_a_large_record_goes_through_when_the_limit_is_raised(barnabas: Barnabas, topic: str) -> None:
    barnabas("configs", "alter", "--topic", topic, "--set", "max.message.bytes=10000000")
    data = b"x" * 5_000_000 + b"\n"
    barnabas("produce", topic, stdin=data)
    assert barnabas("consume", topic) == data


def test_a_closed_pipe_ends_consume_quietly(barnabas: Barnabas, env: dict[str, str], topic: str) -> None:
    barnabas("produce", topic, stdin=b"".join(b"%d\n" % number for number in range(200_000)))
    with subprocess.Popen(
        [sys.executable, "-m", "barnabas", "consume", topic], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(TIMEOUT_S) == 0
        assert process.stderr.read() == b""


class Following:
    """A `consume --follow` that runs."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        assert process.stdout is not None
        self.stdout: IO[bytes] = process.stdout

    def line(self) -> bytes:
        return self.stdout.readline()

    def stop(self) -> tuple[int, bytes]:
        self.process.send_signal(signal.SIGINT)
        _, err = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, err


@pytest.fixture
def follow(env: dict[str, str]) -> Iterator[Callable[..., Following]]:
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str, env: dict[str, str] = env) -> Following:
        command = [sys.executable, "-m", "barnabas", "consume", "--follow", *arguments]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env))
        return Following(started[-1])

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_follow_shows_what_comes_until_ctrl_c(barnabas: Barnabas, topic: str, follow: Callable[..., Following]) -> None:
    barnabas("produce", topic, "-p", "0", stdin=b"before\n")
    following = follow(topic)
    assert following.line() == b"before\n"
    barnabas("produce", topic, "-p", "1", stdin=b"after\n")
    assert following.line() == b"after\n"
    assert following.stop() == (0, b"")


def test_what_is_typed_is_sent_at_once(env: dict[str, str], topic: str, follow: Callable[..., Following]) -> None:
    following = follow(topic)
    command = [sys.executable, "-m", "barnabas", "produce", topic]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as process:
        assert process.stdin is not None
        for line in (b"first\n", b"second\n"):
            process.stdin.write(line)
            process.stdin.flush()
            assert following.line() == line
        process.stdin.close()
        assert process.wait(TIMEOUT_S) == 0


def test_produce_makes_a_missing_topic(barnabas: Barnabas) -> None:
    name = f"auto-{time.time_ns()}"
    barnabas("produce", name, stdin=b"hello\n")
    assert barnabas("consume", name) == b"hello\n"


# ---- configs


def test_configs_are_described_and_altered(barnabas: Barnabas, topic: str) -> None:
    barnabas("configs", "alter", "--topic", topic, "--set", "retention.ms=5000000", "--set", "cleanup.policy=compact")
    barnabas("configs", "alter", "--topic", topic, "--delete", "cleanup.policy")
    entries = {
        entry["name"]: entry for entry in json.loads(barnabas("configs", "describe", "--topic", topic, "--json"))
    }
    assert entries["retention.ms"]["value"] == "5000000"
    assert entries["retention.ms"]["source"] == "TOPIC"
    assert "cleanup.policy" not in entries
    everything = barnabas("configs", "describe", "--topic", topic, "--all").decode()
    assert "cleanup.policy" in everything
    assert "segment.bytes" in everything


def test_configs_of_brokers_are_described_and_altered(barnabas: Barnabas) -> None:
    node_id = "1"
    barnabas("configs", "alter", "--brokers-default", "--set", "log.retention.ms=86400000")
    described = json.loads(barnabas("configs", "describe", "--broker", node_id, "--json"))
    (entry,) = [entry for entry in described if entry["name"] == "log.retention.ms"]
    assert (entry["value"], entry["source"]) == ("86400000", "DYNAMIC_DEFAULT_BROKER")
    barnabas("configs", "alter", "--brokers-default", "--delete", "log.retention.ms")
    documented = barnabas("configs", "describe", "--broker", node_id, "--all", "--documentation").decode()
    assert "log.retention.ms=" in documented


# ---- a broker that goes away


@pytest.mark.skipif("BARNABAS_TEST_BOOTSTRAP_SERVERS" in os.environ, reason="restarts a broker of its own")
def test_follow_survives_a_restart_of_the_broker(tmp_path: Any, follow: Callable[..., Following]) -> None:
    data = ("--data-dir", str(tmp_path / "data"))
    with broker("--port", "0", *data) as first:
        env = environment(BARNABAS_BOOTSTRAP_SERVERS=first.bootstrap_servers)
        assert run("produce", "t", stdin=b"one\n", env=env).returncode == 0
        following = follow("t", env=env)
        assert following.line() == b"one\n"
        assert first.signal(signal.SIGTERM)[0] == 0
    with broker("--port", str(first.port), *data):
        assert run("produce", "t", stdin=b"two\n", env=env).returncode == 0
        assert following.line() == b"two\n"
        assert following.stop() == (0, b"")


def test_the_ready_line_is_what_these_tests_expect() -> None:
    assert READY.fullmatch("barnabas is ready on 127.0.0.1:9092 (node 1, data ./data, 61 ms)\n")
