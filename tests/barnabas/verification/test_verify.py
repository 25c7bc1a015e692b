"""`barnabas verify` against brokers that do nothing wrong, and what it says when it cannot be run."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from barnabas.__main__ import main
from barnabas.testing import Broker, Cluster
from tests.barnabas.processes import environment

SMALL = "--seconds 1 --rate 200"
NOTHING_FOUND = "Nothing was found: every acknowledged record is there once"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config={"auto.create.topics.enable": "false"}) as broker:
        yield broker


def topics_of(broker: Broker) -> set[str]:
    names = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=30).topics
    return {name for name in names if not name.startswith("__")}


def verify(broker: Broker, options: str) -> int:
    return main(["verify", "-b", broker.bootstrap_servers, *options.split()])


def test_a_broker_that_does_nothing_wrong_passes(
    broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history, evidence = tmp_path / "history.jsonl", tmp_path / "verdict.json"
    assert verify(broker, f"{SMALL} --groups 2 --readers 2 -z lz4 --history {history} --json {evidence}") == 0
    out = capsys.readouterr().out
    assert NOTHING_FOUND in out
    counts = json.loads(evidence.read_text())["counts"]
    assert counts["sent"] == counts["acknowledged"] > 0
    assert counts["read"] >= 6 * counts["sent"]  # by two readers, two groups, and twice when it is read back
    assert counts["commits"] > 0
    assert not [name for name in topics_of(broker) if name.startswith("barnabas-verify-")]

    assert main(["verify", "--replay", str(history)]) == 0
    assert capsys.readouterr().out == out


def test_transactions_pass(broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history, evidence = tmp_path / "history.jsonl", tmp_path / "verdict.json"
    assert verify(broker, f"--seconds 3 --rate 300 --transactions --history {history} --json {evidence}") == 0
    out = capsys.readouterr().out
    assert "every record of a committed transaction is there once" in out
    transactions = json.loads(evidence.read_text())["counts"]["transactions"]
    assert transactions["committed"] > transactions["aborted"] > 0
    assert transactions["in_doubt"] == 0

    assert main(["verify", "--replay", str(history)]) == 0
    assert capsys.readouterr().out == out


def test_a_topic_that_others_use_is_left_as_it_is(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    broker.create_topics({"shared": 2})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("shared", b"before", partition=0)
    assert producer.flush(30) == 0

    assert verify(broker, f"{SMALL} --topic shared") == 0
    assert NOTHING_FOUND in capsys.readouterr().out
    assert "shared" in topics_of(broker)


def test_what_others_write_meanwhile_is_counted(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    broker.create_topics({"busy": 1})
    produce = f"{sys.executable} -m barnabas produce busy -q -b {broker.bootstrap_servers}"
    between = ["--between", f"echo hello | {produce}"]
    words = ["verify", "-b", broker.bootstrap_servers, *SMALL.split(), "--topic", "busy", *between]
    assert main(words) == 0
    assert "1 record of others was in the topic; it was not judged." in capsys.readouterr().out


def test_a_topic_of_its_own_can_be_kept(broker: Broker) -> None:
    assert verify(broker, f"{SMALL} --keep-topic --partitions 3 --acks 1 --no-idempotence") == 0
    (name,) = (name for name in topics_of(broker) if name.startswith("barnabas-verify-"))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_topics([name])[name].result(30)


def test_a_record_that_is_too_large_is_refused_and_not_there(broker: Broker, tmp_path: Path) -> None:
    broker.create_topics({"small": 1}, {"max.message.bytes": "500"})
    evidence = tmp_path / "verdict.json"
    assert verify(broker, f"{SMALL} --topic small --record-bytes 1000 --json {evidence}") == 0
    counts = json.loads(evidence.read_text())["counts"]
    assert counts["refused"] == counts["sent"] > 0


class AtTheCommand:
    """Does something while the command between two phases runs, which ends when that is done."""

    def __init__(self, folder: Path, work: Callable[[], None]) -> None:
        self._asked, self._done = folder / "asked", folder / "done"
        os.mkfifo(self._asked)
        os.mkfifo(self._done)
        self.command = f"echo > {self._asked}; cat {self._done}"
        self._work = work
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        self._asked.read_text()  # returns when the command has written
        self._work()
        self._done.write_text("done\n")


def test_a_cluster_of_which_one_broker_is_killed_passes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Cluster(brokers=3) as cluster:
        killed = cluster[cluster.controller]
        at_the_command = AtTheCommand(tmp_path, killed.kill)
        words = [*SMALL.split(), "--replication-factor", "3", "--phases", "2", "--between", at_the_command.command]
        assert main(["verify", "-b", cluster.bootstrap_servers, *words]) == 0
        assert cluster.controller != killed.node_id
    captured = capfd.readouterr()
    assert NOTHING_FOUND in captured.out
    assert "done\n" in captured.err  # what the command prints is shown
    assert re.search(r"After phase 1, at \S+, the command succeeded: echo", captured.out)


def test_a_broker_that_does_not_come_back_is_stuck(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    evidence = tmp_path / "verdict.json"
    with Broker() as broker:
        at_the_command = AtTheCommand(tmp_path, broker.stop)
        words = [*SMALL.split(), "--timeout", "3", "--json", str(evidence), "--between", at_the_command.command]
        assert main(["verify", "-b", broker.bootstrap_servers, *words]) == 1
    assert set(json.loads(evidence.read_text())["anomalies"]) == {"stuck-send", "stuck-read"}
    assert "no broker said where it begins and ends" in capfd.readouterr().out


def test_a_command_that_fails_is_no_anomaly(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(broker, f"{SMALL} --between false") == 0
    captured = capsys.readouterr()
    assert "the command failed with exit code 1: false" in captured.out
    assert "barnabas: the command failed with exit code 1; the load goes on" in captured.err


def test_ctrl_c_ends_the_load_and_what_there_is_is_judged(broker: Broker) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "barnabas", "verify", "-b", broker.bootstrap_servers, "--seconds", "600"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
    ) as process:  # fmt: skip
        assert process.stderr is not None
        while "phase 1 of 1" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    assert "the load ends early" in err
    assert "Nothing was found" in out


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--acks 1", "an idempotent producer needs acks=all: with --acks 1 give --no-idempotence"),
        ("--transactions --acks 1 --no-idempotence", "a transactional producer is idempotent: leave out"),
        ("--phases 3", "--phases needs --between COMMAND"),
        ("--topic a --partitions 3", "--partitions and --replication-factor are for a topic that is created"),
        ("--record-bytes 5", "must be at least 24"),
        ("--replay a --history b", "--replay judges a history that is there"),
        ("--rate 0", "must be a whole number of at least 1"),
    ],
)
def test_nonsense_is_a_usage_error(options: str, complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", *options.split()]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--topic missing", "there is no topic missing; leave out --topic, and one is created"),
        ("--topic compacted", "topic compacted has cleanup.policy=compact; what compaction removes looks like a loss"),
        ("--replication-factor 7", "INVALID_REPLICATION_FACTOR"),
        ("--client-property no.such=1", 'No such configuration property: "no.such"'),
        ("--client-property acks=1", "`acks` must be set to `all`"),
        ("--command-config {folder}/none", "none: no such file or directory"),
        ("--command-config {folder}/bad", "'what' is no property; write key=value"),
        ("--replay {folder}/none", "none: no such file or directory"),
        ("--replay {folder}/bad", "bad: line 1: it is no JSON"),
        ("--history {folder}/none/there", "there: no such file or directory"),
    ],
)
def test_what_cannot_be_run_has_an_exit_code_of_its_own(
    options: str, complaint: str, broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "compacted" in options:
        broker.create_topics({"compacted": 1}, {"cleanup.policy": "compact"})
    (tmp_path / "bad").write_text("what\n")
    assert verify(broker, f"{SMALL} {options.format(folder=tmp_path)}") == 2
    captured = capsys.readouterr()
    assert complaint in captured.err
    assert captured.out == ""


def test_without_a_broker_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "-b", "127.0.0.1:1", "--timeout", "1"]) == 2
    assert capsys.readouterr().err == "barnabas: no broker answers at 127.0.0.1:1\n"


def test_without_the_client_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    for name in [name for name in sys.modules if name.startswith("barnabas.verification.recording")]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["verify"]) == 2
    assert capsys.readouterr().err == "barnabas: verify needs confluent-kafka; pip install 'barnabas[verify]'\n"
