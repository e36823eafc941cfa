"""The report: sentence, tests and results for the terminal; a page for the documentation.

The page says which tests prove a sentence, never when or how fast they ran: the same clause files
always give the same page.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from tests.conformance.clauses import Clause, Specification
from tests.conformance.evidence import Evidence

_STYLES = {
    "failed": "bold red",
    "missing": "bold red",
    "passed": "green",
    "skipped": "yellow",
    "departure": "cyan",
}
_INTRODUCTION = """\
# Conformance

Rota is built to five specifications. Each normative sentence is a clause with the tests that prove
it, listed in `docs/specs/clauses/`. `make conformance` runs exactly these tests and prints each
sentence, its tests and their results; it fails when a proof fails or is missing.

A **departure** is a sentence that Rota does not keep to the letter, on purpose. It gives the reason
and its tests show what Rota does instead.

`make conformance ARGS=--write` writes this page. The test suite fails when it is out of date.
"""


def print_report(
    specifications: Sequence[Specification], evidence: Evidence, console: Console
) -> None:
    """Every sentence with its tests and how they ended, then a summary per specification."""
    for specification in specifications:
        console.rule(f"{specification.number}. {escape(specification.title)}", align="left")
        for clause in specification.clauses:
            for line in _clause_lines(clause, evidence):
                console.print(line, soft_wrap=True, highlight=False)
    console.print(_summary_table(specifications, evidence))


def _clause_lines(clause: Clause, evidence: Evidence) -> Iterator[str]:
    verdict = evidence.verdict(clause)
    mark = f"[{_STYLES[verdict]}]{verdict}[/]"
    yield f"{mark} {clause.id} ({clause.level}) {escape(clause.sentence)}"
    if clause.departure:
        yield f"    departure: {escape(clause.departure)}"
    for test in clause.tests:
        outcome = evidence.outcome_of(test).value
        yield f"    [{_STYLES[outcome]}]{outcome}[/] {escape(test)}"


def _summary_table(specifications: Sequence[Specification], evidence: Evidence) -> Table:
    table = Table(title="Summary", title_justify="left")
    table.add_column("specification")
    for heading in ("clauses", *_STYLES, "tests"):
        table.add_column(heading, justify="right")
    for specification in specifications:
        counts = Counter(evidence.verdict(clause) for clause in specification.clauses)
        table.add_row(
            f"{specification.number}. {specification.title}",
            str(len(specification.clauses)),
            *(str(counts[verdict]) for verdict in _STYLES),
            str(len(specification.tests())),
        )
    return table


def render_page(specifications: Sequence[Specification]) -> str:
    """The page of the documentation, as Markdown."""
    parts = [_INTRODUCTION, "\n".join(_summary_rows(specifications)) + "\n"]
    for specification in specifications:
        parts.append(f"## {specification.number}. {specification.title}\n")
        parts.append("\n".join(_clause_rows(specification)) + "\n")
    return "\n".join(parts)


def _summary_rows(specifications: Sequence[Specification]) -> Iterator[str]:
    yield "| specification | clauses | of these departures | tests |"
    yield "|---|---:|---:|---:|"
    for specification in specifications:
        departures = sum(bool(clause.departure) for clause in specification.clauses)
        yield (
            f"| {specification.number}. {specification.title} | {len(specification.clauses)} "
            f"| {departures} | {len(specification.tests())} |"
        )


def _clause_rows(specification: Specification) -> Iterator[str]:
    yield "| clause | level | sentence | proved by |"
    yield "|---|---|---|---|"
    for clause in specification.clauses:
        sentence = _cell(clause.sentence)
        if clause.departure:
            sentence += f"<br>**Departure:** {_cell(clause.departure)}"
        proof = "<br>".join(_proof_lines(clause.tests))
        yield f"| {clause.id} | {clause.level} | {sentence} | {proof} |"


def _cell(text: str) -> str:
    for sign, written in (("&", "&amp;"), ("<", "&lt;"), ("|", "&#124;"), ("*", "&#42;")):
        text = text.replace(sign, written)
    return text


def _proof_lines(tests: Sequence[str]) -> Iterator[str]:
    """One line per module: its path, then its tests as the sentences they are."""
    for path, group in groupby(sorted(tests), key=lambda test: test.split("::", 1)[0]):
        sentences = (test.rsplit("::", 1)[1].removeprefix("test_") for test in group)
        yield f"`{path}`: " + "; ".join(name.replace("_", " ") for name in sentences)
