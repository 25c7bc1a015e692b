"""`barnabas configs`: describe and alter what topics and brokers are set to."""

from barnabas.client import admin
from barnabas.client.admin import ConfigEntry, Resource
from barnabas.commands.cluster_options import CLUSTER_OPTIONS, connect
from barnabas.options import Arguments, Command, Option, UsageError, key_value, whole_number
from barnabas.output import print_json, print_table
from barnabas.protocol.config_types import ConfigSource, ResourceType

VALUE_WIDTH_MAX = 60
SOURCES = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: "topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "this broker, dynamic",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers, dynamic",
    ConfigSource.STATIC_BROKER_CONFIG: "broker's file",
    ConfigSource.DEFAULT_CONFIG: "default",
}


def describe(arguments: Arguments) -> int:
    resource = _resource(arguments)
    with connect(arguments) as client:
        entries = admin.describe_configs(client, [resource], documentation=arguments.documentation)[resource]
    shown = [entry for entry in sorted(entries) if arguments.all or not entry.is_default]
    if arguments.json:
        print_json([_as_json(entry, arguments.documentation) for entry in shown])
        return 0
    if not shown:
        print(f"{resource}: everything is at its default (--all shows it)")
        return 0
    if arguments.documentation:
        for entry in shown:
            print(f"{entry.name}={_value(entry)}  ({_source(entry)})\n    {entry.documentation or 'undocumented'}")
        return 0
    print_table(("KEY", "VALUE", "FROM"), [(entry.name, _short(_value(entry)), _source(entry)) for entry in shown])
    return 0


def _resource(arguments: Arguments) -> Resource:
    chosen = []
    if arguments.topic is not None:
        chosen.append(Resource(ResourceType.TOPIC, arguments.topic))
    if arguments.broker is not None:
        chosen.append(Resource(ResourceType.BROKER, str(arguments.broker)))
    if arguments.brokers_default:
        chosen.append(Resource(ResourceType.BROKER, ""))
    if len(chosen) != 1:
        raise UsageError("give one of --topic, --broker and --brokers-default")
    return chosen[0]


def _value(entry: ConfigEntry) -> str:
    if entry.sensitive:
        return "(hidden)"
    return "-" if entry.value is None else entry.value


def _short(text: str) -> str:
    return text if len(text) <= VALUE_WIDTH_MAX else text[: VALUE_WIDTH_MAX - 3] + "..."


def _source(entry: ConfigEntry) -> str:
    return SOURCES.get(entry.source, _short_name(entry.source).lower()) + (", read-only" if entry.read_only else "")


def _short_name(source: ConfigSource) -> str:
    """Returns the name that scripts know: DYNAMIC_BROKER, STATIC_BROKER, DEFAULT, and TOPIC for a topic's own."""
    return "TOPIC" if source is ConfigSource.DYNAMIC_TOPIC_CONFIG else source.name.removesuffix("_CONFIG")


def _as_json(entry: ConfigEntry, documentation: bool) -> dict[str, object]:
    fields = entry._asdict() | {"source": _short_name(entry.source)}
    if not documentation:
        del fields["documentation"]
    return fields


def alter(arguments: Arguments) -> int:
    resource = _resource(arguments)
    if not arguments.set and not arguments.delete:
        raise UsageError("nothing to change: give --set or --delete")
    with connect(arguments) as client:
        admin.alter_configs(client, resource, dict(arguments.set), arguments.delete)
    if arguments.json:
        print_json({"resource": str(resource), "set": dict(arguments.set), "deleted": arguments.delete})
    else:
        print(f"{resource}: configuration changed")
    return 0


_RESOURCES = (
    Option("-t --topic", "a topic", "NAME"),
    Option("--broker", "a broker, by its node id", "ID", whole_number),
    Option("--brokers-default", "what all brokers share"),
)

COMMANDS = (
    Command(
        "configs describe",
        "Show what a topic or a broker is set to, and where each value comes from.",
        describe,
        (
            *_RESOURCES,
            Option("-a --all", "defaults too"),
            Option("-d --documentation", "what each key means"),
            *CLUSTER_OPTIONS,
        ),
        examples=(
            "barnabas configs describe --topic orders",
            "barnabas configs describe --broker 1 --all --documentation",
        ),
    ),
    Command(
        "configs alter",
        "Change what a topic or a broker is set to.",
        alter,
        (
            *_RESOURCES,
            Option("-s --set", "a new value", "KEY=VALUE", key_value, repeated=True),
            Option("--delete", "a key that goes back to its default", "KEY", repeated=True),
            *CLUSTER_OPTIONS,
        ),
        examples=(
            "barnabas configs alter --topic orders --set retention.ms=60000 --delete max.message.bytes",
            "barnabas configs alter --brokers-default --set log.retention.ms=86400000",
        ),
    ),
)
