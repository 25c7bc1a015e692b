"""Hands requests to the controller and its decisions to the metadata log; answers when they are true."""

from collections.abc import Callable
from typing import TypeVar

from barnabas.broker.promise import Promise
from barnabas.protocol.errors import KafkaError
from barnabas.replication.controller import Controller
from barnabas.replication.decision import Decision
from barnabas.replication.image import MetadataImage
from barnabas.replication.metadata_log import MetadataLog

R = TypeVar("R")
Decide = Callable[[Controller, MetadataImage], Decision[R]]


class ControllerShell:
    __slots__ = ("_controller", "_log", "_on_failure")

    def __init__(self, controller: Controller, log: MetadataLog, on_failure: Callable[[BaseException], None]) -> None:
        """`on_failure` is told when the metadata log cannot be written: no broker can go on after that."""
        self._controller = controller
        self._log = log
        self._on_failure = on_failure

    def submit(self, decide: Decide[R]) -> Promise[R]:
        """The response, once what it says is true and every part of this broker knows it."""
        promise: Promise[R] = Promise()

        def decided(response: R | None, error: BaseException | None) -> None:
            if error is None:
                promise.resolve(response)  # type: ignore[arg-type]
            elif isinstance(error, KafkaError) and self._log.failure is None:
                promise.fail(error)
            else:
                self._on_failure(error)

        self._log.decide(lambda image: decide(self._controller, image), decided)
        return promise
