"""`make profile SCENARIO=…`: where our broker's time goes under a scenario. A flame graph and a table per request.

py-spy looks at the broker a few hundred times a second from outside; the table spreads the CPU time that the kernel
counted over what it saw. Time inside C (a send, a write, a CRC) belongs to the Python function that called it.
"""

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import generator, machine
from benchmarks.bench import Bench
from benchmarks.generator import Outcome
from benchmarks.processes import end_in_order
from benchmarks.runner import warm_up
from benchmarks.scenario import Case, Scenario
from benchmarks.scenarios import SCENARIOS
from benchmarks.svg import Drawing
from benchmarks.systems import DATA, Barnabas, Failed
from benchmarks.table import aligned

RESULTS = Path(__file__).resolve().parent / "results"
SAMPLES_PER_SECOND = 500
ROWS = 25
WAITING = "Poller.poll"  # for requests; what it costs beside the waiting is spread over the rest


@dataclass
class Seen:
    """Samples of the broker during the loads of one case, and what those loads were."""

    stacks: Counter[tuple[str, ...]] = field(default_factory=Counter)
    cpu_s: float = 0.0
    requests: float = 0.0
    bytes: float = 0.0


class ProfiledBench(Bench):
    """A bench that samples during every load and at no other time: not at the start, nor while topics are created."""

    seen: Seen | None = None

    def load(self, mode: str, **options: Any) -> Outcome:
        if self.seen is None:
            return super().load(mode, **options)
        raw = self.folder / "stacks"
        watcher = watch(self.system.pids()[0], raw)
        try:
            outcome = super().load(mode, **options)
        finally:
            watcher.send_signal(signal.SIGINT)
            watcher.wait()
        self.seen.stacks.update(read_stacks(raw))
        self.seen.cpu_s += outcome["cpu_s"]
        self.seen.requests += outcome.get("requests", 0)
        self.seen.bytes += outcome.get("bytes", 0)
        return outcome

    def read_back(self, topic: str, partitions: int, produced: Outcome) -> None:
        seen, self.seen = self.seen, None  # a check is no part of the scenario
        super().read_back(topic, partitions, produced)
        self.seen = seen


def watch(pid: int, raw: Path) -> "subprocess.Popen[bytes]":
    spy = Path(sys.executable).with_name("py-spy")
    raw.unlink(missing_ok=True)
    command = [str(spy), "record", "--pid", str(pid), "--rate", str(SAMPLES_PER_SECOND), "--format", "raw"]
    watcher = subprocess.Popen(
        [*command, "--nonblocking", "--output", str(raw), "--duration", "3600"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert watcher.stdout is not None
    first_line = watcher.stdout.readline()  # py-spy prints one once it has attached to the process
    if watcher.poll() is not None:
        raise Failed(f"py-spy cannot look at the broker: {(first_line + watcher.stdout.read()).decode()[-500:]}")
    return watcher


def read_stacks(raw: Path) -> Counter[tuple[str, ...]]:
    """Parses lines of "outer;inner;innermost count"."""
    found: Counter[tuple[str, ...]] = Counter()
    if raw.is_file():
        for line in raw.read_text().splitlines():
            frames, _, count = line.rpartition(" ")
            stack = tuple(shortened(frame) for frame in frames.split(";"))
            if count.isdigit() and not stack[-1].endswith(WAITING):  # the last line may be half written
                found[stack] += int(count)
    return found


def shortened(frame: str) -> str:
    """Shortens `append (storage/log.py:120)` to `storage/log.py append`: lines of one function belong together."""
    name, _, place = frame.partition(" (")
    path = place.rstrip(")").rpartition(":")[0] or place.rstrip(")")
    if path.startswith("<"):
        return f"compiled {path.strip('<>')}"  # a codec, compiled from its declaration
    parts = path.split("/")
    return f"{'/'.join(parts[-3:] if 'handlers' in parts[-3:] else parts[-2:])} {name}" if path else name


def breakdown(seen: Seen) -> str:
    """Returns the self time by module, then by function; per request where requests were counted, else per GB."""
    total = sum(seen.stacks.values()) or 1
    unit, share = (
        ("µs/request", seen.cpu_s * 1e6 / seen.requests)
        if seen.requests
        else ("ms/GB", seen.cpu_s * 1e3 / (seen.bytes / 1e9))
    )
    functions: Counter[str] = Counter()
    for stack, count in seen.stacks.items():
        functions[stack[-1]] += count
    modules: Counter[str] = Counter()
    for function, count in functions.items():
        modules[function.partition(" ")[0]] += count
    parts = [f"{share:.1f} {unit} of CPU; {total} samples"]
    for title, counted in (("module", modules), ("function", functions)):
        rows = [["self time by " + title, "", "share", unit]]
        rows += [[name, "", f"{n / total:.1%}", f"{share * n / total:.2f}"] for name, n in counted.most_common(ROWS)]
        parts.append(aligned(rows))
    return "\n\n".join(parts)


def flame_graph(stacks: Counter[tuple[str, ...]], title: str) -> str:
    """Draws callers below, callees above; width is time. Hover for names and shares."""
    total, depth, row, width = sum(stacks.values()) or 1, max(map(len, stacks), default=1), 18, 1400
    drawing = Drawing(width, (depth + 3) * row)
    drawing.text(10, row, title, size=14)

    def draw(entries: list[tuple[tuple[str, ...], int]], level: int, x: float) -> None:
        children: dict[str, list[tuple[tuple[str, ...], int]]] = {}
        for stack, count in entries:
            if len(stack) > level:
                children.setdefault(stack[level], []).append((stack, count))
        for name, below in sorted(children.items()):
            count = sum(n for _, n in below)
            wide = count / total * width
            if wide >= 1:
                y = (depth + 1 - level) * row
                colour = f"hsl({20 + sum(name.encode()) % 40} 80% {62 + sum(name.encode()) % 12}%)"
                drawing.rectangle(x, y, wide - 0.5, row - 1, colour, f"{name}: {count / total:.1%}")
                if wide > 60:
                    drawing.text(x + 3, y + 13, name[: int(wide / 6.5)], size=11)
                draw(below, level + 1, x)
            x += wide

    draw(list(stacks.items()), 0, 0.0)
    return str(drawing)


def profile(scenario: Scenario, cases: list[Case], scale: float) -> None:
    RESULTS.mkdir(exist_ok=True)
    program = generator.build()
    with tempfile.TemporaryDirectory(prefix="barnabas-profile-", dir=DATA) as folder:
        for case in cases:
            system = Barnabas(Path(folder) / "barnabas", dict(scenario.settings), scenario.brokers, scenario.replicas)
            bench = ProfiledBench(system, program, Path(folder), scale)
            try:
                bench.start_seconds = system.start()
                if scenario.warm_up:
                    warm_up(bench)
                bench.seen = Seen()
                scenario.measure(bench, case)
            finally:
                system.kill()
                shutil.rmtree(system.folder)
            title = f"{scenario.name}, {case.name}"
            path = RESULTS / f"profile-{scenario.name}-{cases.index(case) + 1}.svg"
            path.write_text(flame_graph(bench.seen.stacks, title))
            print(f"\n{title}\n{breakdown(bench.seen)}\n\nwritten: {path}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile", description="a flame graph of our broker")
    parser.add_argument("scenario", choices=[scenario.name for scenario in SCENARIOS], metavar="SCENARIO")
    parser.add_argument("--case", default="", help="only the case of this name")
    parser.add_argument("--scale", type=float, default=1.0)
    options = parser.parse_args()
    if reason := generator.missing():
        sys.exit(reason)
    if not Path(sys.executable).with_name("py-spy").is_file():
        sys.exit("py-spy is not here: `make setup` installs it")
    (scenario,) = [scenario for scenario in SCENARIOS if scenario.name == options.scenario]
    cases = [case for case in scenario.cases if options.case in ("", case.name)]
    if not cases:
        sys.exit(f"{scenario.name} has {', '.join(repr(case.name) for case in scenario.cases)}")
    machine.allow_open_files()
    end_in_order()
    profile(scenario, cases, options.scale)
    return 0


if __name__ == "__main__":
    sys.exit(main())
