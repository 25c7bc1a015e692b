"""Dials a broker once to find out whether its process is there.

Rules:
- A refused connection says that the machine lives and that nobody listens there.
- Whoever accepts is asked for ApiVersions. Any answer says that a broker, or something in front of it, is there; so
  does silence. None of that is a proof of life, but none is a proof of death either: it is *unclear*.
- A connection that was accepted and then ended without an answer is dialled again, a few times: a system that takes a
  dead process apart may end its connections before its listener.
- Without any reply in time the address is *unreachable*.
"""

from collections.abc import Callable
from enum import Enum, auto
from functools import partial

from barnabas.base.environment import Environment
from barnabas.base.network import READ, WRITE, Address, Transport
from barnabas.protocol.frame import encode_request
from barnabas.protocol.messages.api_versions import ApiVersionsRequest

REPLY_MS = 500
_AGAIN_MS = (20, 50, 100)
"""The pauses before a connection that ended without an answer is dialled again."""


def ask_for_a_sign(transport: Transport, client_id: str = "probe") -> None:
    """Asks for ApiVersions. Raises OSError if the connection failed. It is new, and has room for so little."""
    transport.send(encode_request(ApiVersionsRequest(), 0, 1, client_id))


class Outcome(Enum):
    REFUSED = auto()
    UNCLEAR = auto()
    UNREACHABLE = auto()


class Probe:
    """One question whether a process is there. `then` is called once with the outcome, never from inside the
    constructor."""

    def __init__(self, environment: Environment, address: Address, then: Callable[[Outcome], None]) -> None:
        self._environment = environment
        self._clock = environment.clock
        self._address = address
        self._then = then
        self._attempts = 0
        self._is_accepted = False
        self._has_ended = False
        self._transport: Transport | None = None
        self._timer = self._clock.call_later(REPLY_MS, self._too_late)
        self._dial()

    def _dial(self) -> None:
        if self._has_ended:
            return
        try:
            transport = self._transport = self._environment.network.connect(self._address)
        except OSError as error:
            self._clock.call_soon(self._broke, error)
            return
        transport.watch(READ | WRITE, partial(self._on_event, transport))

    def _on_event(self, transport: Transport, events: int) -> None:
        if transport is not self._transport:
            return  # it was closed in this turn, after the event
        try:
            if events & WRITE:
                ask_for_a_sign(transport)
                self._is_accepted = True
                transport.watch(READ, partial(self._on_event, transport))
            elif transport.receive_into(memoryview(bytearray(1))):
                self._end(Outcome.UNCLEAR)
            else:
                self._broke(ConnectionResetError())
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._broke(error)

    def _broke(self, error: OSError) -> None:
        self._close()
        if self._has_ended:
            return
        if isinstance(error, ConnectionRefusedError):
            self._end(Outcome.REFUSED)
        elif self._is_accepted and self._attempts < len(_AGAIN_MS):
            self._attempts += 1
            self._clock.call_later(_AGAIN_MS[self._attempts - 1], self._dial)
        elif self._is_accepted:
            self._end(Outcome.UNCLEAR)
        # Else the machine, or its name, is not there: it may come back within the time that it has.

    def _too_late(self) -> None:
        self._end(Outcome.UNCLEAR if self._is_accepted else Outcome.UNREACHABLE)

    def cancel(self) -> None:
        """Gives up; `then` is not called any more."""
        self._has_ended = True
        self._timer.cancel()
        self._close()

    def _end(self, outcome: Outcome) -> None:
        if not self._has_ended:
            self.cancel()
            self._then(outcome)

    def _close(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()
