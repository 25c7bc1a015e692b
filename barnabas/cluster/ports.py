"""Ports of this machine: free ones are picked, and those that are taken are named before anything is started.

Nobody may connect to a broker that is not there: a socket is bound here for a moment, it never listens, and it is
closed before the broker starts.
"""

import socket
from collections.abc import Sequence

from barnabas.base.network import Address
from barnabas.options import Failure


def picked_ports(addresses: Sequence[str]) -> list[int]:
    """Returns a free port for each host, all different. Another program may take one at any time."""
    bound = [_bound(Address(host, 0)) for host in addresses]
    ports: list[int] = [each.getsockname()[1] for each in bound]
    for each in bound:
        each.close()
    return ports


def check_free(addresses: Sequence[Address]) -> None:
    """Raises Failure with the first address that somebody else listens on, or that is not ours."""
    for address in addresses:
        _bound(address).close()


def _bound(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        reason = (error.strerror or str(error)).lower()
        raise Failure(
            f"cannot listen on {address}: {reason}",
            "choose another --port (0 picks free ones), --internal-port or --host",
        ) from None
    return bound
