"""Lines between a supervisor and one of its brokers, over a socket that only these two processes have open.

A broker says `ready`, `in-sync`, `left`, or `failed` and why; a supervisor says `leave`. When the supervisor ends,
however that happens, its end is closed, and the broker reads the end of the stream.
"""

import socket

READY = "ready"
IN_SYNC = "in-sync"
LEFT = "left"
FAILED = "failed"
LEAVE = "leave"

_RECEIVED_AT_ONCE = 65_536


class Channel:
    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._socket.setblocking(False)
        self._received = b""
        self.is_closed_by_peer = False

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, word: str, text: str = "") -> None:
        """Sends a line. If nobody is there to read it any more, the end of the stream will say so."""
        line = " ".join(f"{word} {text}".split()) + "\n"
        try:
            self._socket.send(line.encode())
        except OSError:
            pass

    def receive(self) -> list[tuple[str, str]]:
        """Returns the lines that have arrived, each as its first word and the rest."""
        while not self.is_closed_by_peer:
            try:
                data = self._socket.recv(_RECEIVED_AT_ONCE)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            self._received += data
            self.is_closed_by_peer = not data
        *lines, self._received = self._received.split(b"\n")
        found = [line.decode(errors="replace").partition(" ") for line in lines]
        return [(word, text) for word, _, text in found]

    def close(self) -> None:
        self._socket.close()


def channel_pair() -> tuple[Channel, Channel]:
    ours, theirs = socket.socketpair()
    return Channel(ours), Channel(theirs)
