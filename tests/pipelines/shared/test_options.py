"""The command lines of jobs: what they mean for Spark, and what is said of those that make no sense."""

import argparse
from datetime import timedelta
from pathlib import Path
from types import ModuleType

import pytest

from barnabas.pipelines import mirror, restore, rollup
from barnabas.pipelines.shared import options

BOOTSTRAP = ("--bootstrap-servers", "one:9092,two:9092")


def parsed(*words: str, streaming: bool = True) -> argparse.Namespace:
    parser = options.parser("try", "Tries.", streaming=streaming)
    options.add_topics(parser)
    return parser.parse_args([*BOOTSTRAP, *(("--checkpoint", "c") if streaming else ()), *words])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("250ms", timedelta(milliseconds=250)),
        ("10s", timedelta(seconds=10)),
        ("1.5s", timedelta(seconds=1.5)),
        ("5m", timedelta(minutes=5)),
        ("1h", timedelta(hours=1)),
        ("2d", timedelta(days=2)),
    ],
)
def test_a_duration(text: str, expected: timedelta) -> None:
    assert options.duration(text) == expected


@pytest.mark.parametrize("text", ["", "10", "s", "-1s", "1w", "1s 2s", "ten s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a duration: write 250ms"):
        options.duration(text)


def test_without_options_a_stream_reads_everything_in_batches_of_ten_seconds() -> None:
    given = parsed("--topic", "a")
    assert (given.every, given.once, given.dry_run, given.master) == (timedelta(seconds=10), False, False, "local[*]")
    assert options.source_settings(given) == {
        "kafka.bootstrap.servers": "one:9092,two:9092",
        "kafka.fetch.max.wait.ms": "20",
        "kafka.max.poll.records": "5000",
        "kafka.isolation.level": "read_committed",
        "subscribe": "a",
        "includeHeaders": "true",
        "startingOffsets": "earliest",
        "failOnDataLoss": "true",
    }


def test_topics_are_collected_once_each_and_client_settings_reach_source_and_sink() -> None:
    words = ("--topic", "a, b", "--topic", "b,c", "--kafka", "security.protocol=SSL", "--kafka", "kafka.x=a=b")
    given = parsed(*words, "--max-offsets-per-trigger", "7", "--fail-on-data-loss", "false")
    assert given.topic == ["a", "b", "c"]
    assert given.kafka == {"security.protocol": "SSL", "kafka.x": "a=b"}
    settings = options.source_settings(given)
    assert settings["subscribe"] == "a,b,c"
    assert (settings["maxOffsetsPerTrigger"], settings["failOnDataLoss"]) == ("7", "false")
    expected = {"kafka.bootstrap.servers": "one:9092,two:9092", "kafka.security.protocol": "SSL", "kafka.x": "a=b"}
    assert options.kafka_settings(given) == {**expected, "kafka.isolation.level": "read_committed"}
    assert expected.items() <= settings.items()


@pytest.mark.parametrize("key", ["isolation.level", "kafka.isolation.level"])
def test_streams_read_what_was_committed_unless_told_otherwise(key: str) -> None:
    given = parsed("--topic", "a", "--kafka", f"{key}=read_uncommitted")
    assert options.source_settings(given)["kafka.isolation.level"] == "read_uncommitted"


def test_client_settings_come_from_a_file_too_and_the_later_wins(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "# for the cluster\n! and this too\n\nsecurity.protocol=SASL_SSL\nsasl.mechanism : PLAIN\nempty=\n"
        'sasl.jaas.config=org.example.Login required \\\n    username="me" password="a:b=c";\n'
    )
    given = parsed("--topic", "a", "--kafka", "sasl.mechanism=X", "--kafka-config", str(file), "--kafka", "empty=no")
    assert given.kafka == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "empty": "no",
        "sasl.jaas.config": 'org.example.Login required username="me" password="a:b=c";',
    }


def test_two_command_lines_do_not_share_what_they_collect() -> None:
    parsed("--topic", "a", "--kafka", "x=1")
    assert parsed("--topic", "b").kafka == {}
    assert parsed("--topic", "b").topic == ["b"]


def test_a_batch_job_has_a_pattern_and_no_stream() -> None:
    given = parsed("--topic-pattern", "orders-.*", streaming=False)
    assert options.source_settings(given) == {
        "kafka.bootstrap.servers": "one:9092,two:9092",
        "kafka.fetch.max.wait.ms": "20",
        "kafka.max.poll.records": "5000",
        "subscribePattern": "orders-.*",
        "includeHeaders": "true",
    }


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "one of the arguments --topic --topic-pattern is required"),
        (("--topic", "a", "--topic-pattern", "b"), "argument --topic-pattern: not allowed with argument --topic"),
        (("--topic", "a,,b"), "argument --topic: 'a,,b' contains an empty name: remove a comma"),
        (("--topic", "a", "--once", "--every", "1s"), "argument --every: not allowed with argument --once"),
        (
            ("--topic", "a", "--every", "soon"),
            "'soon' is not a duration: write 250ms, 10s, 5m, 1h or 2d",
        ),
        (("--topic", "a", "--kafka", "acks"), "argument --kafka: 'acks' is not a setting: write KEY=VALUE"),
        (
            ("--topic", "a", "--kafka-config", "/nowhere"),
            "--kafka-config: /nowhere: No such file or directory",
        ),
        (("--topic", "a", "--fail-on-data-loss", "no"), "argument --fail-on-data-loss: 'no' must be true or false"),
        (("--topic", "a", "--max-offsets-per-trigger", "0"), "'0' must be a whole number of at least 1"),
        (("--topic", "a", "--starting-offsets", "now"), "'now' must be earliest, latest or JSON such as"),
        (("--topic", "a", "--starting-offsets", '{"a": {"x": 1}}'), "must be earliest, latest or JSON such as"),
        (("--topic", "a", "--chekpoint", "x"), "unrecognized arguments: --chekpoint x (did you mean --checkpoint?)"),
        (("--topic", "a", "--check", "x"), "unrecognized arguments: --check x"),  # no guessing at what is meant
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_code_2(
    words: tuple[str, ...], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit:
        parsed(*words)
    assert exit.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith("barnabas pipeline try: ")
    assert line in told
    assert told.endswith("; see `barnabas pipeline try --help`\n")
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (mirror, ("--topic", "a", "--target-bootstrap-servers", "b:9092")),
        (restore, ("--archive", "a", "--source-topic", "a")),
        (rollup, ("--topic", "a", "--time-field", "t", "--window", "1m", "--output", "o")),
    ],
)
def test_a_job_that_cannot_go_on_without_a_checkpoint_asks_for_one_before_spark_starts(
    job: ModuleType, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit:
        job.main(words)
    assert exit.value.code == 2
    assert "the following arguments are required: --checkpoint; see " in capsys.readouterr().err
    usage = " ".join(job.make_parser().format_help().partition("[options]")[0].split())
    assert "--checkpoint DIR" in usage


@pytest.mark.parametrize("text", ["earliest", "latest", '{"a": {"0": 23, "1": -2}}'])
def test_starting_offsets(text: str) -> None:
    assert parsed("--topic", "a", "--starting-offsets", text).starting_offsets == text


def test_the_brokers_are_those_that_are_named_or_the_environments_or_on_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def servers(*words: str) -> str:
        found: str = options.parser("try", "", streaming=False).parse_args(words).bootstrap_servers
        return found

    monkeypatch.delenv("BARNABAS_BOOTSTRAP_SERVERS", raising=False)
    assert servers() == "127.0.0.1:9092"
    monkeypatch.setenv("BARNABAS_BOOTSTRAP_SERVERS", "a:1,b:2")
    assert servers() == "a:1,b:2"
    assert servers("-b", "c:3") == "c:3"
