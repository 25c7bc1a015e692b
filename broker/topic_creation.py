"""Creates the topics that clients ask about, where `auto.create.topics.enable` allows it."""

from barnabas.broker.controller_shell import ControllerShell
from barnabas.broker.promise import Promise
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from barnabas.storage.seams import Report

_DEFAULT = -1


class TopicCreation:
    __slots__ = ("_controller", "_report")

    def __init__(self, controller: ControllerShell, report: Report) -> None:
        self._controller = controller
        self._report = report

    def create(self, names: list[str]) -> Promise[dict[str, ErrorCode]]:
        """Why a topic could not be created, for those that could not."""
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name, num_partitions=_DEFAULT, replication_factor=_DEFAULT, assignments=(), configs=()
                )
                for name in names
            ]
        )
        created = self._controller.submit(lambda controller, image: controller.create_topics(request, image))
        return created.map(self._errors).or_else(lambda error: dict.fromkeys(names, error.code))

    def _errors(self, response: CreateTopicsResponse) -> dict[str, ErrorCode]:
        errors = {}
        for topic in response.topics:
            if not topic.error_code:
                self._report.info(
                    f"{topic.name} did not exist and a client asked for it: created automatically", topic=topic.name
                )
            elif topic.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                errors[topic.name] = ErrorCode(topic.error_code)
        return errors
