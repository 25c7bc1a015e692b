"""What a broker can do wrong while it looks fast."""

import struct
from collections.abc import Callable

from crc32c import crc32c

from tests.benchmarks.lying_proxy import FETCH, PRODUCE, Exchange, Lie, with_records


def none(exchange: Exchange) -> bytes:
    return exchange.forward(exchange.request)


def acknowledges_without_storing(at: int) -> Lie:
    """Answers as to the request before it, with the next offset: only reading back can tell."""

    def lie(exchange: Exchange) -> bytes:
        if exchange.api_key != PRODUCE or exchange.number != at:
            return exchange.forward(exchange.request)
        reply = bytearray(exchange.last_reply)
        offset_at = 8 + 2 + struct.unpack_from(">h", reply, 8)[0] + 4 + 4 + 2
        struct.pack_into(">q", reply, offset_at, struct.unpack_from(">q", reply, offset_at)[0] + 1)
        return bytes(reply)

    return lie


def stores_twice(exchange: Exchange) -> bytes:
    reply = exchange.forward(exchange.request)
    if exchange.api_key == PRODUCE and exchange.number == 3:
        exchange.forward(exchange.request)
    return reply


def answers_another_request(exchange: Exchange) -> bytes:
    if exchange.api_key == PRODUCE and exchange.number == 3:
        exchange.forward(exchange.request)
        return exchange.last_reply
    return exchange.forward(exchange.request)


def fetching(change: Callable[[list[bytes]], list[bytes]]) -> Lie:
    """Lies about what is stored, once there is enough of it."""

    def lie(exchange: Exchange) -> bytes:
        reply = exchange.forward(exchange.request)
        return with_records(reply, change) if exchange.api_key == FETCH else reply

    return lie


def without_the_second(batches: list[bytes]) -> list[bytes]:
    return [*batches[:1], *batches[2:]]


def the_second_again(batches: list[bytes]) -> list[bytes]:
    return [*batches[:2], *batches[1:]]


def exchanged(batches: list[bytes]) -> list[bytes]:
    """In the wrong order under the right offsets, which no CRC covers."""
    if len(batches) < 3:
        return batches
    second, third = batches[1], batches[2]
    return [batches[0], second[:8] + third[8:], third[:8] + second[8:], *batches[3:]]


def altered(batches: list[bytes]) -> list[bytes]:
    return [*batches[:1], *(batch[:-5] + b"\0" + batch[-4:] for batch in batches[1:2]), *batches[2:]]


def altered_with_a_right_crc(batches: list[bytes]) -> list[bytes]:
    return [batch[:17] + struct.pack(">I", crc32c(batch[21:])) + batch[21:] for batch in altered(batches)]
