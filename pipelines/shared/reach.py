"""Whether anybody listens where the clusters are said to be: asked before Spark starts, which takes a while."""

import re
import socket
from collections.abc import Mapping

from barnabas.pipelines.shared.failure import Failure

CONNECT_TIMEOUT_S = 5.0
_ADDRESS = re.compile(r"(?:[\w.%-]*://)?\[?([\w.%:-]+?)\]?:(\d+)", re.ASCII)
"""As Kafka's clients read one."""


def require_brokers(servers: Mapping[str, str]) -> None:
    """By option. One that accepts a connection is enough; whether it is a broker is for Kafka's client to find out."""
    for option, addresses in servers.items():
        refusals = [_refusal(address.strip()) for address in addresses.split(",") if address.strip()]
        if refusals and None not in refusals:
            why = ", ".join(dict.fromkeys(filter(None, refusals)))
            raise Failure(
                f"{addresses}: the brokers do not answer ({why}): start one (`barnabas start`), or name others with "
                f"{option}"
            )


def _refusal(address: str) -> str | None:
    """Why there is no connection. None if there is one, and for what is not ours to judge."""
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
