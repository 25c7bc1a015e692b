"""CRC-32C against published values and against a plain Python implementation, and the cheap way it is loaded."""

import subprocess
import sys

import crc32c as package
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import _crc32c as plain

from barnabas.protocol import crc32c as module
from barnabas.protocol.crc32c import crc32c


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),  # the check value of the catalogue of CRCs
        (bytes(32), 0x8A9136AA),  # RFC 3720, B.4
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(reversed(range(32))), 0x113FDB5C),
    ],
)
def test_published_values(data: bytes, expected: int) -> None:
    assert crc32c(data) == expected


@given(st.binary(max_size=300))
def test_agrees_with_plain_python(data: bytes) -> None:
    assert crc32c(data) == plain.crc(data)


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_goes_on_from_an_earlier_value(head: bytes, tail: bytes) -> None:
    assert crc32c(tail, crc32c(head)) == crc32c(head + tail)


def test_takes_every_kind_of_buffer() -> None:
    buffer = bytearray(b"..123456789")
    assert crc32c(memoryview(buffer)[2:]) == crc32c(buffer[2:]) == crc32c(bytes(buffer[2:])) == 0xE3069283


def test_the_package_itself_serves_where_the_extension_is_not_found() -> None:
    assert module._load_package()(b"123456789") == 0xE3069283


def test_the_package_still_imports_beside_it() -> None:
    assert package.crc32c(b"123456789") == crc32c(b"123456789")


def test_loading_it_runs_neither_the_package_nor_importlib_metadata() -> None:
    code = (
        "import sys; before = set(sys.modules);"
        "from barnabas.protocol.crc32c import crc32c; assert crc32c(b'123456789') == 0xE3069283;"
        "print(*{'crc32c', 'importlib.metadata', 'argparse', 'importlib.util'} & (set(sys.modules) - before))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == []
