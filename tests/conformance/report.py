"""The report: a table for the terminal, a page for the documentation.

The page says which tests prove a clause, never when or how fast they ran: the same tests always
give the same page.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from tests.conformance.clauses import Specification, specifications
from tests.conformance.evidence import Evidence

_STYLES = {"failed": "bold red", "passed": "green", "skipped": "yellow", "open": "dim"}
_INTRODUCTION = """\
# Conformance

Rota is built to five specifications. Each requirement is a numbered clause; each clause is proved
by the tests that carry its number. `make conformance` runs them and prints this table with results;
a clause without a test is listed as open. This page is written by `make conformance ARGS=--write`,
and the test suite fails when it is out of date.
"""


def print_report(evidence: Evidence, console: Console) -> None:
    """Every clause with its tests and whether they pass, then a summary per specification."""
    for specification in specifications():
        console.print(_clause_table(specification, evidence))
    console.print(_summary_table(evidence))


def render_page(evidence: Evidence) -> str:
    """The page of the documentation, as Markdown."""
    parts = [_INTRODUCTION, "\n".join(_summary_rows(evidence)) + "\n"]
    for specification in specifications():
        parts.append(f"## {specification.number}. {specification.title}\n")
        parts.append("\n".join(_clause_rows(specification, evidence)) + "\n")
    return "\n".join(parts)


def _clause_table(specification: Specification, evidence: Evidence) -> Table:
    table = Table(title=f"{specification.number}. {specification.title}", title_justify="left")
    for heading in ("clause", "what it demands", "result", "tests"):
        table.add_column(heading, overflow="fold")
    for clause in specification.clauses:
        verdict = evidence.verdict(clause.name)
        tests = "\n".join(escape(test) for test in evidence.tests_of(clause.name))
        style = _STYLES.get(verdict, "")
        table.add_row(clause.name, escape(clause.summary), f"[{style}]{verdict}[/]", tests)
    return table


def _summary_table(evidence: Evidence) -> Table:
    table = Table(title="Summary", title_justify="left")
    table.add_column("specification")
    for heading in ("clauses", *_STYLES):
        table.add_column(heading, justify="right")
    for specification in specifications():
        counts = _counts(specification, evidence)
        figures = [str(counts[verdict]) for verdict in _STYLES]
        title = f"{specification.number}. {specification.title}"
        table.add_row(title, str(len(specification.clauses)), *figures)
    return table


def _counts(specification: Specification, evidence: Evidence) -> Counter[str]:
    return Counter(evidence.verdict(clause.name) for clause in specification.clauses)


def _summary_rows(evidence: Evidence) -> Iterator[str]:
    yield "| specification | clauses | with tests | open |"
    yield "|---|---:|---:|---:|"
    for specification in specifications():
        total = len(specification.clauses)
        unproved = _counts(specification, evidence)["open"]
        title = f"{specification.number}. {specification.title}"
        yield f"| {title} | {total} | {total - unproved} | {unproved} |"


def _clause_rows(specification: Specification, evidence: Evidence) -> Iterator[str]:
    yield "| clause | what it demands | proved by |"
    yield "|---|---|---|"
    for clause in specification.clauses:
        proof = "<br>".join(_proof_lines(evidence.tests_of(clause.name))) or "*open*"
        yield f"| {clause.name} | {clause.summary.replace('|', '&#124;')} | {proof} |"


def _proof_lines(tests: list[str]) -> Iterator[str]:
    """One line per module: its path, then its tests as the sentences they are."""
    for path, group in groupby(tests, key=lambda test: test.split("::", 1)[0]):
        sentences = (test.rsplit("::", 1)[1].removeprefix("test_") for test in group)
        yield f"`{path}`: " + "; ".join(name.replace("_", " ") for name in sentences)
