"""Which groups and which partitions a command line names."""

from barnabas.client import group_admin
from barnabas.client.client import Client
from barnabas.client.group_admin import Group
from barnabas.options import Arguments, UsageError


def wanted_groups(client: Client, arguments: Arguments) -> list[Group]:
    """Returns the groups that are named, or all but those of a kind that only their own requests can describe."""
    if not arguments.all:
        return [group_admin.describe_group(client, name) for name in dict.fromkeys(arguments.group)]
    kinds = ("", group_admin.CLASSIC, group_admin.CONSUMER)
    names = [group.group_id for group in group_admin.list_groups(client) if group.type in kinds]
    return [group for name in names if (group := group_admin.find_group(client, name)) is not None]


def require_choice(arguments: Arguments) -> None:
    if arguments.all and arguments.group:
        raise UsageError("name groups or give --all, not both")
    if not arguments.all and not arguments.group:
        raise UsageError("name a group, or give --all")


class TopicChoice:
    """A topic, and some of its partitions or all."""

    def __init__(self, topic: str, partitions: tuple[int, ...] | None) -> None:
        self.topic = topic
        self.partitions = partitions

    def __str__(self) -> str:
        return self.topic if self.partitions is None else f"{self.topic}:{','.join(map(str, self.partitions))}"

    def has(self, partition: int) -> bool:
        return self.partitions is None or partition in self.partitions


def parse_topic(text: str) -> TopicChoice:
    """Parses `orders`, or `orders:0,2`: a topic's name has no colon."""
    topic, colon, numbers = text.partition(":")
    indexes = numbers.split(",")
    if not topic or (colon and not all(index.isdecimal() and index.isascii() for index in indexes)):
        raise ValueError("must be a topic, or a topic and its partitions such as orders:0,2")
    return TopicChoice(topic, tuple(sorted({int(index) for index in indexes})) if colon else None)
