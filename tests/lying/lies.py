"""What a broker can do wrong while it looks fast.

All lies are about partition 0 and batches of one record, where the offset is the number of the request before.
"""

import struct
import time
from collections.abc import Callable

from crc32c import crc32c

from tests.lying.proxy import (
    API_VERSIONS,
    END_TXN,
    FETCH,
    FIND_COORDINATOR,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
    SYNC_GROUP,
    Exchange,
    Lie,
    with_records,
)

NOT_COORDINATOR, TOPIC_AUTHORIZATION_FAILED, OUT_OF_ORDER_SEQUENCE_NUMBER = 16, 29, 45
FETCH_VERSION_MIN = 4
RECORD_AT = 61 + 8  # where the value of a batch's first record begins, if it has 64 to 8,191 bytes and no key


def none(exchange: Exchange) -> bytes:
    return exchange.forward(exchange.request)


def acknowledges_without_storing(at: int) -> Lie:
    """Answers as to the request before it, with the next offset: only reading back can tell."""

    def lie(exchange: Exchange) -> bytes:
        if exchange.api_key != PRODUCE or exchange.number != at:
            return exchange.forward(exchange.request)
        return exchange.last_reply.replace(acknowledgement(at - 2), acknowledgement(at - 1), 1)

    return lie


def acknowledgement(offset: int, error: int = 0) -> bytes:
    """What every version of a Produce reply says about a partition."""
    return struct.pack(">ihq", 0, error, offset)


def refuses_with(error: int) -> Lie:
    """Stores the fifth record, and says that it did not."""

    def lie(exchange: Exchange) -> bytes:
        reply = exchange.forward(exchange.request)
        if exchange.api_key != PRODUCE or exchange.number != 5:
            return reply
        return reply.replace(acknowledgement(4), acknowledgement(-1, error), 1)

    return lie


refuses = refuses_with(TOPIC_AUTHORIZATION_FAILED)
breaks_the_order = refuses_with(OUT_OF_ORDER_SEQUENCE_NUMBER)


def stalls(exchange: Exchange) -> bytes:
    if exchange.api_key == PRODUCE and exchange.number == 5:
        time.sleep(2)  # the broker's stall, not a wait for it
    return exchange.forward(exchange.request)


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


def without_the_fourth(batches: list[bytes]) -> list[bytes]:
    return [*batches[:3], *batches[4:]]


def the_second_again(batches: list[bytes]) -> list[bytes]:
    return [*batches[:2], *batches[1:]]


def exchanged(batches: list[bytes]) -> list[bytes]:
    """In the wrong order under the right offsets, which no CRC covers."""
    if len(batches) < 3:
        return batches
    second, third = batches[1], batches[2]
    return [batches[0], second[:8] + third[8:], third[:8] + second[8:], *batches[3:]]


def the_second_in_place_of_the_third(batches: list[bytes]) -> list[bytes]:
    if len(batches) < 3:
        return batches
    return [*batches[:2], batches[2][:8] + batches[1][8:], *batches[3:]]


def altered(batches: list[bytes]) -> list[bytes]:
    return [*batches[:1], *(batch[:-5] + b"\0" + batch[-4:] for batch in batches[1:2]), *batches[2:]]


def altered_with_a_right_crc(batches: list[bytes]) -> list[bytes]:
    return [batch[:17] + struct.pack(">I", crc32c(batch[21:])) + batch[21:] for batch in altered(batches)]


def nothing(batches: list[bytes]) -> list[bytes]:
    """Under a high watermark that says otherwise."""
    return []


def without_newer_fetches(lie: Lie) -> Lie:
    """Speaks of no version of Fetch above 11, which `with_records` understands, whatever the client could use."""

    def older(exchange: Exchange) -> bytes:
        if exchange.api_key != API_VERSIONS:
            return lie(exchange)
        reply = exchange.forward(exchange.request)
        versions_at = reply.find(struct.pack(">hh", FETCH, FETCH_VERSION_MIN)) + 4
        return reply[:versions_at] + struct.pack(">h", 11) + reply[versions_at + 2 :]

    return older


def the_first_and_then_nothing(exchange: Exchange) -> bytes:
    reply = exchange.forward(exchange.request)
    if exchange.api_key != FETCH:
        return reply
    return with_records(reply, (lambda batches: batches[:1]) if exchange.number == 1 else nothing)


def alters(value: bytes) -> Lie:
    """In any version of Fetch: the batch is found by what is in it."""

    def lie(exchange: Exchange) -> bytes:
        reply = bytearray(exchange.forward(exchange.request))
        if exchange.api_key == FETCH and (at := reply.find(value)) >= 0:
            batch = at - RECORD_AT
            end = batch + 12 + struct.unpack_from(">i", reply, batch + 8)[0]
            reply[at + len(value) - 1] ^= 1
            struct.pack_into(">I", reply, batch + 17, crc32c(bytes(reply[batch + 21 : end])))
        return bytes(reply)

    return lie


def commits_all_transactions(exchange: Exchange) -> bytes:
    """In EndTxn as librdkafka sends it, the last byte says what is asked for."""
    request = exchange.request
    return exchange.forward(request[:-1] + b"\1" if exchange.api_key == END_TXN else request)


def aborts_the_third_transaction(exchange: Exchange) -> bytes:
    request = exchange.request
    is_third = exchange.api_key == END_TXN and exchange.number == 3
    return exchange.forward(request[:-1] + b"\0" if is_third else request)


def shows_what_is_not_committed(exchange: Exchange) -> bytes:
    """Asks for it in the place of the consumer, in Fetch 11."""
    request = bytearray(exchange.request)
    if exchange.api_key == FETCH:
        client_id_bytes = struct.unpack_from(">h", request, 8)[0]
        request[10 + client_id_bytes + 16] = 0
    return exchange.forward(bytes(request))


def forgets_commits(exchange: Exchange) -> bytes:
    """All but the first, which is of offset 0."""
    if exchange.api_key == OFFSET_COMMIT and exchange.number > 1:
        return exchange.last_reply
    return exchange.forward(exchange.request)


def about_no_topic(api_key: int, header_bytes: int) -> Lie:
    def lie(exchange: Exchange) -> bytes:
        reply = exchange.forward(exchange.request)
        return reply[:header_bytes] + struct.pack(">i", 0) if exchange.api_key == api_key else reply

    return lie


commits_nothing = about_no_topic(OFFSET_COMMIT, 8)
remembers_nothing = about_no_topic(OFFSET_FETCH, 4)


def answers_twice_about_one_partition(exchange: Exchange) -> bytes:
    """The last two of an OffsetCommit reply, six bytes each."""
    reply = exchange.forward(exchange.request)
    return reply[:-6] + reply[-12:-6] if exchange.api_key == OFFSET_COMMIT else reply


def never_coordinates(exchange: Exchange) -> bytes:
    reply = exchange.forward(exchange.request)
    if exchange.api_key != FIND_COORDINATOR:
        return reply
    return reply[:8] + struct.pack(">h", NOT_COORDINATOR) + reply[10:]


def assigns_the_same_to_all() -> Lie:
    first: list[bytes] = []

    def lie(exchange: Exchange) -> bytes:
        reply = exchange.forward(exchange.request)
        if exchange.api_key != SYNC_GROUP or struct.unpack_from(">h", reply, 8)[0]:
            return reply
        first.append(reply)
        return first[0]

    return lie


def assigns_nothing(exchange: Exchange) -> bytes:
    reply = exchange.forward(exchange.request)
    return reply[:10] + struct.pack(">ihii", 10, 0, 0, -1) if exchange.api_key == SYNC_GROUP else reply
