"""The project runs anywhere: no file names a machine, and every requirement is pinned."""

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
from tests.architecture import portability, source_tree
from tests.architecture.source_tree import ROOT

COMPILED = sorted((ROOT / "requirements").glob("*.txt"))


@cache
def _texts() -> list[tuple[str, str]]:
    return [
        (path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8", errors="replace"))
        for path in source_tree.kept_files()
    ]


def test_no_file_names_a_folder_of_one_machine() -> None:
    found = {name: portability.machine_paths(text) for name, text in _texts()}
    assert {name: paths for name, paths in found.items() if paths} == {}


def test_every_address_leads_to_a_known_host() -> None:
    found = {name: portability.unknown_hosts(text) for name, text in _texts()}
    assert {name: hosts for name, hosts in found.items() if hosts} == {}


def test_there_are_compiled_requirements() -> None:
    assert [path.name for path in COMPILED] == ["build.txt", "dev.txt", "runtime.txt"]


@pytest.mark.parametrize("path", COMPILED, ids=lambda path: path.name)
def test_every_requirement_is_pinned_with_a_hash(path: Path) -> None:
    assert portability.unpinned_lines(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", COMPILED, ids=lambda path: path.name)
def test_requirements_name_no_package_index(path: Path) -> None:
    assert portability.index_options(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("name", ["build.txt", "runtime.txt"])
def test_development_runs_on_the_versions_that_users_get(name: str) -> None:
    smaller, development = (
        portability.pins((ROOT / "requirements" / file).read_text(encoding="utf-8"))
        for file in (name, "dev.txt")
    )
    assert {package: development.get(package) for package in smaller} == smaller


def test_every_dependency_of_the_package_is_pinned() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {re.split(r"[<>=!~;\[ ]", need, maxsplit=1)[0] for need in declared["dependencies"]}
    pinned = portability.pins((ROOT / "requirements/runtime.txt").read_text(encoding="utf-8"))
    assert sorted(names - pinned.keys()) == []
