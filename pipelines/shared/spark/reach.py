"""Checks that something listens where the clusters should be, before Spark starts, which takes a while."""

import re
import socket
from collections.abc import Mapping

from barnabas.pipelines.shared.failure import Failure

CONNECT_TIMEOUT_S = 5.0
_ADDRESS = re.compile(r"(?:[\w.%-]*://)?\[?([\w.%:-]+?)\]?:(\d+)", re.ASCII)
"""An address as Kafka's clients read it."""


def require_brokers(servers: Mapping[str, str]) -> None:
    """Requires, for each option, one address that accepts connections; Kafka's client finds out whether it is a
    broker."""
    for option, addresses in servers.items():
        refusals = [_refusal(address.strip()) for address in addresses.split(",") if address.strip()]
        if refusals and None not in refusals:
            why = ", ".join(dict.fromkeys(filter(None, refusals)))
            raise Failure(
                f"{addresses}: the brokers do not answer ({why}): start one (`barnabas start`), or name others with "
                f"{option}"
            )


def _refusal(address: str) -> str | None:
    """Returns why there is no connection; None if there is one, or if we cannot tell."""
    found = _ADDRESS.fullmatch(address)
    if found is None or int(found[2]) > 65535:
        return None
    try:
        socket.create_connection((found[1], int(found[2])), CONNECT_TIMEOUT_S).close()
    except socket.gaierror:
        return f"host {found[1]} is unknown"
    except TimeoutError:
        return "no answer in time"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return None
