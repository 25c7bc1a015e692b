"""Prints docs/configuration.md out of the declarations: `python -m tools.config_reference`."""

from collections.abc import Callable, Iterable

from barnabas.base.config_def import ConfigKey, text_of
from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.config.group_keys import GroupConfigKeys
from barnabas.broker.config.ignored_keys import ignored_keys
from barnabas.storage.log_config import LogConfig

_INTRODUCTION = """\
# Configuration

Barnabas is configured under Apache Kafka's own keys, and the values a client reads back are the ones Kafka would show.
What Barnabas adds begins with `barnabas.`. This page is generated from the code by
`python -m tools.config_reference`; a test keeps it current.

- **Broker keys** come from a properties file (`barnabas start --config server.properties`) and from `--set key=value`,
  which wins. Those marked *cluster-wide* can also be altered while the broker runs, for one broker or for all.
- **Topic keys** are given when a topic is created, or altered later. A topic without a value takes the broker's, from
  the first key of the column *broker default* that is set.
- **Group keys** are altered for one consumer group, which need not exist, within the broker's limits
  (`group.consumer.min.…` and `group.consumer.max.…`). A group without a value takes the broker's.
- An unknown key is refused, with the nearest known one; a key that Kafka 4.3 knows and that has no effect here is
  accepted, and listed in one line at start-up.
- *Effect* says whether a key does something today or is only checked, stored and shown.
"""

_DEVIATIONS = """\
## Where defaults and rules differ from Kafka's

| what | Kafka 4.3 | Barnabas |
|---|---|---|
| `listeners` | `PLAINTEXT://:9092`, every interface | `PLAINTEXT://127.0.0.1:9092`, this machine alone |
| `authorizer.class.name` | any class | refused unless it is empty: ACLs are not supported so far |
| `advertised.listeners` not set | the listeners, so 0.0.0.0 needs it | clients get the address that they dialled |
| `inter.broker.listener.name` not set | the listener named `PLAINTEXT` | the first listener for clients |
| `log.dirs` | `/tmp/kafka-logs` | `./data` |
| `group.initial.rebalance.delay.ms` | `3000`; `0` in the file it comes with | `3000`; `0` without a file |
| `node.id`, `process.roles`, `controller.listener.names` | must be given | `1`, `broker,controller`, `CONTROLLER` |
| `process.roles`, `controller.quorum.voters` | any roles, any quorum | both roles, a quorum of one |
| `socket.send.buffer.bytes`, `socket.receive.buffer.bytes` | `102400` | `-1`: the system adapts them |
| `listeners`, `listener.security.protocol.map` | can be altered at run time | read-only |
| security protocols | PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL | PLAINTEXT; the others are refused |
| broker's `min.compaction.lag.ms` above its `max` | accepted, and then no topic can be created | refused |
| a number such as `NaN` for a ratio | accepted | refused |
| an unknown broker key | accepted with a warning | refused |
"""


def reference() -> str:
    with_defaults = _columns("broker default", lambda key: _codes(key.broker_keys))
    broker_columns = _columns("at run time", lambda key: key.update_mode.value)
    sections = (
        _INTRODUCTION,
        "## Topic keys\n\n" + _table(LogConfig.KEYS.values(), with_defaults),
        "## Group keys\n\n" + _table(GroupConfigKeys.KEYS.values(), with_defaults),
        "## Broker keys\n\n" + _table(BrokerConfig.KEYS.values(), broker_columns),
        _DEVIATIONS,
        "## Kafka's keys that are accepted without effect\n\n"
        + _codes(sorted(set(ignored_keys()) - {"authorizer.class.name"}))
        + "\n\nSo are the forms "
        "`listener.name.<listener>.<key>`, `config.providers.<...>`, `metrics.context.<...>`, `rlmm.config.<...>` and "
        "`rsm.config.<...>`.\n",
    )
    return "\n".join(sections)


_Columns = tuple[tuple[str, Callable[[ConfigKey], str]], ...]


def _columns(heading: str, cell: Callable[[ConfigKey], str]) -> _Columns:
    return (
        ("key", lambda key: f"`{key.name}`"),
        ("type", lambda key: key.type.name.lower()),
        ("default", _default),
        ("must be", lambda key: key.validator.rule if key.validator is not None else ""),
        (heading, cell),
        ("effect", lambda key: "yes" if key.honoured else "stored"),
        ("meaning", lambda key: key.documentation),
    )


def _table(keys: Iterable[ConfigKey], columns: _Columns) -> str:
    lines = [" | ".join(heading for heading, _ in columns), "|".join("---" for _ in columns)]
    lines += [" | ".join(cell(key) for _, cell in columns) for key in sorted(keys, key=lambda key: key.name)]
    return "".join(f"| {line} |\n" for line in lines)


def _default(key: ConfigKey) -> str:
    text = text_of(key.default)
    if text is None:
        return "not set"
    return f"`{text}`" if text else "empty"


def _codes(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    print(reference(), end="")
