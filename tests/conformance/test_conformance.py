"""The report can be believed: it sees failures, and the page in the documentation is current."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conformance.__main__ import PAGE
from tests.conformance.clauses import ROOT, Clause, ClauseError, Specification, load
from tests.conformance.report import render_page

TESTS = """
import pytest

def test_good(): ...

@pytest.mark.parametrize("a", [1, 2])
def test_half_good(a): assert a == 1

def test_absent(): pytest.skip("no server")

def test_broken_afterwards(request): request.addfinalizer(lambda: 1 / 0)

@pytest.mark.parametrize("a", [])
def test_without_cases(a): ...

class TestGroup:
    def test_inner(self): ...

def test_unnamed(): assert False
"""


def write_clauses(folder: Path, **tests: str) -> None:
    """Clause files of specification 1 with one clause per test, and the tests they name."""
    (folder / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (folder / "test_sample.py").write_text(TESTS)
    entries = "".join(
        f'[[clause]]\nid = "1-1-{number}"\nsentence = "s"\nlevel = "must"\n{given}\n'
        for number, given in enumerate(tests.values(), 1)
    )
    (folder / "1.toml").write_text(f'number = 1\ntitle = "T"\n{entries}')


def named(*tests: str) -> str:
    return f"tests = {[f'test_sample.py::{test}' for test in tests]}"


def report(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command; of the plugins, of which some load for seconds, only the needed one."""
    plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
    chosen = ["--folder", str(folder), "--root", str(folder), *arguments]
    return subprocess.run(
        [sys.executable, "-m", "tests.conformance", *chosen],
        cwd=ROOT,
        env=os.environ | plugins,
        capture_output=True,
        text=True,
        check=False,
    )


def test_each_clause_is_as_good_as_its_tests(tmp_path: Path) -> None:
    write_clauses(
        tmp_path,
        good=named("test_good", "test_absent"),
        half=named("test_good", "test_half_good"),
        absent=named("test_absent"),
        broken=named("test_broken_afterwards"),
        empty=named("test_without_cases"),
        inner=named("TestGroup::test_inner"),
        other='departure = "on purpose"',
        shown=named("test_good") + '\ndeparture = "on purpose"',
        broken_departure=named("test_half_good") + '\ndeparture = "on purpose"',
    )
    done = report(tmp_path, "--processes", "2")
    assert done.returncode == 1, done.stderr
    assert re.findall(r"^(\w+) 1-1-\d ", done.stdout, re.MULTILINE) == [
        *("passed", "failed", "skipped", "failed", "skipped", "passed"),
        *("departure", "departure", "failed"),
    ]
    assert "    passed test_sample.py::test_good\n" in done.stdout
    assert "test_unnamed" not in done.stdout


def test_all_is_well_when_nothing_fails(tmp_path: Path) -> None:
    write_clauses(tmp_path, good=named("test_good"))
    assert report(tmp_path, "--processes", "0").returncode == 0


def test_a_proof_that_does_not_run_is_missing(tmp_path: Path) -> None:
    write_clauses(tmp_path, good=named("test_good"))
    (tmp_path / "conftest.py").write_text("def pytest_collection_modifyitems(items): del items[:]")
    done = report(tmp_path, "--processes", "0")
    assert done.returncode == 1, done.stderr
    assert "missing 1-1-1" in done.stdout


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (named("test_gone"), "1-1-1: there is no test test_sample.py::test_gone"),
        (named("TestGroup::test_gone"), "no test test_sample.py::TestGroup::test_gone"),
        (named("TestGroup"), "there is no test test_sample.py::TestGroup"),
        ("tests = ['gone.py::test_good']", "there is no test gone.py::test_good"),
        ("tests = []", "1-1-1: no test proves it, and no departure says why"),
        (named("test_good", "test_good"), "a test is named twice"),
        (named("test_good") + "\nproof = 1", "fields are"),
        (named("test_good") + '\n[[clause]]\nid = "1-1-1"\nsentence = ""\nlevel = "m"', "2 times"),
        (named("test_good") + '\n[[clause]]\nid = "2-1-1"\nsentence = ""\nlevel = "m"', "the id"),
        (named("test_good") + '\n[[clause]]\nid = "1-2-1"\nsentence = ""\nlevel = "m"', "level"),
    ],
)
def test_a_clause_without_an_existing_proof_is_refused(
    tmp_path: Path, given: str, fault: str
) -> None:
    write_clauses(tmp_path, wrong=given)
    with pytest.raises(ClauseError, match=re.escape(fault)):
        load(tmp_path, tmp_path)


def test_every_clause_has_a_proof_and_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == render_page(load()), (
        "docs/conformance.md is out of date: make conformance ARGS=--write"
    )


def test_the_page_names_tests_by_their_sentence_and_departures_by_their_reason() -> None:
    proofs = ("tests/b.py::test_x", "tests/a.py::TestIt::test_it_works", "tests/a.py::test_a_b")
    clause = Clause("1-2.3-4", "a | b", "should", proofs, "because")
    page = render_page([Specification(1, "One", (clause,))])
    assert "| 1-2.3-4 | should | a &#124; b<br>**Departure:** because |" in page
    assert "| `tests/a.py`: it works; a b<br>`tests/b.py`: x |" in page
