"""`barnabas verify`: whether a cluster keeps what it acknowledges, in order, once and unaltered.

Exit codes: 0 if nothing was found, 1 if something was, 2 if it could not be run.
"""

from typing import TYPE_CHECKING

from barnabas.commands.cluster_options import BOOTSTRAP_SERVERS, bootstrap_addresses, parse_seconds
from barnabas.options import Arguments, Command, Option, UsageError, key_value, one_of, positive_number, whole_number
from barnabas.verification.content import RECORD_BYTES_MIN
from barnabas.verification.recording.settings import CannotVerify, Load, Sending, Settings, TopicChoice

if TYPE_CHECKING:
    from barnabas.verification.judge import Verdict


def verify(arguments: Arguments) -> int:
    try:
        settings = _settings(arguments)
        verdict = _record(settings, arguments.history) if arguments.replay is None else _replay(arguments.replay)
        return _report(verdict, arguments.json)
    except BrokenPipeError:
        raise
    except OSError as error:
        about = f"{error.filename}: " if error.filename else ""
        raise CannotVerify(f"{about}{(error.strerror or str(error)).lower()}") from None


def _record(settings: Settings, history: str | None) -> "Verdict":
    try:
        from barnabas.verification.recording.run import record
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "confluent_kafka":
            raise
        raise CannotVerify("verify needs confluent-kafka", "pip install 'barnabas[verify]'") from None
    if history is None:
        return record(settings, None)
    with open(history, "w") as file:
        return record(settings, file)


def _replay(path: str) -> "Verdict":
    from barnabas.verification.events import BadHistory
    from barnabas.verification.history import read_events
    from barnabas.verification.judge import judge

    try:
        with open(path) as file:
            return judge(read_events(file))
    except BadHistory as error:
        raise CannotVerify(f"{path}: {error}") from None


def _report(verdict: "Verdict", json_path: str | None) -> int:
    from barnabas.verification.report import evidence, sentences

    print(*sentences(verdict), sep="\n")
    if json_path is not None:
        import json

        with open(json_path, "w") as file:
            json.dump(evidence(verdict), file, indent=2)
            file.write("\n")
    return 1 if verdict.anomalies else 0


# ---- the command line


def _settings(arguments: Arguments) -> Settings:
    if arguments.replay is not None and arguments.history is not None:
        raise UsageError("--replay judges a history that is there: leave out --history")
    if arguments.acks != "all" and not arguments.no_idempotence:
        raise UsageError(f"an idempotent producer needs acks=all: with --acks {arguments.acks} give --no-idempotence")
    if arguments.transactions and arguments.no_idempotence:
        raise UsageError("a transactional producer is idempotent: leave out --no-idempotence")
    if arguments.phases is not None and arguments.between is None:
        raise UsageError("--phases needs --between COMMAND")
    if arguments.topic is not None and (arguments.partitions or arguments.replication_factor):
        raise UsageError("--partitions and --replication-factor are for a topic that is created: leave out --topic")
    properties = _properties(arguments)
    return Settings(
        _bootstrap_servers(arguments, properties.pop("bootstrap.servers", None)),
        properties,
        TopicChoice(arguments.topic, arguments.partitions or 4, arguments.replication_factor, arguments.keep_topic),
        Load(
            arguments.seconds,
            arguments.phases or (1 if arguments.between is None else 2),
            arguments.between,
            arguments.producers,
            arguments.rate,
            arguments.record_bytes,
            arguments.groups,
            arguments.consumers,
            arguments.readers,
        ),
        Sending(arguments.acks, not arguments.no_idempotence, arguments.transactions, arguments.compression),
        arguments.timeout,
    )


def _properties(arguments: Arguments) -> dict[str, str]:
    from barnabas.verification.recording.properties import for_librdkafka, parse_properties

    properties: dict[str, str] = {}
    if arguments.command_config is not None:
        with open(arguments.command_config) as file:
            properties = for_librdkafka(parse_properties(file))
    return properties | dict(arguments.client_property)


def _bootstrap_servers(arguments: Arguments, of_file: str | None) -> str:
    if of_file is not None and arguments.bootstrap_servers is None:
        return of_file
    return ",".join(map(str, bootstrap_addresses(arguments)))


def _record_bytes(text: str) -> int:
    if (size := whole_number(text)) < RECORD_BYTES_MIN:
        raise ValueError(f"must be at least {RECORD_BYTES_MIN}: a record says whose it is")
    return size


LOAD_OPTIONS = (
    Option("--seconds", "how long the load lasts (default 30)", "SECONDS", parse_seconds, 30.0),
    Option("--rate", "records a second, of all producers together (default 1000)", "N", positive_number, 1000),
    Option("--producers", "how many producers (default 2)", "N", positive_number, 2),
    Option("--groups", "how many consumer groups (default 1)", "N", whole_number, 1),
    Option("--consumers", "how many members each group has (default 2)", "N", positive_number, 2),
    Option("--readers", "how many consumers read everything without a group (default 1)", "N", whole_number, 1),
    Option("--record-bytes", "the size of a record's value (default 100)", "N", _record_bytes, 100),
    Option("--phases", "how many parts the load has (default 2 with --between)", "N", positive_number),
    Option("--between", "run this shell command between phases, while the load goes on", "COMMAND"),
)
SENDING_OPTIONS = (
    Option("--acks", "0, 1 or all (default all)", "ACKS", one_of("0", "1", "all"), "all"),
    Option("--no-idempotence", "producers that may store a record twice when they retry"),
    Option("--transactions", "producers send in transactions, and abort some; consumers read what is committed"),
    Option(
        "-z --compression",
        "none, gzip, snappy, lz4 or zstd (default none)",
        "CODEC",
        one_of("none", "gzip", "snappy", "lz4", "zstd"),
        "none",
    ),
)
TOPIC_OPTIONS = (
    Option("--topic", "a topic that exists; records of others in it are ignored (default: one of its own)", "TOPIC"),
    Option("-p --partitions", "how many partitions its own topic has (default 4)", "N", positive_number),
    Option("-r --replication-factor", "replicas of each (default: the cluster's)", "N", positive_number),
    Option("--keep-topic", "do not delete the topic at the end"),
)

COMMANDS = (
    Command(
        "verify",
        "Check that a cluster keeps what it acknowledges, in order, once and unaltered.",
        verify,
        (
            *LOAD_OPTIONS,
            *SENDING_OPTIONS,
            *TOPIC_OPTIONS,
            Option("--history", "keep everything that happened in this file", "FILE"),
            Option("--replay", "judge the history in this file, without a cluster", "FILE"),
            Option("--json", "write the verdict and its evidence to this file", "FILE"),
            BOOTSTRAP_SERVERS,
            Option(
                "--client-property", "a property of librdkafka, for all clients", "KEY=VALUE", key_value, repeated=True
            ),
            Option("--command-config", "a properties file, as Kafka's tools take it", "FILE"),
            Option("--timeout", "how long the cluster may be silent (default 60 s)", "SECONDS", parse_seconds, 60.0),
        ),
        "",
        (
            "barnabas verify --seconds 60 --rate 5000",
            "barnabas verify --phases 3 --between 'docker restart kafka-2' --json verdict.json",
            "barnabas verify -b broker:9093 --command-config client.properties --topic canary",
            "barnabas verify --history history.jsonl  # and later: barnabas verify --replay history.jsonl",
        ),
    ),
)
