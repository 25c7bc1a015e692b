"""Apache Kafka's VerifiableConsumer behind the part of the drivers' contract that is about members.

The command line says how to start it; every member is one process.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from json_lines import Request, serve
from process_members import ProcessMember, operations

FOLDER = tempfile.TemporaryDirectory()


def command(request: Request) -> list[str]:
    config = Path(FOLDER.name, request["member"])
    config.write_text("".join(f"{key}={value}\n" for key, value in request["settings"].items()))
    (topic,) = request["topics"]
    where = ["--bootstrap-server", request["bootstrap"], "--topic", topic, "--group-id", request["group"]]
    return [*sys.argv[1:], *where, "--verbose", "--command-config", str(config)]


def read_line(member: ProcessMember, line: str) -> None:
    event = json.loads(line) if line.startswith("{") else {"name": "log"}
    if event["name"] == "partitions_assigned":
        member.assignment = member.assignment | partitions(event)
    elif event["name"] == "partitions_revoked":
        member.revoke(partitions(event))
    elif event["name"] == "record_data":
        member.records.append((event["topic"], event["partition"], event["offset"]))


def partitions(event: dict[str, Any]) -> set[tuple[str, int]]:
    return {(partition["topic"], partition["partition"]) for partition in event["partitions"]}


if __name__ == "__main__":
    serve(operations(command, read_line))
