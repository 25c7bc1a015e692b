"""The log dirs of brokers that have failed, as the brokers themselves say (DescribeLogDirs)."""

from collections.abc import Iterable

from barnabas.client.client import Client
from barnabas.client.errors import Unreachable
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse


def failed_log_dirs(client: Client, broker_ids: Iterable[int]) -> dict[int, list[str]]:
    """Returns the paths of failed log dirs, by broker; without the brokers that have none, or did not answer."""
    found = {broker_id: _failed_on(client, broker_id) for broker_id in broker_ids}
    return {broker_id: paths for broker_id, paths in found.items() if paths}


def _failed_on(client: Client, broker_id: int) -> list[str]:
    request = DescribeLogDirsRequest(topics=[])  # of no partition: only the dirs
    try:
        response = client.node(broker_id).request(request, DescribeLogDirsResponse)
    except (Unreachable, KafkaError):  # it has gone since the metadata were read
        client.forget(broker_id)
        return []
    return [each.log_dir for each in response.results if each.error_code == ErrorCode.KAFKA_STORAGE_ERROR]
