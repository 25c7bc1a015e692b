"""Kafka's own answers about its configuration."""

from collections.abc import Callable, Iterable, Mapping

from barnabas.protocol.errors import InvalidConfig
from tests.kafka_jars import run_java


def ask_kafka(*requests: str) -> list[list[str]]:
    """The words of each line that tests/java/ConfigProbe.java answers with."""
    return [line.split(" ") for line in run_java("ConfigProbe.java", "\n".join(requests) + "\n").splitlines()]


def is_accepted(parse: Callable[[dict[str, str]], object], texts: dict[str, str]) -> bool:
    """Returns whether our own parser takes this configuration."""
    try:
        parse(texts)
    except InvalidConfig:
        return False
    return True


def accepted_by_kafka(scope: str, cases: Iterable[Mapping[str, str]]) -> list[bool]:
    """Whether Kafka takes each mapping of `topic`, `group` or `broker` keys to texts."""
    requests = (
        " ".join([f"{scope}-check", *(word for key, text in case.items() for word in (key, hexed(text)))])
        for case in cases
    )
    return [answer == ["accepted"] for answer in ask_kafka(*requests)]


def hexed(text: str) -> str:
    return "x" + text.encode().hex()


def text_of_hex(word: str) -> str | None:
    return None if word == "-" else bytes.fromhex(word[1:]).decode()
