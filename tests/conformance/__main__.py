"""Which clauses of the specifications are proved, by which tests, and whether these pass."""

import argparse
import sys
from pathlib import Path

from rich.console import Console
from tests.conformance.clauses import ROOT
from tests.conformance.evidence import gather
from tests.conformance.report import print_report, render_page

PAGE = ROOT / "docs/conformance.md"
_NO_TESTS = 5  # pytest's exit status when nothing was selected; then every clause is open


def main(arguments: list[str]) -> int:
    """Run the tests and report, or compare the page with the tests there are."""
    parser = argparse.ArgumentParser(prog="conformance", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/conformance.md anew")
    parser.add_argument("--check", action="store_true", help="run nothing; is the page up to date?")
    parser.add_argument("--processes", default="auto", help="how many to run tests in")
    parser.add_argument("paths", nargs="*", default=[str(ROOT / "tests")], help="where to look")
    chosen = parser.parse_args(arguments)
    if chosen.check:
        return check(chosen.paths)
    return run(chosen.paths, chosen.processes, is_writing=chosen.write)


def run(paths: list[str], processes: str, *, is_writing: bool) -> int:
    """Run every test that names a clause; 1 when any fails, and then nothing is written."""
    evidence, status = gather(paths, "-q", "--no-header", "-n", processes)
    print_report(evidence, Console(width=160 if not sys.stdout.isatty() else None))
    if status not in {0, _NO_TESTS}:
        return 1
    if is_writing:
        PAGE.write_text(render_page(evidence), encoding="utf-8")
    return 0


def check(paths: list[str]) -> int:
    """Compare the page with the tests there are, without running them."""
    marked = [str(file) for path in paths for file in marked_files(Path(path))]
    evidence, status = gather(marked, "-qq", "--collect-only")
    if status not in {0, _NO_TESTS}:
        return 1
    if PAGE.read_text(encoding="utf-8") == render_page(evidence):
        return 0
    sys.stderr.write("docs/conformance.md is out of date: make conformance ARGS=--write\n")
    return 1


def marked_files(path: Path) -> list[Path]:
    """The files below that mark tests with clauses: to load all others would take a minute."""
    files = sorted(path.rglob("test_*.py")) if path.is_dir() else [path]
    return [file for file in files if "mark.clause" in file.read_text(encoding="utf-8")]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
