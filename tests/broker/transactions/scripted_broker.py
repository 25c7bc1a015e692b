"""Another broker, in a simulated world, which answers requests about transactions as a test tells it to."""

from typing import Any

from barnabas.base.network import SocketOptions, Transport
from barnabas.base.promise import Promise
from barnabas.broker.network.buffers import Buffers
from barnabas.broker.network.connection import Connection
from barnabas.broker.network.reply_queue import Reply
from barnabas.broker.network.session import Session
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.frame import decode_request_header, encode_response
from barnabas.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from barnabas.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from barnabas.protocol.schema import decode_from
from tests.simulation.world import World

PORT = 9092
FLEXIBLE: dict[int, int | None] = {
    ApiKey.API_VERSIONS: 3,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.WRITE_TXN_MARKERS: 1,
}
REQUESTS: dict[int, Any] = {
    ApiKey.API_VERSIONS: ApiVersionsRequest,
    ApiKey.ADD_PARTITIONS_TO_TXN: AddPartitionsToTxnRequest,
    ApiKey.WRITE_TXN_MARKERS: WriteTxnMarkersRequest,
}


class Asked:
    """A request that waits for the test to answer it."""

    def __init__(self, request: Any, version: int, correlation_id: int) -> None:
        self.request = request
        self.version = version
        self._correlation_id = correlation_id
        self.reply: Promise[Reply] = Promise()

    def answer(self, response: Any) -> None:
        self.reply.resolve(encode_response(response, self.version, self._correlation_id))


class ScriptedBroker:
    def __init__(self, world: World, broker_id: int, *, serves: dict[int, Any] = REQUESTS) -> None:
        self.world = world
        self.name = f"broker-{broker_id}"
        self.asked: list[Asked] = []
        self.connections: list[Connection] = []
        self._serves = serves
        process = world.machine(self.name).start()
        self._clock = process.environment.clock
        self._buffers = Buffers()
        process.environment.network.bind(self.name, PORT, SocketOptions(backlog=16)).accept(self._accept)

    def _accept(self, transport: Transport) -> None:
        self.connections.append(
            Connection(
                transport,
                listener="PLAINTEXT",
                clock=self._clock,
                buffers=self._buffers,
                dispatch=self._dispatch,
                max_frame_bytes=1 << 20,
                on_close=lambda connection, _reason: self.connections.remove(connection),
            )
        )

    def _dispatch(self, frame: memoryview, session: Session) -> Promise[Reply] | Reply:
        header, position = decode_request_header(frame, FLEXIBLE)
        request, _ = decode_from(REQUESTS[header.api_key], header.api_version, frame, position)
        if isinstance(request, ApiVersionsRequest):
            keys = [
                ApiVersion(api_key=key, min_version=kind.__versions__[0], max_version=kind.__versions__[-1])
                for key, kind in self._serves.items()
            ]
            return encode_response(
                ApiVersionsResponse(error_code=0, api_keys=keys), header.api_version, header.correlation_id
            )
        asked = Asked(request, header.api_version, header.correlation_id)
        self.asked.append(asked)
        return asked.reply

    def next(self) -> Asked:
        """The oldest request that is not answered."""
        self.world.scheduler.run_until_true(lambda: bool(self._open), within_ms=1_000, what="a request comes")
        return self._open[0]

    @property
    def _open(self) -> list[Asked]:
        return [asked for asked in self.asked if not asked.reply.done]

    def kill(self) -> None:
        self.world.machines[self.name].kill()
