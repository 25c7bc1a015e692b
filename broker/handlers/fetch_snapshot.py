"""FetchSnapshot (59), versions 0 and 1.

Another node of the quorum loads a snapshot of the metadata, piece by piece (KIP-630). v1 directory ids (KIP-853).
"""

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse


def handle(node: Node, request: FetchSnapshotRequest, context: RequestContext) -> Promise[FetchSnapshotResponse]:
    return node.quorum.driver.receive(request)
