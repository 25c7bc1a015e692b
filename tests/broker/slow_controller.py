"""A controller that answers when a test does."""

from typing import Any

from barnabas.base.promise import Promise
from barnabas.replication.controller.channel import ControllerRequestContext


class SlowController:
    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.asked: list[Promise[Any]] = []

    def submit(self, request: Any, context: ControllerRequestContext) -> Promise[Any]:
        assert context.api_version in request.__versions__
        self.requests.append(request)
        self.asked.append(Promise())
        return self.asked[-1]
