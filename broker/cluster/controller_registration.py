"""A controller tells the cluster where it is and what it supports (KIP-919), each time that it starts."""

from collections.abc import Sequence

from barnabas.base.environment import Environment
from barnabas.base.promise import Promise
from barnabas.base.uuids import random_uuid
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
)
from barnabas.replication.controller.channel import ControllerChannel, own_context
from barnabas.replication.controller.cluster_control import FEATURES_OF_A_NODE
from barnabas.replication.quorum.voters import Address

_PLAINTEXT = 0


def register_controller(
    controller: ControllerChannel, node_id: int, addresses: Sequence[Address], environment: Environment
) -> None:
    """Asks until the active controller answers; a refusal is reported, and changes nothing else."""
    request = ControllerRegistrationRequest(
        controller_id=node_id,
        incarnation_id=random_uuid(environment.random),
        zk_migration_ready=False,
        listeners=[
            Listener(name=name, host=host, port=port, security_protocol=_PLAINTEXT) for name, host, port in addresses
        ],
        features=[
            Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, (lowest, highest) in FEATURES_OF_A_NODE.items()
        ],
    )

    def ask() -> None:
        controller.submit(request, own_context(request)).when_done(answered)

    def answered(answer: Promise[object]) -> None:
        if isinstance(answer.error, KafkaError) and answer.error.code == ErrorCode.REQUEST_TIMED_OUT:
            ask()
        elif answer.error is not None:
            environment.report.warning(f"the cluster does not take note of this controller: {answer.error}")

    ask()
