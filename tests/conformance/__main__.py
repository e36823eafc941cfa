"""Each normative sentence of the specifications, the tests that prove it, and their results."""

import argparse
import sys
from pathlib import Path

from rich.console import Console
from tests.conformance.clauses import CLAUSE_FOLDER, ROOT, ClauseError, Specification, load
from tests.conformance.evidence import gather
from tests.conformance.report import print_report, render_page

PAGE = ROOT / "docs/conformance.md"


def main(arguments: list[str]) -> int:
    """Run the tests and report, or write or compare the page."""
    parser = argparse.ArgumentParser(prog="conformance", description=__doc__)
    parser.add_argument("--write", action="store_true", help="only write docs/conformance.md anew")
    parser.add_argument("--check", action="store_true", help="run nothing; is the page up to date?")
    parser.add_argument("--processes", default="auto", help="how many to run tests in")
    parser.add_argument("--folder", type=Path, default=CLAUSE_FOLDER, help="the clause files")
    parser.add_argument("--root", type=Path, default=ROOT, help="where the named tests are")
    parser.add_argument("numbers", nargs="*", type=int, help="specifications to run; else all")
    chosen = parser.parse_args(arguments)
    try:
        specifications = load(chosen.folder, chosen.root)
    except ClauseError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if chosen.check or chosen.write:
        return settle_page(render_page(specifications), is_writing=chosen.write)
    picked = [spec for spec in specifications if spec.number in (chosen.numbers or [spec.number])]
    return run(picked, chosen.root, chosen.processes)


def run(specifications: list[Specification], root: Path, processes: str) -> int:
    """Run exactly the named tests, each once; 1 when a clause's proof fails or is missing.

    Neighbours run in one process, which sets up once what a module shares.
    """
    tests = {test for specification in specifications for test in specification.tests()}
    options = ("-q", "--no-header", "-n", processes, "--dist", "worksteal")
    evidence = gather(tests, root, options)
    print_report(specifications, evidence, Console(width=None if sys.stdout.isatty() else 160))
    verdicts = {evidence.verdict(clause) for spec in specifications for clause in spec.clauses}
    return int(not verdicts.isdisjoint({"failed", "missing"}))


def settle_page(page: str, *, is_writing: bool) -> int:
    """Write the page, or compare it with what is there."""
    if is_writing:
        PAGE.write_text(page, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page:
        sys.stderr.write("docs/conformance.md is out of date: make conformance ARGS=--write\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
