"""One call of one of Kafka's command-line tools."""

import os
from functools import partial
from typing import NamedTuple

# Where the broker's address goes, if it is not the first option.
ADDRESSED = {
    "ClusterTool": "{arguments} --bootstrap-server {bootstrap}",
    "DumpLogSegments": "{arguments}",
    "TransactionalMessageCopier": "--broker-list {bootstrap} {arguments}",
    "ReplicaVerificationTool": "--broker-list {bootstrap} {arguments}",
}


class Invocation(NamedTuple):
    arguments: str
    """As in a shell, without the broker's address. {data} is its folder, {files} has the tables' FILES, {topic_id} is
    the id of the topic `orders`."""
    why: str
    tool: str = ""
    stdin: str = ""
    varies: str = ""
    """A regular expression of what is never twice the same: figures of a measurement."""
    in_any_order: bool = False
    """The tool goes over a set."""
    fails: bool = False
    """It is there to see how: the tool has to complain."""
    not_served: str = ""
    """The API that it needs and Barnabas does not have (see not_served.py): the tool has to report it."""
    own_process: bool = False
    """It ends its JVM, or does something when that ends."""
    until: str = ""
    """A regular expression of the line after which it is ended, for it goes on for ever."""
    everyday: bool = True
    """The others run where COMPAT=full is set."""

    @property
    def main_class(self) -> str:
        return self.tool if self.tool.startswith("kafka.") else f"org.apache.kafka.tools.{self.tool}"

    @property
    def command_line(self) -> str:
        where = ADDRESSED.get(self.tool, "--bootstrap-server {bootstrap} {arguments}")
        return where.replace("{arguments}", self.arguments)

    @property
    def in_this_run(self) -> bool:
        return self.everyday or os.environ.get("COMPAT") == "full"

    def __str__(self) -> str:
        return f"{self.tool.rpartition('.')[2]} {self.arguments}".rstrip()


def of(tool: str, *asked: Invocation) -> tuple[Invocation, ...]:
    return tuple(invocation._replace(tool=tool) for invocation in asked)


ask = Invocation
rarely = partial(Invocation, everyday=False)
wrong = partial(Invocation, fails=True)
