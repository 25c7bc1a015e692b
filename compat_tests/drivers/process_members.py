"""Members of groups that are processes of their own and tell by lines what happens to them."""

import atexit
import signal
import subprocess
import sys
from collections.abc import Callable
from threading import Thread

from json_lines import Answer, Request

LEAVE_SECONDS = 30


class ProcessMember:
    def __init__(self, command: list[str], read_line: Callable[["ProcessMember", str], None]) -> None:
        self.assignment: set[tuple[str, int]] = set()
        self.records: list[tuple[str, int, int]] = []
        self.member_id: str | None = None
        self.revocations = 0
        self.left = False
        self.read_line = read_line
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.reader = Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            print(line, end="", flush=True)
            self.read_line(self, line)

    def revoke(self, partitions: set[tuple[str, int]]) -> None:
        self.revocations += bool(partitions)
        self.assignment = self.assignment - partitions

    def start_leaving(self) -> None:
        self.left = True
        self.process.send_signal(signal.SIGTERM)

    def leave(self) -> None:
        try:
            self.process.wait(timeout=LEAVE_SECONDS)
        finally:
            self.process.kill()
            self.process.wait()
        self.reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def snapshot(self) -> Answer:
        code = None if self.left else self.process.poll()
        return {
            "assignment": sorted(self.assignment),
            "records": list(self.records),
            "member_id": self.member_id,
            "generation": None,
            "revocations": self.revocations,
            "error": None if code is None else f"ended with {code}",
        }


def operations(
    command: Callable[[Request], list[str]], read_line: Callable[[ProcessMember, str], None]
) -> tuple[Callable[[Request], Answer], ...]:
    """The part of the contract that is about members, for one command."""
    members: dict[str, ProcessMember] = {}

    def kill_all() -> None:
        for member in members.values():
            member.process.kill()

    atexit.register(kill_all)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())

    def join(request: Request) -> Answer:
        members[request["member"]] = ProcessMember(command(request), read_line)
        return {}

    def member_states(request: Request) -> Answer:
        return {"states": {name: members[name].snapshot() for name in request["members"]}}

    def leave(request: Request) -> Answer:
        leaving = {name: members.pop(name) for name in request["members"]}
        for member in leaving.values():
            member.start_leaving()
        for member in leaving.values():
            member.leave()
        return {"states": {name: member.snapshot() for name, member in leaving.items()}}

    return (join, member_states, leave)
