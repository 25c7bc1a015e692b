"""The image's health check: asks the broker who is in its cluster. 0: it answered. 1: it did not, and why.

The broker is asked where the container's settings say that it listens for clients: the environment, the mounted file
and the options that it was started with.
"""

import os
import sys
from collections.abc import Sequence

from barnabas.base.network import Address
from barnabas.client.client import Client
from barnabas.commands.start import START, first_for_clients, properties_of
from barnabas.container_settings import start_options
from barnabas.options import Failure, UsageError
from barnabas.protocol.errors import KafkaError

TIMEOUT_S = 2.0  # tried twice, within the five seconds that Docker waits
_WILDCARDS = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


def listening_address(options: Sequence[str]) -> Address:
    """Returns the address at which a broker with these options of `barnabas start` can be reached from the same
    machine."""
    _, _, host, port = first_for_clients(properties_of(START.parse(options)))
    host = host.strip("[]")
    if not port.isdecimal() or port == "0":
        raise Failure(f"nobody knows which port the broker listens on ({port or 'none'} is set)")
    return Address(_WILDCARDS.get(host, host), int(port))


def words_of_entry_point(command_line: bytes) -> list[str]:
    """Returns the options after `python -m barnabas.container`, whatever stands before it."""
    words = [os.fsdecode(word) for word in command_line.split(b"\0")[:-1]]
    module = "barnabas.container"
    return words[words.index(module) + 1 :] if module in words else []


def check() -> int:
    try:
        with open("/proc/1/cmdline", "rb") as file:
            words = words_of_entry_point(file.read())
        address = listening_address([*start_options(os.environ), *words])
        with Client([address], TIMEOUT_S) as client:
            brokers = client.metadata(()).brokers
    except (Failure, UsageError, KafkaError, OSError) as error:
        print(f"no broker: {error}")
        return 1
    print(f"{len(brokers)} broker at {address}")
    return 0 if brokers else 1


if __name__ == "__main__":
    sys.exit(check())
