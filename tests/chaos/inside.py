"""One run, in the namespaces that it was started in, or without any: what `runs.py` starts.

Arguments: a plan, the system, records a second, where to leave what explains anomalies, and, if there are no
namespaces, why. Prints its story, and at the end `!` with the outcome.
"""

import shutil
import sys
import time
import traceback
from pathlib import Path

from tests.chaos.faults.plan import Plan, read_plan
from tests.chaos.namespaces import end_with_standard_input
from tests.chaos.outcome import Outcome, line_of
from tests.chaos.run import Run
from tests.chaos.systems import SYSTEMS
from tests.chaos.world import Loopback, Namespaces, World


class Story:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self._begun = time.monotonic()

    def tell(self, text: str) -> None:
        self.lines.append(f"{time.monotonic() - self._begun:6.1f} s  {text}")
        print(self.lines[-1], flush=True)


def main(plan_text: str, system: str, rate: str, evidence: str, why_not: str) -> int:
    world: World = Loopback() if why_not else Namespaces()
    end_with_standard_input(world.abandon)
    plan, story = read_plan(plan_text), Story()
    is_explained = False
    try:
        run = Run(plan, SYSTEMS[system](world, plan), world, story.tell)
        outcome = execute(run, float(rate), why_not)
        is_explained = not outcome.anomalies
        for said in outcome.said:
            story.tell(said)
    except BaseException:
        story.lines.append(traceback.format_exc())
        raise
    finally:
        if not is_explained:
            keep(world, story, plan, Path(evidence))
        world.close()
    print(f"!{line_of(outcome)}", flush=True)
    return 0


def execute(run: Run, rate: float, why_not: str) -> Outcome:
    try:
        return run.execute(rate, why_not)
    finally:
        for node in run.cluster.nodes.values():
            node.kill()


def keep(world: World, story: Story, plan: Plan, evidence: Path) -> None:
    """Keeps the plan, the story, what all wrote and what is on the disks."""
    shutil.rmtree(evidence, ignore_errors=True)
    shutil.copytree(world.folder, evidence, ignore=shutil.ignore_patterns("ballast"))
    (evidence / "story.txt").write_text("\n".join(story.lines) + "\n")
    (evidence / "plan.json").write_text(plan.text())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
