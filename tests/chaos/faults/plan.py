"""What goes wrong in a run, and when: a seed draws it, and it can be kept as a text, edited and repeated."""

import json
from random import Random
from typing import NamedTuple

CALM_MS = 5_000
FAULTS_TOGETHER_MAX = 4
BETWEEN_BURSTS_MS = (6_000, 12_000)
LASTS_MS = (300, 12_000)
LONG_LASTS_MS = (1_000, 15_000)
"""Of links and disks."""
TO_THE_LAST_PAGE = {"barnabas.min.free.bytes": "0"}
"""Of every other seed: brokers hear from the file system that a disk is full, and do not refuse before."""

LEADER, FOLLOWER, CONTROLLER, COORDINATOR = "leader", "follower", "controller", "coordinator"
LEADER_AND_CONTROLLER, TWO, ALL = "leader and controller", "two", "all"
ONE = (LEADER, FOLLOWER, CONTROLLER, COORDINATOR)
SOME = (*ONE, LEADER_AND_CONTROLLER, TWO, ALL)

KILL, STOP, PAUSE, ROLLING, FULL_DISK = "kill", "stop", "pause", "rolling restart", "full disk"
LINKS = (
    "isolate",  # from all, both ways
    "cut from brokers",
    "cut from clients",
    "cut from one broker",  # the third one still hears both
    "deaf",  # hears nobody, and is heard
    "mute",
    "reset",  # by brokers, at each packet
    "slow sending",
    "slow hearing",
)
# How often each is in a deck; a deck is dealt to its end before the next one is shuffled.
DECK = {KILL: 4, STOP: 2, PAUSE: 2, ROLLING: 1, FULL_DISK: 1, **dict.fromkeys(LINKS, 1), "cut from brokers": 2}
NEED_LINKS = (FULL_DISK, *LINKS)


class Fault(NamedTuple):
    """Something that goes wrong for a time. Whom it hits is looked up when it begins, and drawn where nobody knows."""

    at_ms: int
    kind: str
    target: str
    lasts_ms: int
    number: int
    """What it draws from."""


class Plan(NamedTuple):
    seed: int
    seconds: int
    faults: tuple[Fault, ...]
    settings: tuple[tuple[str, str], ...] = ()
    """What brokers have beside the settings of all runs."""
    defect: str = ""
    """What is planted in brokers of Barnabas, by its name in tests/simulation/cluster/defects."""

    def text(self) -> str:
        faults = ",\n    ".join(json.dumps(fault._asdict()) for fault in self.faults)
        head = {"seed": self.seed, "seconds": self.seconds, "settings": dict(self.settings), "defect": self.defect}
        return f'{json.dumps(head)[:-1]}, "faults": [\n    {faults}\n]}}\n'


def read_plan(text: str) -> Plan:
    given = json.loads(text)
    faults = tuple(Fault(**fault) for fault in given["faults"])
    return Plan(given["seed"], given["seconds"], faults, tuple(given["settings"].items()), given["defect"])


def plan_of(seed: int, seconds: int, *, has_links: bool) -> Plan:
    """Draws bursts of faults with pauses between them, so that recovery is hit, too, and has time at other times."""
    random = Random(seed)
    faults: list[Fault] = []
    deck: list[str] = []
    at_ms = CALM_MS
    while at_ms < seconds * 1000:
        burst_ms = at_ms
        for _ in range(random.randint(1, FAULTS_TOGETHER_MAX)):
            if not deck:
                deck = [kind for kind, count in DECK.items() for _ in range(count) if has_links or kind in not_links()]
                random.shuffle(deck)
            faults += _drawn(deck.pop(), burst_ms, random)
            burst_ms += random.randint(0, 1_500)
        at_ms = burst_ms + random.randint(*BETWEEN_BURSTS_MS)
    kept = tuple(sorted(fault for fault in faults if fault.at_ms < seconds * 1000))
    return Plan(seed, seconds, kept, tuple(TO_THE_LAST_PAGE.items()) if seed % 2 else ())


def not_links() -> set[str]:
    return set(DECK) - set(NEED_LINKS)


def _drawn(kind: str, at_ms: int, random: Random) -> list[Fault]:
    shortest, longest = LONG_LASTS_MS if kind in NEED_LINKS else LASTS_MS
    lasts_ms = round(shortest * (longest / shortest) ** random.random())
    number = random.getrandbits(32)
    if kind == ROLLING:
        return [
            Fault(at_ms + 4_000 * place, STOP, f"broker {node_id}", 500, number)
            for place, node_id in enumerate(random.sample((1, 2, 3), 3))
        ]
    target = random.choice(SOME if kind in (KILL, STOP, PAUSE) else ONE)
    return [Fault(at_ms, kind, target, lasts_ms, number)]
