"""Records of transactions as bytes: the key and the value of each record in `__transaction_state`.

A key is the record's type and then the key's message, always in version 0; a value is its version and then its message.
Both numbers take two bytes. A record without a value is a tombstone: the transactional id has expired.
"""

from struct import Struct

from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.schema import decode, encode_into
from barnabas.protocol.stored.transaction_records import TransactionLogKey, TransactionLogValue

_INT16 = Struct(">h")
_TYPE: int = TransactionLogKey.__api_key__  # type: ignore[attr-defined]
_VERSIONS: range = TransactionLogValue.__versions__  # type: ignore[attr-defined]


def encode_key(key: TransactionLogKey) -> bytes:
    out = bytearray(_INT16.pack(_TYPE))
    encode_into(key, 0, out, [])
    return bytes(out)


def encode_value(value: TransactionLogValue, version: int) -> bytes:
    """Returns the bytes of a value in this version: 0 is what brokers read that know nothing of KIP-890."""
    out = bytearray(_INT16.pack(version))
    encode_into(value, version, out, [])
    return bytes(out)


def decode_record(key: bytes, value: bytes | None) -> tuple[TransactionLogKey, TransactionLogValue | None] | None:
    """Returns key and value, which is None in a tombstone. Returns None if the type is not known here. Raises
    ProtocolError if the bytes are no record."""
    if _number(key) != _TYPE:
        return None
    decoded_key = decode(TransactionLogKey, 0, key, _INT16.size)
    if value is None:
        return decoded_key, None
    version = _number(value)
    if version not in _VERSIONS:
        raise ProtocolError(f"TransactionLogValue of version {version} is not known here")
    return decoded_key, decode(TransactionLogValue, version, value, _INT16.size)


def _number(data: bytes) -> int:
    if len(data) < _INT16.size:
        raise ProtocolError(f"a transaction's record of {len(data)} bytes")
    number: int = _INT16.unpack_from(data)[0]
    return number
