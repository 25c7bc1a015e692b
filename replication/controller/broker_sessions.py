"""Which brokers are alive, as the active controller knows from their heartbeats. Pure: time is handed in.

Rules:
- A session begins when a broker registers, and each heartbeat prolongs it. It ends after the session timeout without
  one, or at once when the broker's process is known to be dead.
- This is in no record: a controller that becomes active knows nothing of contacts with the one before. It gives every
  unfenced broker a fresh session, or one that died together with the other controller would never be fenced
  (KAFKA-18138). Fenced brokers get none, or they could not register again until it ends (KAFKA-19130).
- A controller that was not running for a while, because its process was stopped or its machine asleep, has heard
  nobody meanwhile. That is no silence of theirs: their sessions begin again.
- A session is kept until it is forgotten, even when it has ended: somebody has to see that, and fence the broker. If
  that fails, as it does on a full disk, the next attempt is an eighth of the session timeout later.
"""

from collections.abc import Iterable

UNKNOWN_EPOCH = -1
UNKNOWN_OFFSET = -1

_ENDED_MS = 0
"""Before any time: the deadline of a session that was ended."""


class _Session:
    __slots__ = (
        "began_ms",
        "broker_epoch",
        "controlled_shutdown_offset",
        "deadline_ms",
        "fence_after_ms",
        "metadata_offset",
    )

    def __init__(self, broker_epoch: int, began_ms: int, timeout_ms: int) -> None:
        self.broker_epoch = broker_epoch
        self.began_ms = began_ms
        self.deadline_ms = began_ms + timeout_ms
        self.fence_after_ms = 0
        self.metadata_offset = UNKNOWN_OFFSET
        self.controlled_shutdown_offset: int | None = None


class BrokerSessions:
    __slots__ = ("_sessions", "session_timeout_ms")

    def __init__(self, session_timeout_ms: int) -> None:
        self.session_timeout_ms = session_timeout_ms
        self._sessions: dict[int, _Session] = {}

    def begin(self, broker_ids: Iterable[int], *, now_ms: int) -> None:
        """Gives fresh sessions to these brokers, and to no others. For a controller that becomes active, with the
        unfenced brokers."""
        timeout_ms = self.session_timeout_ms
        self._sessions = {broker_id: _Session(UNKNOWN_EPOCH, now_ms, timeout_ms) for broker_id in broker_ids}

    def contact(self, broker_id: int, broker_epoch: int, metadata_offset: int, *, now_ms: int) -> None:
        """Notes that the broker was heard of, and how much of the metadata it has applied."""
        session = self._sessions.get(broker_id)
        if session is None or session.broker_epoch not in (UNKNOWN_EPOCH, broker_epoch):
            session = self._sessions[broker_id] = _Session(broker_epoch, now_ms, self.session_timeout_ms)
        session.broker_epoch = broker_epoch
        session.deadline_ms = now_ms + self.session_timeout_ms
        session.fence_after_ms = 0
        session.metadata_offset = metadata_offset

    def end(self, broker_id: int) -> None:
        """Ends a session before its time: the broker's process is gone. A later contact takes that back."""
        if (session := self._sessions.get(broker_id)) is not None:
            session.deadline_ms = _ENDED_MS

    def renew(self, *, now_ms: int) -> None:
        """Lets all sessions that have not been ended begin again: this controller could not listen for a while."""
        for session in self._sessions.values():
            if session.deadline_ms != _ENDED_MS:
                session.deadline_ms = now_ms + self.session_timeout_ms

    def forget(self, broker_id: int) -> None:
        self._sessions.pop(broker_id, None)

    def clear(self) -> None:
        """Forgets all: this controller is not the active one any more."""
        self._sessions.clear()

    # ---- who is alive

    def is_alive(self, broker_id: int, *, now_ms: int, broker_epoch: int | None = None) -> bool:
        """Returns whether the broker has a session that has not ended; with an epoch, whether that registration of it
        has."""
        session = self._sessions.get(broker_id)
        if session is None or now_ms >= session.deadline_ms:
            return False
        return broker_epoch is None or session.broker_epoch in (UNKNOWN_EPOCH, broker_epoch)

    def began_ms(self, broker_id: int) -> int | None:
        """Returns since when this controller knows the broker, without a restart of it in between; None if it does
        not."""
        session = self._sessions.get(broker_id)
        return None if session is None else session.began_ms

    def next_deadline_ms(self) -> int | None:
        """Returns when the next broker may have to be fenced, which may be in the past; None without sessions."""
        return min((max(each.deadline_ms, each.fence_after_ms) for each in self._sessions.values()), default=None)

    def expired(self, *, now_ms: int) -> list[int]:
        """Returns the brokers whose session has ended, the longest ended first."""
        ended = [(each.deadline_ms, broker_id) for broker_id, each in self._sessions.items()]
        return [broker_id for deadline_ms, broker_id in sorted(ended) if now_ms >= deadline_ms]

    def attempt_fencing(self, broker_id: int, *, now_ms: int) -> bool:
        """Returns whether to fence the broker now: not if that was attempted a moment ago."""
        session = self._sessions[broker_id]
        if now_ms < session.fence_after_ms:
            return False
        session.fence_after_ms = now_ms + max(self.session_timeout_ms // 8, 1)
        return True

    # ---- what they have applied

    def metadata_offset(self, broker_id: int) -> int:
        """Returns the last offset of the metadata that the broker has applied, as it said; -1 if it did not."""
        session = self._sessions.get(broker_id)
        return UNKNOWN_OFFSET if session is None else session.metadata_offset

    def controlled_shutdown_offset(self, broker_id: int) -> int | None:
        """Returns which offset the active brokers must reach before this one may stop; None if it does not want to."""
        session = self._sessions.get(broker_id)
        return None if session is None else session.controlled_shutdown_offset

    def begin_controlled_shutdown(self, broker_id: int, offset: int) -> None:
        """Notes the offset of the records that move the broker's leaderships away. Only the first counts."""
        session = self._sessions[broker_id]
        if session.controlled_shutdown_offset is None:
            session.controlled_shutdown_offset = offset

    def end_controlled_shutdown(self, broker_id: int) -> None:
        self._sessions[broker_id].controlled_shutdown_offset = None
