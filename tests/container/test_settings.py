"""Settings out of the environment: Kafka's rule, by Kafka's own word, and defaults for what nobody said."""

import os
import subprocess
from pathlib import Path

import pytest

from barnabas.base.properties import parse_properties
from barnabas.commands.start import START, properties_of
from barnabas.container_settings import for_the_jvm, key_of, start_options, unknown_settings
from barnabas.options import Failure
from tests.container.compose import APACHE_KAFKA, CONFLUENT
from tests.kafka_jars import kafka_libs

VARIABLES = {
    "KAFKA_LISTENERS": "listeners",
    "KAFKA_NUM_PARTITIONS": "num.partitions",
    "KAFKA_LOG_DIRS": "log.dirs",
    "KAFKA_LISTENER_NAME_CLIENT__SIDE_SSL_KEY_PASSWORD": "listener.name.client_side.ssl.key.password",
    "KAFKA_LISTENER_NAME_CLIENT___SIDE_SSL_KEY_PASSWORD": "listener.name.client-side.ssl.key.password",
    "KAFKA_A_B__C___D____E": "a.b_c-d-.e",  # whatever it may mean, it means the same
    "KAFKA_Mixed_Case": "mixed.case",
    "KAFKA__LEADING": ".leading",
    "KAFKA_TRAILING_": "trailing.",
    "KAFKA_OPTIONS": "options",  # not KAFKA_OPTS
}


@pytest.mark.parametrize(("variable", "key"), VARIABLES.items())
def test_the_key_of_a_variable(variable: str, key: str) -> None:
    assert key_of(variable) == key


def test_kafka_reads_the_same_keys_out_of_the_same_variables(tmp_path: Path) -> None:
    """Its image runs this class; the file that it writes is what its broker starts with."""
    folder = {name: tmp_path / name for name in ("default", "mounted", "final")}
    for path in folder.values():
        path.mkdir()
    words = ["setup"] + [word for name, path in folder.items() for word in (f"--{name}-configs-dir", str(path))]
    variables = {
        **dict.fromkeys(VARIABLES, "1"),
        "KAFKA_HEAP_OPTS": "-Xmx1G",
        "KAFKA_OPTS": "-Da=b",
        "KAFKA_JVM_PERFORMANCE_OPTS": "-server",
        "KAFKA_LOG4J_ROOT_LOGLEVEL": "WARN",
    }
    subprocess.run(
        [
            "java",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            f"{kafka_libs()}/*",
            "kafka.docker.KafkaDockerWrapper",
            *words,
        ],
        env={"PATH": os.environ["PATH"], "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw", **variables},
        capture_output=True,
        timeout=60,
        check=False,  # it goes on to format a log dir with settings that make no sense
    )
    written = parse_properties((folder["final"] / "server.properties").read_text())
    ours = [word.partition("=")[0] for word in start_options(variables, "none") if "=" in word]
    defaults = {"advertised.listeners"}
    assert written.keys() == set(VARIABLES.values())
    assert set(ours) - defaults == written.keys()


def settings(environment: dict[str, str], file: str | None = None, folder: Path = Path("none")) -> dict[str, str]:
    mounted = folder / "server.properties"
    if file is not None:
        mounted.write_text(file)
    return properties_of(START.parse(start_options(environment, str(mounted))))


DATA = "/var/lib/kafka/data"


@pytest.mark.parametrize(
    ("environment", "file", "expected"),
    [
        (  # as Kafka's image: found on the host under its usual name
            {},
            None,
            {
                "listeners": "PLAINTEXT://:9092",
                "advertised.listeners": "PLAINTEXT://localhost:9092",
                "log.dirs": DATA,
                "group.initial.rebalance.delay.ms": "0",
            },
        ),
        (
            {},
            "",
            {"listeners": "PLAINTEXT://:9092", "advertised.listeners": "PLAINTEXT://localhost:9092", "log.dirs": DATA},
        ),
        (  # whoever chooses listeners and advertises none lets clients come back to what they dialled
            {"KAFKA_LISTENERS": "PLAINTEXT://:1"},
            "",
            {"listeners": "PLAINTEXT://:1", "log.dirs": DATA},
        ),
        (  # what is advertised is opened, everywhere
            {"KAFKA_ADVERTISED_LISTENERS": "A://a.host:1, B://[::1]:2"},
            "",
            {
                "advertised.listeners": "A://a.host:1, B://[::1]:2",
                "listeners": "A://0.0.0.0:1,B://0.0.0.0:2",
                "log.dirs": DATA,
            },
        ),
        (  # also if the file says otherwise: that is how Kafka's image does it
            {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://h:1"},
            "listeners=PLAINTEXT://:2",
            {"advertised.listeners": "PLAINTEXT://h:1", "listeners": "PLAINTEXT://0.0.0.0:1", "log.dirs": DATA},
        ),
        (
            {},
            "advertised.listeners=PLAINTEXT://h:1",
            {"advertised.listeners": "PLAINTEXT://h:1", "listeners": "PLAINTEXT://0.0.0.0:1", "log.dirs": DATA},
        ),
        (
            {"KAFKA_NUM_PARTITIONS": "2", "KAFKA_LISTENERS": "PLAINTEXT://:3"},
            "num.partitions=1\nlisteners=PLAINTEXT://:2\nlog.dir=/elsewhere",
            {"num.partitions": "2", "listeners": "PLAINTEXT://:3", "log.dir": "/elsewhere"},
        ),
        (  # a compose file with variables that nobody filled in
            {"KAFKA_LISTENERS": "", "KAFKA_ADVERTISED_LISTENERS": " ", "KAFKA_LOG_DIRS": "/d", "CLUSTER_ID": ""},
            "",
            {"listeners": "PLAINTEXT://:9092", "advertised.listeners": "PLAINTEXT://localhost:9092", "log.dirs": "/d"},
        ),
        (  # values are taken as they are
            {"KAFKA_SSL_PRINCIPAL_MAPPING_RULES": "RULE:^CN=(.*?),OU=a b$/$1/,DEFAULT", "KAFKA_BROKER_RACK": "-r"},
            "listeners=PLAINTEXT://:1\nlog.dirs=/d",
            {
                "listeners": "PLAINTEXT://:1",
                "log.dirs": "/d",
                "ssl.principal.mapping.rules": "RULE:^CN=(.*?),OU=a b$/$1/,DEFAULT",
                "broker.rack": "-r",
            },
        ),
    ],
)
def test_environment_and_file(
    environment: dict[str, str], file: str | None, expected: dict[str, str], tmp_path: Path
) -> None:
    assert settings(environment, file, tmp_path) == expected


def test_options_of_the_command_line_have_the_last_word() -> None:
    options = start_options({"KAFKA_NUM_PARTITIONS": "2", "KAFKA_LOG_DIRS": "/a", "CLUSTER_ID": "from-there"}, "none")
    words = ["--set", "num.partitions=3", "--port", "7", "--data-dir", "/b", "--cluster-id", "from-here"]
    arguments = START.parse([*options, *words])
    properties = properties_of(arguments)
    assert (properties["num.partitions"], properties["log.dirs"], arguments.cluster_id) == ("3", "/b", "from-here")
    assert (properties["listeners"], properties["advertised.listeners"]) == (
        "PLAINTEXT://:7",
        "PLAINTEXT://localhost:7",
    )


@pytest.mark.parametrize(
    ("level", "expected"),
    [("DEBUG", "info"), ("INFO", "info"), ("warn", "warning"), ("ERROR", "error"), ("OFF", "error"), ("LOUD", "info")],
)
def test_the_level_of_the_log(level: str, expected: str) -> None:
    assert START.parse(start_options({"KAFKA_LOG4J_ROOT_LOGLEVEL": level}, "none")).log_level == expected


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    circle = tmp_path / "server.properties"
    circle.symlink_to(circle)
    for path in (tmp_path, circle):
        with pytest.raises(Failure, match="cannot read"):
            start_options({}, str(path))


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (APACHE_KAFKA, []),
        (CONFLUENT, ["KAFKA_ZOOKEEPER_CONNECT"]),
        ({"KAFKA_NUM_PARTITONS": "3"}, ["KAFKA_NUM_PARTITONS"]),
        (  # Kubernetes, where a service is called kafka
            {"KAFKA_PORT": "tcp://10.0.0.1:9092", "KAFKA_SERVICE_HOST": "10.0.0.1", "KAFKA_PORT_9092_TCP_PROTO": "tcp"},
            ["KAFKA_PORT", "KAFKA_PORT_9092_TCP_PROTO", "KAFKA_SERVICE_HOST"],
        ),
        ({"KAFKA_OPTS": "-Da=b", "PATH": "/bin", "NOT_KAFKA_LISTENERS": "x"}, []),
        ({"KAFKA_LISTENER_NAME_INTERNAL_SSL_KEY_PASSWORD": "x", "KAFKA_CONFIG_PROVIDERS": "file"}, []),
    ],
)
def test_variables_that_no_broker_knows(environment: dict[str, str], expected: list[str]) -> None:
    assert sorted(unknown_settings(environment)) == expected


def test_a_slip_of_the_pen_is_told_what_was_meant() -> None:
    (about,) = unknown_settings({"KAFKA_NUM_PARTITONS": "3"}).values()
    assert about.endswith("did you mean num.partitions?")


def test_variables_for_the_jvm() -> None:
    assert for_the_jvm(CONFLUENT) == ["KAFKA_HEAP_OPTS", "KAFKA_JMX_HOSTNAME", "KAFKA_JMX_PORT"]
