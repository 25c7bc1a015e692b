"""One run, in the namespaces that it was started in, or without any: what `runs.py` starts.

Arguments: the file of a plan, the system, records a second, where to write the outcome, where to leave what explains
anomalies, and, if there are no namespaces, why.
"""

import shutil
import sys
import time
import traceback
from pathlib import Path

from tests.chaos.namespaces import end_with_standard_input
from tests.chaos.outcome import write_outcome
from tests.chaos.plan import read_plan
from tests.chaos.run import Run
from tests.chaos.systems import SYSTEMS
from tests.chaos.world import Loopback, Namespaces, World


def main(plan_file: str, system: str, rate: str, outcome_file: str, evidence: str, why_not: str) -> int:
    end_with_standard_input()
    plan = read_plan(Path(plan_file))
    world: World = Loopback() if why_not else Namespaces()
    story: list[str] = []
    begun = time.monotonic()

    def tell(text: str) -> None:
        line = f"{time.monotonic() - begun:6.1f} s  {text}"
        story.append(line)
        print(line, flush=True)

    is_explained = False
    try:
        run = Run(plan, SYSTEMS[system](world), world, tell)
        try:
            outcome = run.execute(float(rate), why_not)
        finally:
            for node in run.cluster.nodes.values():
                node.kill()
        is_explained = not outcome.anomalies
        write_outcome(outcome, Path(outcome_file))
        for said in outcome.said:
            tell(said)
    except BaseException:
        story.append(traceback.format_exc())
        raise
    finally:
        if not is_explained:
            keep(world, story, Path(plan_file), Path(evidence))
        world.close()
    return 0


def keep(world: World, story: list[str], plan_file: Path, evidence: Path) -> None:
    """Keeps the plan, the story, what all wrote and what is on the disks."""
    shutil.rmtree(evidence, ignore_errors=True)
    shutil.copytree(world.folder, evidence, ignore=shutil.ignore_patterns("ballast"))
    (evidence / "story.txt").write_text("\n".join(story) + "\n")
    shutil.copy(plan_file, evidence / "plan.json")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
