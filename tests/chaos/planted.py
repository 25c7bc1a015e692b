"""A broker with a planted defect, one of those that the simulation must find: chaos that finds none proves nothing.

Arguments: the name of the defect, and those of the command `barnabas`.
"""

import sys

from barnabas.__main__ import main
from tests.simulation.cluster.defects.planted import DEFECTS

if __name__ == "__main__":
    name, *words = sys.argv[1:]
    with DEFECTS[name].plant():
        sys.exit(main(words))
