"""The topics of a mirror: their names at the target, and how they are created there."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from barnabas.pipelines.shared.cluster import Cluster, Topic
from barnabas.pipelines.shared.failure import Failure

# These belong to a cluster, its brokers and its operators, not to the data.
NOT_COPIED = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "min.insync.replicas",
        "remote.storage.enable",
        "unclean.leader.election.enable",
    }
)
LEGAL_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


class Names(NamedTuple):
    prefix: str
    renamed: Mapping[str, str]

    def at_target(self, source: str) -> str:
        return self.renamed.get(source, self.prefix + source)

    def by_target(self, sources: Iterable[str]) -> dict[str, str]:
        """Returns source topics by their names at the target."""
        found: dict[str, str] = {}
        for source in sources:
            target = self.at_target(source)
            if not LEGAL_NAME.fullmatch(target):
                raise Failure(
                    f"{source} would be called {target!r} at the target, which is not a valid name: choose"
                    " another with --rename"
                )
            if target in found:
                raise Failure(
                    f"{found[target]} and {source} would both be called {target} at the target: give one another"
                    " name with --rename"
                )
            found[target] = source
        return found


class NewTopics(NamedTuple):
    """How to create what the target lacks."""

    source: Cluster
    target: Cluster
    configs: Mapping[str, str]
    """Settings that replace the source's; an empty value leaves the setting to the target."""
    replication_factor: int | None

    def create(self, name: str, source: str) -> None:
        found = self.source.topics([source])[source]
        try:
            self.target.create_topic(name, found.partitions, self.configs_of(found), self.replication_factor)
        except Failure as failure:
            raise Failure(f"{failure} (--topic-config KEY=VALUE sets another value, KEY= leaves it out)") from failure

    def configs_of(self, source: Topic) -> dict[str, str]:
        copied = {key: value for key, value in source.configs.items() if key not in NOT_COPIED}
        return {key: value for key, value in {**copied, **self.configs}.items() if value != ""}


def require_no_loop(names: Mapping[str, str], is_read: Callable[[str], bool]) -> None:
    """Refuses a mirror within one cluster that would read what it writes. `names` are source topics by their copies."""
    for name, topic in names.items():
        if is_read(name):
            raise Failure(
                f"source and target are the same cluster, and {topic} would be copied to {name}, which is read as well:"
                " choose a --prefix or --rename whose names the job does not read"
            )
