"""Decides on UnregisterBroker and ControllerRegistration."""

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from barnabas.protocol.stored.metadata_records import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)
from barnabas.replication.controller.brokers.moving import leaving_records
from barnabas.replication.controller.decision import Decision, refused
from barnabas.replication.controller.settings import Deciding
from barnabas.replication.metadata.image import METADATA_VERSION, MetadataImage

METADATA_VERSION_OF_CONTROLLER_REGISTRATION = 15
"""3.7-IV0."""


def unregister_broker(
    request: UnregisterBrokerRequest, image: MetadataImage, deciding: Deciding
) -> Decision[UnregisterBrokerResponse]:
    """Takes a broker out of the cluster, with all that it led. One that still runs may register again, as one that may
    have lost what it had: until then it is eligible where it was."""
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        raise refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker {request.broker_id} is not registered.")
    leaving = leaving_records(broker.broker_id, image, deciding.settings)
    gone = UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch)
    response = UnregisterBrokerResponse(error_code=ErrorCode.NONE, error_message=None)
    return Decision([*leaving, gone], response)


def register_controller(
    request: ControllerRegistrationRequest, image: MetadataImage, _: Deciding
) -> Decision[ControllerRegistrationResponse]:
    """Takes a controller's word. It takes the place of what the same controller said at its last start."""
    if image.features.get(METADATA_VERSION, 0) < METADATA_VERSION_OF_CONTROLLER_REGISTRATION:
        raise refused(ErrorCode.UNSUPPORTED_VERSION, f"The cluster's {METADATA_VERSION} knows no controllers.")
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=False,
        end_points=[
            ControllerEndpoint(name=end.name, host=end.host, port=end.port, security_protocol=end.security_protocol)
            for end in request.listeners
        ],
        features=[
            ControllerFeature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in request.features
        ],
    )
    return Decision([record], ControllerRegistrationResponse(error_code=ErrorCode.NONE, error_message=None))
