"""Requests that mean nothing, for every API that a listener serves, and how to wait for what becomes of them."""

from typing import Any

import pytest

from barnabas.broker.handlers import HANDLERS
from barnabas.broker.network.session import ListenerType
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.broker.wire import RawClient

SERVED = {key: handler for key, handler in HANDLERS.items() if ListenerType.BROKER in handler.listeners}
SERVED_BY_CONTROLLERS = {key: row for key, row in HANDLERS.items() if ListenerType.CONTROLLER in row.listeners}


def tamed(request: Any) -> Any:
    """Without patience: a fetch that waits for a month waits rightly. And without the one request that would be obeyed
    to everybody's harm."""
    if isinstance(request, UnregisterBrokerRequest):
        request.broker_id = 99
    if hasattr(request, "max_wait_ms"):
        request.max_wait_ms = 0
    return request


def drain(client: RawClient, api_key: ApiKey) -> None:
    try:
        while client.socket.recv(65_536):
            pass
    except ConnectionError:
        pass
    except TimeoutError:
        pytest.fail(f"no answer to {api_key.name}")
