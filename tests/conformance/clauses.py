"""The clauses of the specifications, as docs/specs/clauses.toml lists them."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLAUSE_FILE = ROOT / "docs/specs/clauses.toml"


@dataclass(frozen=True)
class Clause:
    """One requirement: its name, such as D-12, and its summary."""

    name: str
    summary: str


@dataclass(frozen=True)
class Specification:
    number: int
    title: str
    clauses: tuple[Clause, ...]


@cache
def specifications() -> tuple[Specification, ...]:
    """All specifications with their clauses, in order."""
    listed = tomllib.loads(CLAUSE_FILE.read_text(encoding="utf-8"))["specification"]
    return tuple(
        Specification(
            entry["number"],
            entry["title"],
            tuple(Clause(name, summary) for name, summary in entry["clauses"].items()),
        )
        for entry in listed
    )


@cache
def clause_names() -> frozenset[str]:
    return frozenset(clause.name for spec in specifications() for clause in spec.clauses)
