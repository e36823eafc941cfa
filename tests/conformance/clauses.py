"""The clauses of the specifications: one normative sentence each, with the tests that prove it."""

import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.names import exists

ROOT = Path(__file__).resolve().parents[2]
CLAUSE_FOLDER = ROOT / "docs/specs/clauses"
_LEVELS = {"must", "should", "may", "default"}
_FIELDS = {"id", "sentence", "level", "tests", "departure"}


@dataclass(frozen=True)
class Clause:
    """One sentence. A departure says why Rota does otherwise; its tests show what it does."""

    id: str
    sentence: str
    level: str
    tests: tuple[str, ...]
    departure: str


@dataclass(frozen=True)
class Specification:
    number: int
    title: str
    clauses: tuple[Clause, ...]

    def tests(self) -> set[str]:
        return {test for clause in self.clauses for test in clause.tests}


class ClauseError(Exception):
    """All that is wrong with the clause files, one line each."""


def load(folder: Path = CLAUSE_FOLDER, root: Path = ROOT) -> tuple[Specification, ...]:
    """Read every file and check it; raise ClauseError with all faults at once."""
    faults: list[str] = []
    found = [_read(path, faults) for path in sorted(folder.glob("[0-9].toml"))]
    faults.extend(_find_faults(found, root))
    if faults:
        raise ClauseError("\n".join(faults))
    return tuple(found)


def _read(path: Path, faults: list[str]) -> Specification:
    entries = tomllib.loads(path.read_text(encoding="utf-8"))
    for entry in entries["clause"]:
        unknown = set(entry) - _FIELDS
        if unknown or not {"id", "sentence", "level"} <= set(entry):
            faults.append(f"{path.name}: {entry.get('id')}: fields are {sorted(entry)}")
    clauses = tuple(
        Clause(
            entry.get("id", ""),
            entry.get("sentence", ""),
            entry.get("level", ""),
            tuple(entry.get("tests", ())),
            entry.get("departure", ""),
        )
        for entry in entries["clause"]
    )
    return Specification(entries["number"], entries["title"], clauses)


def _find_faults(specifications: list[Specification], root: Path) -> Iterator[str]:
    ids = Counter(clause.id for spec in specifications for clause in spec.clauses)
    yield from (f"{name}: stands {count} times" for name, count in ids.items() if count > 1)
    for specification in specifications:
        for clause in specification.clauses:
            for fault in _faults_of(clause, specification.number, root):
                yield f"{clause.id}: {fault}"


def _faults_of(clause: Clause, number: int, root: Path) -> Iterator[str]:
    if not re.fullmatch(rf"{number}-\d+(\.\d+)*-\d+", clause.id):
        yield f"the id must be {number}-SECTION-NUMBER, such as {number}-4.2-3"
    if clause.level not in _LEVELS:
        yield f"the level {clause.level!r} must be one of {', '.join(sorted(_LEVELS))}"
    if not clause.tests and not clause.departure:
        yield "no test proves it, and no departure says why"
    if len(set(clause.tests)) < len(clause.tests):
        yield "a test is named twice"
    yield from (f"there is no test {test}" for test in clause.tests if not exists(test, root))
