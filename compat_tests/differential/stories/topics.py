"""Topics as administrators see them: configurations that are set and taken back, listings page by page."""

from typing import Any

from compat_tests.differential.shapes.topics import GROUP, GROUP_CONFIGS, TOPIC, TOPIC_CONFIGS
from compat_tests.differential.stories.anything import WithTopics

SET, DELETE, APPEND, SUBTRACT = range(4)


class Configs(WithTopics):
    """One key at a time or all at once; what is described afterwards says where each value is from."""

    def tell(self) -> None:
        self.prepare()
        topic = TOPIC, f"{self.prefix}-a"
        group = GROUP, self.world.groups[0]
        for _ in range(10):
            of = self.world.pick(topic, group, p=0.25)
            if self.random.random() < 0.25:
                self.replace(of)
            else:
                self.change(of)
            self.describe(of)
        for resource_type in (TOPIC, GROUP):
            self.ask("ListConfigResources", {"ResourceTypes": [resource_type]}, 1)

    def entry(self, of: tuple[int, str]) -> dict[str, Any]:
        name, value = self.random.choice(GROUP_CONFIGS if of[0] == GROUP else TOPIC_CONFIGS)
        return {"Name": name, "Value": value}

    def change(self, of: tuple[int, str]) -> None:
        entry = self.entry(of)
        operation = self.world.pick(SET, DELETE, p=0.2)
        if entry["Name"] == "cleanup.policy":  # the one list
            operation = self.world.one(SET, APPEND, SUBTRACT, DELETE)
        configs = [{**entry, "ConfigOperation": operation}]
        resource = {"ResourceType": of[0], "ResourceName": of[1], "Configs": configs}
        self.ask("IncrementalAlterConfigs", {"Resources": [resource], "ValidateOnly": self.world.random.random() < 0.1})

    def replace(self, of: tuple[int, str]) -> None:
        entries = {entry["Name"]: entry for entry in (self.entry(of), self.entry(of))}
        resource = {"ResourceType": of[0], "ResourceName": of[1], "Configs": list(entries.values())}
        self.ask("AlterConfigs", {"Resources": [resource], "ValidateOnly": False})

    def describe(self, of: tuple[int, str]) -> None:
        keys = self.world.pick(None, ["cleanup.policy", "retention.ms"], p=0.3)
        resource = {"ResourceType": of[0], "ResourceName": of[1], "ConfigurationKeys": keys}
        self.ask("DescribeConfigs", {"Resources": [resource], "IncludeSynonyms": self.world.flag()})


class Pages(WithTopics):
    """Partitions of several topics, a page at a time, from any cursor."""

    def tell(self) -> None:
        self.prepare()
        names = [f"{self.prefix}-{name}" for name in ("c", "d", "e")]
        topics = [
            {"Name": name, "NumPartitions": count, "ReplicationFactor": 1, "Assignments": [], "Configs": []}
            for count, name in enumerate(names, 1)
        ]
        self.ask("CreateTopics", {"Topics": topics, "timeoutMs": 10_000, "validateOnly": False}, 7)
        asked = [*names, f"{self.prefix}-a", f"{self.prefix}-nope"]
        cursor = None
        for _ in range(8):
            some = [{"Name": name} for name in self.random.sample(asked, self.random.randint(2, 5))]
            body = {"Topics": some, "ResponsePartitionLimit": self.random.choice((1, 2, 3)), "Cursor": cursor}
            cursor = self.ask("DescribeTopicPartitions", body).get("NextCursor")
