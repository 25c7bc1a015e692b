"""Finding a command, its help, and exit codes."""

import subprocess
import sys

import pytest

from barnabas import __version__
from barnabas.__main__ import COMMANDS, _commands_of, main
from tests.barnabas.processes import environment

EVERY_COMMAND = [command for group in COMMANDS for command in _commands_of(group).values()]


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_without_a_command_all_are_listed(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    out = capsys.readouterr().out
    for name, summary in COMMANDS.items():
        assert name in out
        assert summary in out


@pytest.mark.parametrize("command", EVERY_COMMAND, ids=lambda command: command.name)
def test_every_command_has_help_with_examples(command: object, capsys: pytest.CaptureFixture[str]) -> None:
    name: str = command.name  # type: ignore[attr-defined]
    assert main([*name.split(), "--help"]) == 0
    out = capsys.readouterr().out
    assert f"usage: barnabas {name}" in out
    assert "examples:" in out
    assert max(map(len, out.splitlines())) <= 120
    assert main(["help", *name.split()]) == 0
    assert capsys.readouterr().out == out


@pytest.mark.parametrize("command", EVERY_COMMAND, ids=lambda command: command.name)
def test_the_examples_in_the_help_parse(command: object) -> None:
    import shlex

    for example in command.examples:  # type: ignore[attr-defined]
        for part in example.partition("#")[0].split("|"):
            words = shlex.split(part.partition("<<<")[0].partition(" > ")[0])
            if words[:1] == ["barnabas"]:
                assert words[1 : 1 + command.name.count(" ") + 1] == command.name.split()  # type: ignore[attr-defined]
                command.parse(words[1 + len(command.name.split()) :])  # type: ignore[attr-defined]


def test_commands_of_commands_are_listed_by_their_last_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "reassign", "--help"]) == 0
    out = capsys.readouterr().out
    assert "usage: barnabas cluster reassign <command> [options]" in out
    assert [line.split()[0] for line in out.splitlines() if line.startswith("  ")] == [
        "plan", "execute", "verify", "cancel",
    ]  # fmt: skip
    assert main(["cluster"]) == 0
    assert "reassign plan" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("topic list", "there is no command 'topic' (did you mean topics?)"),
        ("topics lst", "use create, list, describe, alter, delete; see `barnabas topics --help`"),
        ("cluster reassign pln", "'pln' is not a command (did you mean plan?): use plan, execute, verify, cancel"),
        ("cluster reassign cancel", "name a FILE, or give --all"),
        ("cluster move-leader orders=2", "must be TOPIC:PARTITION=BROKER"),
        ("cluster elect --unclean", "name the partitions"),
        ("cluster drain three", "must be a node id"),
        ("cluster drain 3 --leaders-only --throttle 5", "copies nothing"),
        ("topics list --jsn", "barnabas topics list: unknown option --jsn (did you mean --json?)"),
        ("topics alter orders", "nothing to change"),
        ("configs describe", "give one of --topic, --broker and --brokers-default"),
        ("configs describe --topic a --broker 1", "give one of"),
        ("configs alter --topic a", "nothing to change"),
        ("consume orders --from tomorrow", "--from tomorrow: must be beginning, end, an offset"),
        ("consume orders --format %q", "%q means nothing"),
        ("consume orders --format %v --json", "exclude each other"),
        ("produce orders --compression brotli", "must be one of none, gzip, snappy, lz4, zstd"),
        ("produce orders --acks 2", "must be one of"),
        ("produce orders -p -1", "must be a whole number"),
        ("consume orders -n -1", "must be a whole number of at least 1"),
        ("start --port 70000", "must be a port"),
        ("start --data-dir d --ephemeral", "--data-dir and --ephemeral exclude each other"),
        ("start --log-format xml", "must be one of text, json"),
        ("topics list -b host:port", "must be host:port"),
        ("topics list --timeout 0", "must be a number of seconds"),
    ],
)
def test_nonsense_is_a_usage_error(line: str, complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 2
    captured = capsys.readouterr()
    assert complaint in captured.err
    assert "--help" in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_the_environment_is_checked_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("BARNABAS_BOOTSTRAP_SERVERS", "host:port")
    assert main(["topics", "list"]) == 2
    assert "BARNABAS_BOOTSTRAP_SERVERS=host:port: must be host:port" in capsys.readouterr().err


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    from importlib.metadata import version

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"barnabas {__version__}\n"
    assert __version__ == version("barnabas")


SLOW_MODULES = (
    "argparse", "asyncio", "concurrent.futures", "dataclasses", "importlib.metadata", "inspect", "json", "logging",
    "random", "subprocess", "uuid",
)  # fmt: skip


@pytest.mark.parametrize("group", [*COMMANDS, "--version"])
def test_no_command_loads_what_is_slow_to_load(group: str) -> None:
    """Counted against what the interpreter itself, and what is installed beside us, has loaded already."""
    code = (
        "import sys; before = set(sys.modules); from barnabas.__main__ import main; "
        f"main([{group!r}, '--help']); print(*(set(sys.modules) - before), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), timeout=30, check=True
    )
    assert not set(SLOW_MODULES) & set(done.stderr.split())


A_START = """
import builtins, os, signal, sys
before, compiled = set(sys.modules), []
original = compile

def noted(source, filename, *arguments, **options):
    if filename.startswith("<"):  # not a module that was changed
        compiled.append(source)
    return original(source, filename, *arguments, **options)

builtins.compile = noted
import barnabas.commands.start as start

def stop(_server):
    slow = [kind.__name__ for kind in tuple.__subclasses__() if kind.__module__.startswith("barnabas.")]
    slow = [name for name in slow if name not in ("NamedTuple", "Template")]
    print(len(compiled), ",".join(slow) or "-", *(set(sys.modules) - before))
    os.kill(os.getpid(), signal.SIGTERM)

start._on_ready = stop
from barnabas.__main__ import main
main(["start", "--port", "0", "--ephemeral"])
"""

WITH_OTHER_NODES = (
    "barnabas.broker.network.peer_client",
    "barnabas.replication.quorum.elections",
    "barnabas.replication.quorum.exchange",
    "barnabas.replication.quorum.following",
    "barnabas.replication.quorum.leadership",
    "barnabas.replication.quorum.messages",
)
WITH_CLIENTS = (
    "barnabas.broker.groups",
    "barnabas.broker.handlers",
    "barnabas.broker.network.connection",
    "barnabas.protocol.compression",
)


def test_the_start_of_a_broker_alone_loads_little() -> None:
    done = subprocess.run(
        [sys.executable, "-c", A_START], capture_output=True, text=True, env=environment(), timeout=60, check=True
    )
    compiled, slow_named_tuples, *loaded = done.stdout.split()
    assert not {*SLOW_MODULES, "tempfile", "shutil", "pathlib", "datetime"} & set(loaded)
    unneeded = [name for name in loaded if name.startswith((*WITH_OTHER_NODES, *WITH_CLIENTS))]
    assert unneeded == ["barnabas.broker.handlers"], "the table of handlers is enough"
    assert int(compiled) == 0, "the first compile() is a thirtieth of a start"
    assert slow_named_tuples == "-", "barnabas.protocol.named_tuple makes them in a third of the time"
