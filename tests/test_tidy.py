"""What holds the style: who may touch the world, and how large a file, a function, a folder, a constructor may be.

The limits are what most of the code keeps. What exceeds one is listed with its present size, which may only fall: when
a piece has become smaller, lower its number; when it keeps the limit, delete its row.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent

PRODUCTION = ("barnabas", "base", "benchmarks", "broker", "pipelines", "protocol", "replication", "storage", "tools")
TESTS = ("tests", "compat_tests")

# ---- who touches the world

# These reach a clock, a socket, a file, a thread, a process or a random number through the Environment only.
PURE = ("base", "broker", "protocol", "replication", "storage")
ENVIRONMENT = "broker/system/"  # where production builds the Environment

CLOCKS = ("datetime", "sched", "time")
NETWORK = ("asyncio", "select", "selectors", "socket", "socketserver", "ssl")
FILES = ("fcntl", "fileinput", "glob", "mmap", "pathlib", "shutil", "tempfile")
THREADS_AND_PROCESSES = ("_thread", "concurrent", "multiprocessing", "queue", "signal", "subprocess", "threading")
RANDOMNESS = ("random", "secrets", "uuid")
BANNED_MODULES = frozenset((*CLOCKS, *NETWORK, *FILES, *THREADS_AND_PROCESSES, *RANDOMNESS))
BANNED_BUILTINS = frozenset(("input", "open", "print"))
# Nearly everything in `os` is a file, a process or a random number; these only rearrange a path.
ALLOWED_IN_OS = frozenset(("os.path.basename", "os.path.dirname", "os.path.join", "os.path.split", "os.path.splitext"))

EXCEPTIONS: Mapping[tuple[str, str], str] = {
    ("broker/handlers/alter_replica_log_dirs.py", "os.path.abspath"): "Kafka is asked with absolute paths",
    ("broker/handlers/describe_log_dirs.py", "os.path.abspath"): "Kafka answers with absolute paths",
    ("broker/network/listeners.py", "socket"): "inet_pton only parses an address",
    ("storage/compaction/segment_swap.py", "threading"): "a lock: a worker renames files while the loop reads",
    ("storage/flush_plan.py", "threading"): "a lock: a worker syncs what the loop appends to",
    ("storage/log_dir.py", "threading"): "a lock: two workers may write the same checkpoint",
}


def sources(*folders: str) -> Iterator[Path]:
    """Yields each module in these folders once: what the links inside barnabas/ lead to is a folder by itself."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not any(parent.is_symlink() for parent in path.parents):
                yield path


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def text_of(path: Path) -> str:
    return path.read_text()


def dotted(node: ast.AST) -> str | None:
    """Returns `os.path.join` for the expression of that name, None for any expression that is not a plain name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := dotted(node.value)) is not None:
        return f"{owner}.{node.attr}"
    return None


def touches(source: str) -> set[str]:
    """Returns the banned names that a module uses: modules, members of `os`, builtins."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names if alias.name.split(".")[0] in BANNED_MODULES)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            if node.module.split(".")[0] in BANNED_MODULES:
                found.add(node.module)
            elif node.module in ("os", "os.path"):
                found.update({f"{node.module}.{alias.name}" for alias in node.names} - ALLOWED_IN_OS)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BANNED_BUILTINS:
            found.add(node.func.id)
        elif isinstance(node, ast.Attribute) and (name := dotted(node)) is not None and name.startswith("os."):
            found.add(name)
    return {name for name in found if name not in ALLOWED_IN_OS | {"os.path"}}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import time", {"time"}),
        ("def f():\n    from random import Random", {"random"}),  # inside a function too
        ("import concurrent.futures", {"concurrent.futures"}),
        ("import os\nos.path.join(a, b)", set()),
        ("import os\nos.path.exists(a)", {"os.path.exists"}),
        ("import os\nos.urandom(8)", {"os.urandom"}),
        ("from os import urandom", {"os.urandom"}),
        ("open('data')", {"open"}),
        ("files.open('data')", set()),  # those that were handed in
        ("clock.time.monotonic()", set()),
        ("from barnabas.base import time", set()),
    ],
)
def test_what_touches_the_world_is_found(source: str, names: set[str]) -> None:
    assert touches(source) == names


@pytest.mark.parametrize("package", PURE)
def test_the_world_is_reached_through_the_environment(package: str) -> None:
    used = {
        (name_of(path), name)
        for path in sources(package)
        if not name_of(path).startswith(ENVIRONMENT)
        for name in touches(text_of(path))
    }
    listed = {row for row in EXCEPTIONS if row[0].startswith(f"{package}/")}
    wrong = [
        f"{path} uses {name}: take it from the Environment (base/environment.py), or do it in {ENVIRONMENT}"
        for path, name in sorted(used - listed)
    ]
    wrong += [f"{path} no longer uses {name}: delete its row in EXCEPTIONS" for path, name in sorted(listed - used)]
    assert wrong == []


# ---- sizes


class Limit(NamedTuple):
    """The largest size that needs no row, the rows of those that are larger, and what to do about one."""

    most: int
    larger: Mapping[str, int]
    advice: str


def breaches(sizes: Mapping[str, int], limit: Limit) -> list[str]:
    wrong = [
        f"{name} has {size}, at most {limit.larger.get(name, limit.most)}: {limit.advice}"
        for name, size in sorted(sizes.items())
        if size > limit.larger.get(name, limit.most)
    ]
    return wrong + [
        f"{name} keeps the limit of {limit.most}, or is gone: delete its row"
        for name in limit.larger
        if sizes.get(name, 0) <= limit.most
    ]


def test_a_size_may_fall_and_not_rise() -> None:
    limit = Limit(10, {"large": 20}, "split it")
    assert breaches({"small": 10, "large": 19}, limit) == []
    assert breaches({"small": 11, "large": 20}, limit) == ["small has 11, at most 10: split it"]
    assert breaches({"large": 21}, limit) == ["large has 21, at most 20: split it"]
    assert breaches({"large": 10}, limit) == ["large keeps the limit of 10, or is gone: delete its row"]
    assert breaches({}, limit) == ["large keeps the limit of 10, or is gone: delete its row"]


def lines_of_files(folders: tuple[str, ...]) -> dict[str, int]:
    return {name_of(path): text_of(path).count("\n") for path in sources(*folders)}


class Sizes(NamedTuple):
    lines_of_functions: dict[str, int]
    arguments_of_constructors: dict[str, int]


@cache
def sizes_in(path: Path) -> Sizes:
    """Measures a module. Only statements are visited: expressions hold no definition. Two functions of one name count
    as the longer of the two."""
    sizes = Sizes({}, {})
    pending: list[ast.AST] = [ast.parse(text_of(path))]
    while pending:
        node = pending.pop()
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            pending += [inner for inner in getattr(node, block, ()) if not isinstance(inner, ast.expr)]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{name_of(path)}:{node.name}"
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            sizes.lines_of_functions[name] = max(lines, sizes.lines_of_functions.get(name, 0))
        elif isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                    arguments = method.args.posonlyargs + method.args.args + method.args.kwonlyargs
                    sizes.arguments_of_constructors[f"{name_of(path)}:{node.name}"] = len(arguments) - 1
    return sizes


def lines_of_functions(folders: tuple[str, ...]) -> dict[str, int]:
    return {name: lines for path in sources(*folders) for name, lines in sizes_in(path).lines_of_functions.items()}


def arguments_of_constructors(folders: tuple[str, ...]) -> dict[str, int]:
    rows = (sizes_in(path).arguments_of_constructors for path in sources(*folders))
    return {name: count for row in rows for name, count in row.items()}


def files_of_folders(folders: tuple[str, ...]) -> dict[str, int]:
    """Counts the modules of each folder. Handlers and messages are exempt: there the list is the explanation."""
    counts: dict[str, int] = {}
    for path in sources(*folders):
        folder = name_of(path.parent)
        if folder not in ("broker/handlers", "protocol/messages"):
            counts[folder] = counts.get(folder, 0) + 1
    return counts


_SPLIT_FILE = "split it: a module has one job (or move a part to where it belongs)"
_SPLIT_FUNCTION = "name its steps, and let them be functions"
_FEWER_ARGUMENTS = "take the Environment instead of its parts, or a value that holds what belongs together"
_SUBFOLDER = "a flat folder that long explains nothing: give what belongs together a folder of its own"

FILES_OF_PRODUCTION = Limit(
    400,
    {},
    _SPLIT_FILE,
)
FILES_OF_TESTS = Limit(
    400,
    {
        "tests/broker/groups/consumer/test_machine.py": 603,
        "tests/broker/groups/test_migration.py": 537,
        "tests/broker/handlers/test_configs.py": 415,
        "tests/broker/handlers/test_fetch.py": 560,
        "tests/broker/handlers/test_groups.py": 570,
        "tests/broker/handlers/test_like_kafka.py": 408,
        "tests/broker/handlers/test_topics.py": 470,
        "tests/broker/test_bad_input.py": 423,
        "tests/protocol/test_records.py": 588,
        "tests/protocol/test_schema.py": 531,
    },
    _SPLIT_FILE,
)
FUNCTIONS_OF_PRODUCTION = Limit(
    39,
    {
        "benchmarks/__main__.py:main": 41,
        "benchmarks/python_load.py:confluent_kafka": 48,
        "storage/log.py:append": 42,  # every request goes through it, and says so
    },
    _SPLIT_FUNCTION,
)
FUNCTIONS_OF_TESTS = Limit(
    39,
    {
        "compat_tests/differential/shapes/records.py:odd_batch": 42,
        "compat_tests/drivers/kafka_python_groups.py:describe_group": 43,
        "tests/pipelines/parquet/test_archive.py:test_every_column_of_every_record_is_kept_for_any_reader": 44,
        "tests/pipelines/audits/test_audit.py:"
        "test_everything_that_is_wrong_with_a_topic_and_its_copy_is_found_with_its_place": 42,
    },
    _SPLIT_FUNCTION,
)
CONSTRUCTORS_OF_PRODUCTION = Limit(
    6,
    {
        "broker/groups/classic/member.py:ClassicMember": 8,
        "broker/network/connection.py:Connection": 7,
        "protocol/schema.py:Field": 7,
    },
    _FEWER_ARGUMENTS,
)
CONSTRUCTORS_OF_TESTS = Limit(4, {"tests/barnabas/processes.py:RunningBroker": 6}, _FEWER_ARGUMENTS)
FOLDERS_OF_PRODUCTION = Limit(20, {}, _SUBFOLDER)
FOLDERS_OF_TESTS = Limit(20, {}, _SUBFOLDER)


@pytest.mark.parametrize(
    ("measure", "production", "tests"),
    [
        (lines_of_files, FILES_OF_PRODUCTION, FILES_OF_TESTS),
        (lines_of_functions, FUNCTIONS_OF_PRODUCTION, FUNCTIONS_OF_TESTS),
        (arguments_of_constructors, CONSTRUCTORS_OF_PRODUCTION, CONSTRUCTORS_OF_TESTS),
        (files_of_folders, FOLDERS_OF_PRODUCTION, FOLDERS_OF_TESTS),
    ],
)
def test_nothing_grows_beyond_what_a_reader_can_hold(
    measure: Callable[[tuple[str, ...]], dict[str, int]], production: Limit, tests: Limit
) -> None:
    assert breaches(measure(PRODUCTION), production) + breaches(measure(TESTS), tests) == []
