"""What the image runs: `barnabas start` with the settings of the environment; further words are options of it.

Another command's name in front runs that command instead: `docker run --rm --network host barnabas topics list`.
"""

import os
import sys
from collections.abc import Sequence

from barnabas.__main__ import COMMANDS, main
from barnabas.commands.start import START, end_on_sigterm, report_of
from barnabas.container_settings import for_the_jvm, start_options, unknown_settings
from barnabas.options import Failure, UsageError


def run(words: Sequence[str]) -> int:
    if words and words[0] in COMMANDS:
        return main(words)
    end_on_sigterm()
    ignored = unknown_settings(os.environ)
    try:
        options = start_options({name: value for name, value in os.environ.items() if name not in ignored})
    except Failure as error:
        print(f"barnabas: {error}", file=sys.stderr)
        return 1
    _warn([*options, *words], ignored)
    return main(["start", *options, *words])


def _warn(words: Sequence[str], ignored: dict[str, str]) -> None:
    try:
        report = report_of(START.parse(words))
    except UsageError:
        return  # `barnabas start` says what is wrong
    for variable, about in ignored.items():
        report.warning(f"{variable} has no effect: {about}", variable=variable)
    if names := for_the_jvm(os.environ):
        report.info(f"there is no JVM here that could use {', '.join(names)}", variables=names)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
