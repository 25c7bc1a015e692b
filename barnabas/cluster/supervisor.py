"""Forks brokers, listens to them and to signals, and does what `supervision.py` decides. It never has a thread, so that
it can fork at any time.

A child has nothing of its parent but its own end of a channel, standard output and error, and what was imported before:
no listening socket, no other child's channel. Children leave SIGINT and SIGHUP, which a terminal sends to all, to the
supervisor.
"""

import gc
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence

from barnabas.base.environment import Report, report_bug
from barnabas.cluster.channel import FAILED, IN_SYNC, LEAVE, LEFT, READY, Channel, channel_pair
from barnabas.cluster.supervision import AllReady, Effect, End, Leave, Signal, Start, Supervision, Tell

STOPS = (signal.SIGTERM, signal.SIGINT)
_HANDLED = (*STOPS, signal.SIGHUP, signal.SIGCHLD)
_CRASHED = 70
"""The exit code of a child whose exception nobody expected."""

RunChild = Callable[[int, Channel], int]
"""Runs a broker in the process that was forked for it; returns its exit code."""


class Supervisor:
    def __init__(
        self, node_ids: Sequence[int], run_child: RunChild, report: Report, on_ready: Callable[[], None]
    ) -> None:
        """Takes `on_ready`, which is called once, when every child has said that it is ready."""
        self._supervision = Supervision(node_ids)
        self._run_child = run_child
        self._report = report
        self._on_ready = on_ready
        self._channels: dict[int, Channel] = {}
        self._pids: dict[int, int] = {}
        """The nodes by process id."""
        self._poll = select.poll()
        self._wake_read = self._wake_write = -1
        self._end: End | None = None
        # A terminal that is closed sends the same signal as an administrator who wants a rolling restart.
        self._has_terminal = any(os.isatty(descriptor) for descriptor in (0, 2))

    def run(self) -> End:
        """Returns when every child has ended. Signals are ignored from then on: what is left is to clean up."""
        self._listen_to_signals()
        gc.freeze()  # what is here now stays, and children that look for garbage would copy its pages
        self._do(self._supervision.start(_now_ms()))
        while self._end is None:
            self._turn()
        return self._end

    def _turn(self) -> None:
        deadline_ms = self._supervision.deadline_ms
        for descriptor, _events in self._poll.poll(None if deadline_ms is None else max(0, deadline_ms - _now_ms())):
            if descriptor == self._wake_read:
                self._on_signals(os.read(descriptor, 4_096))
            else:
                self._on_message(descriptor)
        self._reap()
        self._do(self._supervision.on_time(_now_ms()))

    # ---- signals

    def _listen_to_signals(self) -> None:
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._poll.register(self._wake_read, select.POLLIN)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for number in _HANDLED:
            signal.signal(number, _noted)

    def _on_signals(self, numbers: bytes) -> None:
        for number in numbers:
            if number in STOPS or (number == signal.SIGHUP and self._has_terminal):
                self._do(self._supervision.on_stop(number, _now_ms()))
            elif number == signal.SIGHUP:
                self._do(self._supervision.on_hang_up(_now_ms()))

    # ---- children

    def _on_message(self, descriptor: int) -> None:
        node_id = next(node_id for node_id, channel in self._channels.items() if channel.fileno() == descriptor)
        self._hear(node_id)
        if self._channels[node_id].is_closed_by_peer:
            self._unregister(descriptor)  # that it has ended, the kernel says

    def _hear(self, node_id: int) -> None:
        for word, text in self._channels[node_id].receive():
            if word == READY:
                self._do(self._supervision.on_ready(node_id, _now_ms()))
            elif word == IN_SYNC:
                self._do(self._supervision.on_in_sync(node_id, _now_ms()))
            elif word == LEFT:
                self._do(self._supervision.on_left(node_id))
            elif word == FAILED:
                self._supervision.on_failed(node_id, text)

    def _reap(self) -> None:
        """Takes note of every process that ended: the first process of a container inherits those of others too."""
        while self._end is None:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if (node_id := self._pids.pop(pid, None)) is not None:
                self._hear(node_id)
                channel = self._channels.pop(node_id)
                self._unregister(channel.fileno())
                channel.close()
                code = os.waitstatus_to_exitcode(status)
                self._do(self._supervision.on_exit(node_id, code, _now_ms()))

    def _unregister(self, descriptor: int) -> None:
        try:
            self._poll.unregister(descriptor)
        except KeyError:
            pass  # its end was read before

    # ---- effects

    def _do(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Start):
                self._fork(effect.node_id)
            elif isinstance(effect, Leave):
                self._channels[effect.node_id].send(LEAVE)
            elif isinstance(effect, Signal):
                self._signal(effect)
            elif isinstance(effect, AllReady):
                self._on_ready()
            elif isinstance(effect, Tell):
                write = self._report.info if effect.level == "info" else self._report.warning
                write(f"node {effect.node_id} {effect.text}", node=effect.node_id)
            else:
                self._end = effect

    def _signal(self, effect: Signal) -> None:
        for pid, node_id in self._pids.items():
            if node_id == effect.node_id:
                os.kill(pid, effect.number)  # it has not been waited for, so the id is still its own

    def _fork(self, node_id: int) -> None:
        try:
            pid, ours = self._forked(node_id)
        except OSError as error:  # no memory, or too many processes: it may be better a little later
            self._report.error(f"node {node_id} cannot be started: {error.strerror or error}", node=node_id)
            self._do(self._supervision.on_exit(node_id, _CRASHED, _now_ms()))
            return
        self._pids[pid] = node_id
        self._channels[node_id] = ours
        self._poll.register(ours.fileno(), select.POLLIN)

    def _forked(self, node_id: int) -> tuple[int, Channel]:
        ours, theirs = channel_pair()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)  # a signal for the child would wake its parent
        try:
            pid = os.fork()
            if not pid:
                ours.close()
                self._be_child(node_id, theirs, blocked)
            return pid, ours
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            theirs.close()

    def _be_child(self, node_id: int, channel: Channel, mask: Iterable[int]) -> None:
        """Runs the child and ends the process: nothing that the parent has still to do is done here."""
        code = _CRASHED
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, _end)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            for other in self._channels.values():
                other.close()
            os.close(self._wake_read)
            os.close(self._wake_write)
            code = self._run_child(node_id, channel)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else _CRASHED
        except BaseException as error:
            report_bug(self._report, error)
        finally:
            os._exit(code)


def _noted(_number: int, _frame: object) -> None:
    """Does nothing: the number of the signal is in the pipe."""


def _end(_number: int, _frame: object) -> None:
    """Ends a child that has no broker to stop so far."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)


def _now_ms() -> int:
    return int(time.monotonic() * 1_000)
