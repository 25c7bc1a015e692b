"""The project itself: imports point one way, and what is installed is what the folders hold, once."""

import ast
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# A package may import itself and everything after it, never what stands before it.
LAYERS = ("broker", "replication", "storage", "base", "protocol")
LINKED = (*LAYERS, "pipelines")


def sources(folder: str) -> list[Path]:
    """The modules that live in the folder itself, not those it links to."""
    found = (ROOT / folder).rglob("*.py")
    return sorted(path for path in found if not any(parent.is_symlink() for parent in path.parents))


def imported_modules(path: Path) -> Iterator[str]:
    """Absolute names of everything imported anywhere in the file: inside functions and under TYPE_CHECKING too."""
    package = ("barnabas", *path.relative_to(ROOT).parent.parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            yield from (f"{module}.{alias.name}" for alias in node.names)


def layer_of(module: str) -> str | None:
    """The layer a module belongs to; "barnabas" for the command line above all layers, None for other people's."""
    parts = module.split(".")
    if parts[0] != "barnabas":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in LAYERS else "barnabas"


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_point_one_way(layer: str) -> None:
    allowed = {None, *LAYERS[LAYERS.index(layer) :]}
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sources(layer)
        for module in imported_modules(path)
        if layer_of(module) not in allowed
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("module", "layer"),
    [
        ("barnabas.storage.log", "storage"),
        ("barnabas.cli", "barnabas"),  # the command line stands above all layers
        ("barnabas", "barnabas"),
        ("struct", None),
        ("storage", None),  # a bare name is not ours; ruff refuses it
    ],
)
def test_the_layer_of_a_module(module: str, layer: str | None) -> None:
    assert layer_of(module) == layer


@pytest.mark.parametrize("folder", ["compat_tests", "pipelines"])
def test_what_judges_or_uses_the_wire_imports_nothing_of_the_broker(folder: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sources(folder)
        for module in imported_modules(path)
        if layer_of(module) is not None and not module.startswith("barnabas.pipelines.")
    ]
    assert wrong == []


@pytest.mark.parametrize("folder", LINKED)
def test_the_folder_is_linked_into_the_package(folder: str) -> None:
    link = ROOT / "barnabas" / folder
    assert link.is_symlink()
    assert os.readlink(link) == f"../{folder}"


@pytest.mark.parametrize("folder", LINKED)
def test_the_folder_is_part_of_what_an_image_is_built_from(folder: str) -> None:
    assert f"!{folder}" in (ROOT / ".dockerignore").read_text().splitlines()


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel and an sdist, built from a copy so that nothing is written into the checkout."""
    checkout = tmp_path_factory.mktemp("checkout") / "barnabas"
    left_out = shutil.ignore_patterns(
        ".*", "__pycache__", "*.egg-info", "build", "dist", "data", "tests", "compat_tests"
    )
    shutil.copytree(ROOT, checkout, symlinks=True, ignore=left_out)
    out = tmp_path_factory.mktemp("dist")
    build("sdist", checkout, out)
    build("wheel", checkout, out)
    return out


def build(kind: str, checkout: Path, out: Path) -> None:
    hook = f"import sys, setuptools.build_meta as backend; backend.build_{kind}(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", hook, str(out)], cwd=checkout, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def expected_modules() -> set[str]:
    """Every module as it must be installed, derived from the folders and not from setup.py."""
    own = {str(path.relative_to(ROOT)) for path in sources("barnabas")}
    mapped = {f"barnabas/{path.relative_to(ROOT)}" for folder in LINKED for path in sources(folder)}
    return own | mapped


def test_the_wheel_holds_every_module_exactly_once(distributions: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    names = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".py")]
    assert sorted(names) == sorted(expected_modules())


def test_the_wheel_carries_what_the_spark_jobs_read(distributions: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    others = {str(path.relative_to(ROOT)) for path in (ROOT / "pipelines").rglob("*") if path.is_file()}
    carried = {name.removeprefix("barnabas/") for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in others if not name.endswith((".py", ".pyc"))} <= carried


def test_the_wheel_carries_the_command_the_pytest_plugin_and_the_licence(distributions: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        texts = {
            name.split("/", 1)[1]: archive.read(name).decode() for name in archive.namelist() if "dist-info" in name
        }
    assert "barnabas = barnabas.__main__:main" in texts["entry_points.txt"]
    assert "[pytest11]" in texts["entry_points.txt"]
    assert "License-Expression: Apache-2.0" in texts["METADATA"]
    assert texts["licenses/LICENSE"] == (ROOT / "LICENSE").read_text()


def test_a_wheel_can_be_built_from_the_sdist_alone(distributions: Path, tmp_path: Path) -> None:
    (sdist,) = distributions.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    build("wheel", unpacked, tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    names = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".py")]
    assert sorted(names) == sorted(expected_modules())
