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
from tests.docs.surroundings import ROOT
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


def test_a_wheel_with_the_server_extra_runs_rota_up(programs: Path, tmp_path: Path) -> None:
    rota = str(programs / "rota")
    version = run_rota(tmp_path, "--version", program=rota)
    assert re.search(r"\d+\.\d+\.\d+", version.stdout), version.stderr
    with Up(tmp_path, "up", program=rota) as up:
        up.read_token()
        status, page = up.ask("/admin")
        assert (status, "<title>" in page) == (200, True)
        created = run_rota(
            tmp_path,
            *("jobs", "create", "Say hello", "--kind", "log.message"),
            *("--payload", '{"message": "hello from the wheel"}'),
            program=rota,
        )
        assert created.returncode == 0, created.stderr
        up.wait_for("hello from the wheel")
        assert up.stop(signal.SIGINT) == 0


def test_the_wheel_brings_no_test_tool_and_no_driver(programs: Path) -> None:
    names = ["pytest", "asyncpg", "redis", "pymongo"]
    script = f"import importlib.util as u; print([it for it in {names} if u.find_spec(it)])"
    done = subprocess.run(
        [programs / "python", "-I", "-c", script], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"
