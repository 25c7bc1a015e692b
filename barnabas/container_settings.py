"""A broker's settings out of the environment, as Apache Kafka's own image takes them.

- KAFKA_NUM_PARTITIONS is num.partitions: `_` stands for a dot, `__` for an underscore, `___` for a dash.
- A variable wins over the same key of a file that is mounted as /mnt/shared/config/server.properties.
- Without KAFKA_LISTENERS those of KAFKA_ADVERTISED_LISTENERS are opened, on every interface.
- CLUSTER_ID names a cluster that is new.
- Deviation: Kafka's image drops its defaults as soon as anything is set. Here each stays until it is set: port 9092 on
  every interface, advertised as localhost, and data in the volume.
- A variable that is no setting of a broker (the JVM's options, what Kubernetes adds for a service called kafka) changes
  nothing, and is named in the log.
"""

import os
from collections.abc import Mapping

from barnabas.commands.start import read_properties

MOUNTED_FILE = "/mnt/shared/config/server.properties"
DATA_DIR = "/var/lib/kafka/data"
DEFAULT_LISTENER = "PLAINTEXT://:9092"
DEFAULT_ADVERTISED_LISTENER = "PLAINTEXT://localhost:9092"

_PREFIX = "KAFKA_"
_LOG_LEVEL = "KAFKA_LOG4J_ROOT_LOGLEVEL"
_FOR_THE_JVM = {
    "KAFKA_GC_LOG_OPTS",
    "KAFKA_HEAP_OPTS",
    "KAFKA_JMX_HOSTNAME",
    "KAFKA_JMX_OPTS",
    "KAFKA_JMX_PORT",
    "KAFKA_JVM_PERFORMANCE_OPTS",
    "KAFKA_LOG4J_LOGGERS",
    "KAFKA_LOG4J_OPTS",
    "KAFKA_OPTS",
    "KAFKA_TOOLS_LOG4J_LOGLEVEL",
    "KAFKA_VERSION",
}
"""Variables that Kafka's scripts read; none of them is a key of server.properties."""

_LEVELS = {
    "ALL": "info",
    "TRACE": "info",
    "DEBUG": "info",
    "INFO": "info",
    "WARN": "warning",
    "ERROR": "error",
    "FATAL": "error",
    "OFF": "error",
}


def key_of(variable: str) -> str:
    """Returns the key that a variable stands for: KAFKA_A_B, KAFKA_A__B and KAFKA_A___B are a.b, a_b and a-b."""
    name = variable.removeprefix(_PREFIX).lower().replace("_", ".")
    return name.replace("...", "-").replace("..", "_")


def start_options(environment: Mapping[str, str], mounted_file: str = MOUNTED_FILE) -> list[str]:
    """Returns the options of `barnabas start` for the settings of the environment and the mounted file."""
    has_file = _is_there(mounted_file)
    given = {key_of(variable): environment[variable] for variable in _settings(environment)}
    for key in ("listeners", "advertised.listeners"):
        if not given.get(key, "-").strip():
            del given[key]  # as compose leaves a variable that is not filled in
    options = ["--config", mounted_file] if has_file else []
    for key, value in {**_defaults(given, read_properties(mounted_file) if has_file else {}), **given}.items():
        options += ["--set", f"{key}={value}"]
    if cluster_id := environment.get("CLUSTER_ID"):
        options += ["--cluster-id", cluster_id]
    if level := _LEVELS.get(environment.get(_LOG_LEVEL, "").upper()):
        options += ["--log-level", level]
    return options


def _is_there(path: str) -> bool:
    """Says whether the file exists, or may not be looked at: reading it then raises, and no setting is dropped
    silently."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        pass
    return True


def _defaults(given: Mapping[str, str], of_file: Mapping[str, str]) -> dict[str, str]:
    defaults = {}
    advertised = given.get("advertised.listeners")
    if advertised and "listeners" not in given:
        defaults["listeners"] = _on_every_interface(advertised)
    elif "listeners" not in {*given, *of_file}:
        if advertised := of_file.get("advertised.listeners"):
            defaults["listeners"] = _on_every_interface(advertised)
        else:
            defaults |= {"listeners": DEFAULT_LISTENER, "advertised.listeners": DEFAULT_ADVERTISED_LISTENER}
    if not {"log.dirs", "log.dir"} & {*given, *of_file}:
        defaults["log.dirs"] = DATA_DIR
    return defaults


def _on_every_interface(advertised: str) -> str:
    addresses = (entry.strip().partition("://") for entry in advertised.split(","))
    return ",".join(f"{name}://0.0.0.0:{address.rpartition(':')[2]}" for name, _, address in addresses)


def _settings(environment: Mapping[str, str]) -> list[str]:
    others = _FOR_THE_JVM | {_LOG_LEVEL}
    return [variable for variable in environment if variable.startswith(_PREFIX) and variable not in others]


def unknown_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that look like settings but are no keys of a broker, each with the reason."""
    from barnabas.broker.config.broker_config import BrokerConfig
    from barnabas.protocol.errors import InvalidConfig

    found = {}
    for variable in _settings(environment):
        try:
            BrokerConfig.key(key_of(variable))
        except InvalidConfig as error:
            found[variable] = error.message
    return found


def for_the_jvm(environment: Mapping[str, str]) -> list[str]:
    """Returns the variables that are meant for Kafka's JVM; there is none here."""
    return sorted(_FOR_THE_JVM & environment.keys())
