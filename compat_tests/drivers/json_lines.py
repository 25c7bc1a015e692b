"""What the Python drivers share: a request per line in, an answer per line out (see harness/driver.py)."""

import base64
import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

Request = dict[str, Any]
Answer = dict[str, Any]

LARGEST_BYTES = 16 * 1024 * 1024


def serve(operations: Iterable[Callable[[Request], Answer]]) -> None:
    """Answers until stdin ends; an exception is an answer too."""
    by_name = {operation.__name__: operation for operation in operations}
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints must not get between the answers
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = by_name[request["op"]](request)
        except Exception as error:
            answer = {"error": type(error).__name__, "message": str(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def to_bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def to_text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def headers_in(record: dict[str, Any]) -> list[tuple[str, bytes | None]]:
    return [(key, to_bytes(value)) for key, value in record.get("headers", [])]


def record_out(
    partition: int,
    offset: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]],
) -> dict[str, Any]:
    return {
        "partition": partition,
        "offset": offset,
        "timestamp": timestamp,
        "key": to_text(key),
        "value": to_text(value),
        "headers": [[name, to_text(data)] for name, data in headers],
    }
