"""The options that every command which talks to a cluster shares, and the client they describe."""

import os

from barnabas.base.network import Address
from barnabas.client.client import Client
from barnabas.client.connection import parse_addresses
from barnabas.options import Arguments, Option, UsageError

ENVIRONMENT_VARIABLE = "BARNABAS_BOOTSTRAP_SERVERS"
DEFAULT_BOOTSTRAP_SERVERS = "127.0.0.1:9092"


def parse_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds < 1e6:
        raise ValueError("must be a number of seconds")
    return seconds


BOOTSTRAP_SERVERS = Option(
    "-b --bootstrap-servers",
    f"where the cluster is (default ${ENVIRONMENT_VARIABLE}, or {DEFAULT_BOOTSTRAP_SERVERS})",
    "HOST:PORT,...",
    parse_addresses,
)
CLUSTER_OPTIONS = (
    BOOTSTRAP_SERVERS,
    Option("--timeout", "how long to wait for an answer (default 10 s)", "SECONDS", parse_seconds, 10.0),
    Option("--json", "JSON instead of text"),
)


def connect(arguments: Arguments) -> Client:
    return Client(bootstrap_addresses(arguments), arguments.timeout)


def bootstrap_addresses(arguments: Arguments) -> list[Address]:
    return arguments.bootstrap_servers or _addresses_of_environment()


def _addresses_of_environment() -> list[Address]:
    text = os.environ.get(ENVIRONMENT_VARIABLE) or DEFAULT_BOOTSTRAP_SERVERS
    try:
        return parse_addresses(text)
    except ValueError as error:
        raise UsageError(f"{ENVIRONMENT_VARIABLE}={text}: {error}") from None
