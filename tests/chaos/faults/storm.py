"""Lets the faults of a plan come and go, several at once where the plan says so."""

import time
from collections.abc import Callable

from tests.chaos.cluster import Cluster
from tests.chaos.faults.effects import Effect, effect_of
from tests.chaos.faults.plan import Plan
from tests.chaos.faults.targets import victims_of

TICK_S = 0.05


class Storm:
    def __init__(self, plan: Plan, cluster: Cluster, tell: Callable[[str], None]) -> None:
        self._coming = sorted(plan.faults, reverse=True)
        self._seconds = plan.seconds
        self._cluster = cluster
        self._tell = tell
        self._active: list[tuple[float, Effect, str]] = []
        self.faults: dict[str, int] = {}
        """How many there were of each kind so far."""

    def rage(self, look: Callable[[], None]) -> None:
        """Takes as long as the plan says, and then mends everything."""
        begun = time.monotonic()
        while (passed_s := time.monotonic() - begun) < self._seconds:
            self._pass_to(1000 * passed_s)
            self._cluster.tend()
            look()
            time.sleep(TICK_S)
        self._active = []
        self._cluster.become(Effect())
        self._tell("everything is mended")

    def _pass_to(self, now_ms: float) -> None:
        over = [text for until_ms, _, text in self._active if until_ms <= now_ms]
        self._active = [each for each in self._active if each[0] > now_ms]
        begun = []
        while self._coming and self._coming[-1].at_ms <= now_ms:
            fault = self._coming.pop()
            victims = victims_of(fault, self._cluster)
            who = " and ".join(map(str, sorted(victims)))
            text = f"{fault.kind} of {who} ({fault.target}) for {fault.lasts_ms / 1000:.1f} s"
            self._active.append((now_ms + fault.lasts_ms, effect_of(fault, victims), text))
            self.faults[fault.kind] = self.faults.get(fault.kind, 0) + 1
            begun.append(text)
        if not over and not begun:
            return
        effect = Effect()
        for _, each, _ in self._active:
            effect = effect.plus(each)
        self._cluster.become(effect)
        for text in begun:
            self._tell(text)
        for text in over:
            self._tell(f"over: {text}")
