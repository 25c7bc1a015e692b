"""The topic of a run: one of its own, or one that the user names; and where its partitions begin and end."""

import time
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from barnabas.verification.recording.settings import CannotVerify, Settings

ANSWER_S_MAX = 10
ATTEMPT_S_MAX = 2
TRY_AGAIN_S = 0.1


class Topic:
    """A topic that is ready to be written to."""

    def __init__(self, settings: Settings, name: str, partitions: int) -> None:
        self._settings = settings
        self.name = name
        self.partitions = partitions

    def bounds(self, client: Any) -> dict[int, tuple[int, int]]:
        """Returns the first offset and the one after the last of each partition of which a broker says so in time."""
        deadline = time.monotonic() + self._settings.timeout_s
        found: dict[int, tuple[int, int]] = {}
        while len(found) < self.partitions and (left := deadline - time.monotonic()) > 0:
            for index in set(range(self.partitions)) - set(found):
                try:
                    answer = client.get_watermark_offsets(
                        TopicPartition(self.name, index), timeout=min(left, ATTEMPT_S_MAX)
                    )
                except KafkaException:
                    self._look_again(client, min(left, ATTEMPT_S_MAX))
                    break
                if answer is not None:
                    found[index] = answer
        return found

    def _look_again(self, client: Any, timeout_s: float) -> None:
        """Asks who leads the partitions now: the client would go on waiting for a leader that is gone."""
        time.sleep(TRY_AGAIN_S)
        try:
            client.list_topics(self.name, timeout=timeout_s)
        except KafkaException:
            pass


def prepare(settings: Settings, run: str) -> Topic:
    """Creates the topic, or looks at the one that the user named."""
    try:
        admin = AdminClient(settings.client_properties())
        known = admin.list_topics(timeout=min(settings.timeout_s, ANSWER_S_MAX)).topics
        if settings.topic.name is None:
            name = f"barnabas-verify-{run}"
            _create(admin, settings, name)
            return Topic(settings, name, settings.topic.partitions)
        if settings.topic.name not in known:
            raise CannotVerify(f"there is no topic {settings.topic.name}", "leave out --topic, and one is created")
        _require_that_nothing_is_compacted(admin, settings.topic.name)
        return Topic(settings, settings.topic.name, len(known[settings.topic.name].partitions))
    except KafkaException as error:
        raise CannotVerify(_explained(error, settings)) from None
    except TimeoutError:
        raise CannotVerify(f"the cluster at {settings.bootstrap_servers} has not answered in time") from None


def _explained(error: KafkaException, settings: Settings) -> str:
    about = error.args[0]
    if about.name() in ("_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN", "_RESOLVE"):
        return f"no broker answers at {settings.bootstrap_servers}"
    return f"{about.str()} ({about.name()})"


def _create(admin: Any, settings: Settings, name: str) -> None:
    replicas = -1 if settings.topic.replication_factor is None else settings.topic.replication_factor
    created = admin.create_topics([NewTopic(name, settings.topic.partitions, replicas)])
    try:
        created[name].result(settings.timeout_s)
    except KafkaException as error:
        # Nobody else has this name: an earlier attempt of the client's was answered to nobody.
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def _require_that_nothing_is_compacted(admin: Any, name: str) -> None:
    resource = ConfigResource(ResourceType.TOPIC, name)
    configs = admin.describe_configs([resource])[resource].result(ANSWER_S_MAX)
    if "compact" in configs["cleanup.policy"].value:
        raise CannotVerify(
            f"topic {name} has cleanup.policy={configs['cleanup.policy'].value}",
            "what compaction removes looks like a loss: choose another topic",
        )


def remove(settings: Settings, topic: Topic, groups: list[str]) -> None:
    """Deletes what the run has created, as far as the cluster answers."""
    admin = AdminClient(settings.client_properties())
    requests = [*admin.delete_consumer_groups(groups).values()] if groups else []
    if settings.topic.name is None and not settings.topic.is_kept:
        requests += admin.delete_topics([topic.name]).values()
    deadline = time.monotonic() + min(settings.timeout_s, ANSWER_S_MAX)
    for request in requests:
        try:
            request.result(max(deadline - time.monotonic(), 0))
        except (KafkaException, TimeoutError):
            pass
