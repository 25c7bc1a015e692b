"""Names what was on the line when the first bytes of a connection were not Kafka's."""

_HTTP_METHODS = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC")


def looks_like(first_bytes: bytes) -> str | None:
    """Returns what the bytes look like, in words for people; None if they may be Kafka's protocol after all."""
    if first_bytes[:4] in _HTTP_METHODS:
        return "an HTTP request: this port speaks Kafka's protocol, not HTTP"
    if first_bytes[:2] == b"\x16\x03":
        return "a TLS handshake: this listener is PLAINTEXT, so the client needs security.protocol=PLAINTEXT"
    if first_bytes[:4] == b"SSH-":
        return "an SSH client"
    return None
