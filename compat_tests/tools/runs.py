"""The tools against one broker, and what they say without what is a broker's own: ids, addresses, times, folders."""

import re
import shlex
import subprocess
import threading
from pathlib import Path
from typing import NamedTuple

from compat_tests.brokers import JVM_OPTIONS, KAFKA_LIBS, Broker, close_pipes, end, kafka_tool
from compat_tests.harness.driver import Driver
from compat_tests.harness.not_served import APIS_NOT_SERVED, FEATURES_NOT_SERVED, SINCE_KAFKA_4_4
from compat_tests.tools.invocation import Invocation

# In this order: a pattern, and what stands for everything that matches.
OWN = (
    (r"(?m)^\s+at .*\(.*\)\n|^\s+\.\.\. \d+ more\n", ""),  # where in the tool an exception was thrown
    (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<uuid>"),
    (r"(?<=TopicId: )\S{22}|(?:(?<=Cluster ID: )|(?<=ClusterId: ))\s*\S{22}", "<id>"),
    (r"\b1[6-9]\d{11}\b|\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*", "<time>"),
    (r"(?m)^ *barnabas\..*\n", ""),  # settings that only one of them has, by their names
    (r"[ \t]+", " "),  # columns are as wide as what is in them
    (r"(?m) $", ""),
)

SECONDS = 60

# What tools say, if it is not which API is missing.
IN_OTHER_WORDS = {
    "DescribeTransactions": "FindCoordinator request .*type=TRANSACTION.* failed due to an unexpected error",
    "AddPartitionsToTxn": "this broker coordinates no transactions",
}

# A broker that fails a request says why in words of its own; what went wrong is in the exception.
WORDS = r"(?<=Exception: ).*|(?<=Error while executing topic command : ).*|(?<=had an error: ).*"


class Said(NamedTuple):
    code: int
    printed: str
    complained: str

    @property
    def is_failure(self) -> bool:
        """Says whether a tool failed: not every tool says so in its exit code."""
        return self.code != 0 or re.search(r"Error|Exception", self.printed + self.complained) is not None


class Side:
    """A broker, and the process that the tools run in."""

    def __init__(self, broker: Broker, tools: Driver, files: Path) -> None:
        self.broker = broker
        self.tools = tools
        self.files = files
        self.topic_id = ""

    def run(self, invocation: Invocation) -> Said:
        arguments = shlex.split(
            invocation.command_line.format(
                bootstrap=self.broker.bootstrap,
                data=self.broker.data_dirs[0],
                files=self.files,
                topic_id=self.topic_id,
            )
        )
        if invocation.until:
            said = run_until(invocation.until, invocation.main_class, arguments)
        elif invocation.own_process:
            done = kafka_tool(invocation.main_class, *arguments, stdin=invocation.stdin)
            said = Said(done.returncode, done.stdout, done.stderr)
        else:
            answer = self.tools.ask("tool", tool=invocation.main_class, arguments=arguments, stdin=invocation.stdin)
            said = Said(answer["code"], answer["printed"], answer["complained"])
        if told := re.search(r"Topic: orders\s+TopicId: (\S{22})", said.printed):
            self.topic_id = told[1]
        return self._without_own(said, invocation)

    def _without_own(self, said: Said, invocation: Invocation) -> Said:
        return said._replace(
            printed=self._normal(said.printed, invocation), complained=self._normal(said.complained, invocation)
        )

    def _normal(self, text: str, invocation: Invocation) -> str:
        for data_dir in self.broker.data_dirs:
            text = text.replace(str(data_dir), "<data>")
        for port in self.broker.ports:
            text = re.sub(rf"\b{port}\b", "<port>", text)  # and not inside another number
        for pattern, name in OWN:
            text = re.sub(pattern, name, text)
        if invocation.fails:
            text = re.sub(WORDS, "<words>", text)
        if invocation.varies:
            text = re.sub(invocation.varies, "<varies>", text)
        return "\n".join(sorted(text.splitlines())) if invocation.in_any_order else text


def run_until(pattern: str, main_class: str, arguments: list[str]) -> Said:
    """Runs a tool in a process of its own, up to the line that matches."""
    command = ["java", *JVM_OPTIONS, "-cp", f"{KAFKA_LIBS}/*", main_class, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    alarm = threading.Timer(SECONDS, process.kill)  # which ends the lines below
    alarm.start()
    printed = ""
    try:
        assert process.stdout is not None
        for line in process.stdout:
            printed += line
            if re.search(pattern, line):
                break
    finally:
        alarm.cancel()
        end(process)
        close_pipes(process)
    return Said(0, printed, "")


def without_what_is_not_served(said: Said) -> Said:
    """What Kafka says, as it would say it of a broker with and without the APIs and features in not_served.py."""

    def api(line: re.Match[str]) -> str:
        if newer := SINCE_KAFKA_4_4.get(line[2]):
            return re.sub(r": (\d+) to \d+", rf": \1 to {newer[-1]}", line[0])
        return f"{line[1]}: UNSUPPORTED" if line[2] in APIS_NOT_SERVED else line[0]

    printed = re.sub(r"((\w+)\(\d+\)): \d.*?\](?=,|$)", api, said.printed, flags=re.MULTILINE)
    features = "|".join(map(re.escape, FEATURES_NOT_SERVED))
    return said._replace(printed=re.sub(rf"(?m)^Feature: (?:{features}) .*\n", "", printed))


def is_refusal(said: Said, api: str) -> bool:
    """Says whether the tool reported that the broker does not have this API, or no coordinator of transactions."""
    constant = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", api).upper()
    words = IN_OTHER_WORDS.get(api, rf"The node does not support {constant}\b")
    return re.search(words, said.printed + said.complained) is not None
