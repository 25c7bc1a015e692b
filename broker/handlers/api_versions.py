"""ApiVersions (18), versions 0 to 5.

v1 throttle time, v3 features and the client's name (KIP-511, KIP-584), v4 features whose lowest version is 0,
v5 the cluster and the node that the client means to reach (KIP-1242).

A version above ours is answered, not refused: with the body of version 0, UNSUPPORTED_VERSION and the one entry that
tells the client what to ask next. Its response header is v0 in every version.
Other brokers say by their client id that they watch this one (`cluster/suspects.py`).
"""

import re

from barnabas.broker.cluster.inter_broker import WATCHER
from barnabas.broker.handlers import HANDLERS
from barnabas.broker.network.session import ListenerType
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from barnabas.replication.controller.cluster_control import FEATURES_OF_A_NODE

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_LOWEST_IS_0_SINCE = 4

SERVED = {
    listener_type: [
        ApiVersion(api_key=api_key, min_version=handler.versions.start, max_version=handler.versions.stop - 1)
        for api_key, handler in HANDLERS.items()
        if listener_type in handler.listeners
    ]
    for listener_type in ListenerType
}
"""The APIs that each kind of listener answers."""


def handle(node: Node, request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    if context.client_id is not None and context.client_id.startswith(WATCHER):
        node.watched_by(context.client_id, context.session)
    if context.api_version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=())
    image = node.image
    if request.cluster_id is not None and (request.cluster_id, request.node_id) != (image.cluster_id, node.node_id):
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED, api_keys=())
    return ApiVersionsResponse(
        error_code=0,
        api_keys=SERVED[context.listener_type],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
            for name, (lowest, highest) in FEATURES_OF_A_NODE.items()
            if lowest > 0 or context.api_version >= _LOWEST_IS_0_SINCE
        ],
        finalized_features_epoch=image.end_offset - 1,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in (*image.features.items(), ("kraft.version", node.quorum.kraft_version))
            if level
        ],
    )


def unsupported_version(highest: int) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=highest)],
    )
