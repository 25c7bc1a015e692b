"""`barnabas`: finds the command, runs it, and turns what went wrong into one line and an exit code.

0: done. 1: it could not be done. 2: the command line makes no sense. 130: interrupted. Only `verify` says 1 for what it
has found, and 2 if it could not look. A command's module, and what it imports, loads only when that command runs. An
exception that is not ours to explain ends in a traceback: it is a bug.
"""

import time

STARTED_AT = time.monotonic()

import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402

from barnabas.options import Command, Failure, UsageError, nearest  # noqa: E402

COMMANDS = {
    "start": "start a broker, or a cluster of them",
    "format": "prepare the directories of a node of a cluster",
    "cluster": "show the state of a cluster, move leaders and replicas, drain brokers",
    "topics": "create, list, describe, alter and delete topics",
    "produce": "send lines from stdin to a topic",
    "consume": "print the records of a topic",
    "groups": "list and describe consumer groups, show their lag, reset their offsets, delete them",
    "transactions": "list and describe transactions, abort them, find those that hang",
    "configs": "describe and alter the configuration of topics and brokers",
    "verify": "check that a cluster keeps what it acknowledges: a load, a history, a verdict",
    "pipeline": "run Spark jobs on topics: archive, restore, mirror, roll up, tabulate, audit",
    "log": "show what is in segments and the other files of a data directory",
}
MODULES = {"log": "log_dump"}


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    name = f"barnabas {words[0]}" if words[:1] and words[0] in COMMANDS else "barnabas"
    try:
        if words and words[0] in ("--version", "-V"):
            return _print_version()
        command, words = _find(words)
        if command is None:
            return 0
        name = f"barnabas {command.name}"
        if any(word in ("-h", "--help") for word in words[: words.index("--") if "--" in words else None]):
            return _print(command.help())
        status = command.run(command.parse(words))
        sys.stdout.flush()
        return status
    except UsageError as error:
        return _complain(f"{name}: {error}; see `{name} --help`", 2)
    except BrokenPipeError:
        return _reader_left()
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        return _complain(f"barnabas: {_explained(error)}", error.exit_code if isinstance(error, Failure) else 1)


def _find(words: list[str]) -> tuple[Command | None, list[str]]:
    """Returns the command that the words name and the words after its name, or None if help was all that was asked
    for."""
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    if not words or words[0] in ("-h", "--help"):
        _print(_overview("<command>", "A broker that speaks Apache Kafka's wire protocol, and its tools.", COMMANDS))
        return None, []
    group, rest = words[0], words[1:]
    if group not in COMMANDS:
        raise UsageError(f"there is no command {group!r}{nearest(group, COMMANDS)}")
    commands = _commands_of(group)
    name = group
    while name not in commands:
        inside = {command: each for command, each in commands.items() if command.startswith(f"{name} ")}
        if not rest or rest[0] in ("-h", "--help"):
            title = COMMANDS[group] if name == group else f"what `barnabas {name}` can do"
            _print(_overview(f"{name} <command>", title[:1].upper() + title[1:] + ".", _summaries(inside, name)))
            return None, []
        known = list(dict.fromkeys(command.removeprefix(f"{name} ").split()[0] for command in inside))
        if rest[0] not in known:
            raise UsageError(f"{rest[0]!r} is not a command{nearest(rest[0], known)}: use {', '.join(known)}")
        name, rest = f"{name} {rest[0]}", rest[1:]
    return commands[name], rest


def _commands_of(group: str) -> dict[str, Command]:
    from importlib import import_module

    commands: tuple[Command, ...] = import_module(f"barnabas.commands.{MODULES.get(group, group)}").COMMANDS
    return {command.name: command for command in commands}


def _summaries(commands: dict[str, Command], prefix: str) -> dict[str, str]:
    return {name.removeprefix(f"{prefix} "): command.summary for name, command in commands.items()}


def _overview(usage: str, title: str, summaries: dict[str, str]) -> str:
    lines = [title, "", f"usage: barnabas {usage} [options]", "", "commands:"]
    width = max(10, *(len(name) + 2 for name in summaries))
    lines += [f"  {name:<{width}}{summary}" for name, summary in summaries.items()]
    lines += ["", f"`barnabas {usage} --help` says more about each."]
    return "\n".join(lines) + "\n"


def _print(text: str) -> int:
    sys.stdout.write(text)
    sys.stdout.flush()
    return 0


def _print_version() -> int:
    from barnabas import __version__

    return _print(f"barnabas {__version__}\n")


def _explained(error: Exception) -> str:
    """Returns one line about an error that a user can understand. Raises any other again."""
    from barnabas.protocol.errors import KafkaError

    if isinstance(error, KafkaError):
        from barnabas.commands.hints import hint_for

        return Failure(f"{error.message} ({error.code.name})", hint_for(error.code)).line
    if isinstance(error, Failure):
        return error.line
    if isinstance(error, OSError) and error.strerror:
        about = f"{error.filename}: " if error.filename else ""
        return f"{about}{error.strerror[:1].lower()}{error.strerror[1:]}"
    raise error


def _complain(line: str, status: int) -> int:
    try:
        print(line, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass
    return status


def _reader_left() -> int:
    """Drops what is still buffered: the program that read our output has ended."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
