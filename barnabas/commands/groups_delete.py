"""`barnabas groups delete`: groups, or what they have committed of some topics.

Every group that can be deleted is, whatever is wrong with the others; each of those gets a line of its own.
"""

from barnabas.client.client import Client
from barnabas.client.group_admin import delete_group, describe_group
from barnabas.client.group_offsets import by_topic, committed_offsets, delete_offsets
from barnabas.commands.cluster_options import connect
from barnabas.commands.group_choice import TopicChoice
from barnabas.options import Arguments, Failure
from barnabas.output import plural, print_json, say
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.types import TopicPartition


def delete(arguments: Arguments) -> int:
    deleted: list[str] = []
    failures: list[KafkaError | Failure] = []
    with connect(arguments) as client:
        for group_id in dict.fromkeys(arguments.group):
            try:
                what = _delete(client, group_id, arguments.topic)
            except (KafkaError, Failure) as error:
                failures.append(error)
                continue
            deleted.append(group_id)
            if not arguments.json:
                print(f"group {group_id}{what} deleted")
    if arguments.json and deleted:
        print_json({"deleted": deleted})
    for failure in failures[:-1]:
        say(f"barnabas: {failure}")
    if failures:
        raise failures[-1]
    return 0


def _delete(client: Client, group_id: str, choices: list[TopicChoice]) -> str:
    """Deletes the group or its offsets. Returns what was deleted, or the empty string if it was all."""
    if not choices:
        delete_group(client, group_id)
        return ""
    describe_group(client, group_id)
    committed = committed_offsets(client, group_id)
    chosen: set[TopicPartition] = set()
    for choice in choices:
        theirs = {each for each in committed if each.topic == choice.topic and choice.has(each.partition)}
        if not theirs:
            raise Failure(f"group {group_id} has no committed offsets of {choice}")
        chosen |= theirs
    delete_offsets(client, group_id, chosen)
    return f": {plural(len(chosen), 'offset')} of {', '.join(by_topic(chosen))}"
