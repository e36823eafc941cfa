"""The report can be believed: it sees failures, and the page in the documentation is current."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conformance.clauses import ROOT, specifications
from tests.conformance.evidence import Evidence, Outcome
from tests.conformance.report import render_page

SAMPLE = """
import pytest

@pytest.mark.clause("D-1")
def test_good(): ...

@pytest.mark.clause("D-2", "D-3")
@pytest.mark.parametrize("a", [1, 2])
def test_half_good(a): assert a == 1

@pytest.mark.clause("D-4")
def test_absent(): pytest.skip("no server")

@pytest.mark.clause("D-5")
def test_broken_afterwards(request): request.addfinalizer(lambda: 1 / 0)

def test_unmarked(): ...
"""


def report(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.conformance", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def verdicts(printed: str) -> dict[str, str]:
    rows = re.findall(r"│ ([DPTMF]-\d+)\s+│.*?│ (\w+)\s+│", printed)
    return dict(rows)


@pytest.mark.parametrize("processes", ["0", "2"])
def test_each_clause_is_as_good_as_its_tests(tmp_path: Path, processes: str) -> None:
    (tmp_path / "test_sample.py").write_text(SAMPLE, encoding="utf-8")
    done = report("--processes", processes, str(tmp_path))
    found = verdicts(done.stdout)
    assert done.returncode == 1
    assert [found[f"D-{number}"] for number in range(1, 7)] == [
        *("passed", "failed", "failed", "skipped", "failed", "open")
    ]


def test_all_is_well_when_nothing_fails(tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text(
        SAMPLE.split('@pytest.mark.clause("D-2"', maxsplit=1)[0]
    )
    assert report("--processes", "0", str(tmp_path)).returncode == 0


def test_a_mark_that_names_no_clause_is_refused(tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text(SAMPLE.replace("D-1", "D-99"), encoding="utf-8")
    done = report("--processes", "0", str(tmp_path))
    assert done.returncode == 1
    assert "marked with unknown clauses: ('D-99',)" in done.stdout + done.stderr


def test_the_page_is_current_and_every_mark_names_a_clause() -> None:
    done = report("--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_page_that_lacks_a_test_is_out_of_date(tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text(SAMPLE, encoding="utf-8")
    done = report("--check", str(tmp_path))
    assert done.returncode == 1
    assert "out of date" in done.stderr


def test_every_clause_is_listed_once_in_order() -> None:
    page = render_page(Evidence())
    listed = re.findall(r"^\| ([A-Z]-\d+) \|", page, re.MULTILINE)
    assert listed == [clause.name for spec in specifications() for clause in spec.clauses]
    assert len(listed) == len(set(listed)) == 165


def test_the_page_names_tests_by_their_sentence() -> None:
    evidence = Evidence()
    evidence.add("tests/a.py::test_it_works[1]", [("clause", "D-1")], Outcome.PASSED)
    evidence.add("tests/a.py::test_it_works[2]", [("clause", "D-1")], Outcome.PASSED)
    assert "| `tests/a.py`: it works |" in render_page(evidence)


def test_the_page_does_not_depend_on_the_order_of_tests() -> None:
    names = ["tests/b.py::test_x", "tests/a.py::test_y", "tests/a.py::test_x"]
    pages = set()
    for order in (names, names[::-1]):
        evidence = Evidence()
        for name in order:
            evidence.add(name, [("clause", "D-1")], Outcome.PASSED)
        pages.add(render_page(evidence))
    assert len(pages) == 1
