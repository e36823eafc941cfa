"""What the judge says: violations, each with its axiom and its facts, and the verdict."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import msgspec
from tests.verification.trace.actions import Entry, InitializeCalled, TaskFacts

Axiom = Literal["S1", "S2", "S3", "S4", "S5", "S6", "L1", "L2", "L3", "T1", "T2", "T3", "T4", "EA7"]

AXIOMS: dict[Axiom, str] = {
    "S1": "a task starts only if its start was owed immediately before",
    "S2": "after a successful start there is no other before the next occurrence",
    "S3": "when stop returns, nothing is running",
    "S4": "initialize never succeeds with an invalid list",
    "S5": "a valid list is refused only while another is being taken over or is active",
    "S6": "between two successful initializations lies a stop that returned, or a crash",
    "L1": "an owed start happens in time",
    "L2": "initialize ends in time",
    "L3": "stop returns in time once nothing is running",
    "T1": "after a crash nothing starts until initialize has succeeded",
    "T2": "a task never overlaps itself",
    "T3": "after stop has returned nothing starts until initialize has succeeded",
    "T4": "after a crash nothing that it cut off ends or returns",
    "EA7": "only what has begun can end",
}
"""The axioms S1 to L3, the theorems T1 to T4 that follow from them, and one about the recording."""

_EXCERPT_BEFORE = 8
_EXCERPT_AFTER = 3


@dataclass(frozen=True, slots=True)
class Violation:
    """One breach: which axiom, at which position of the trace, when, of which task, and why."""

    axiom: Axiom
    position: int
    at: datetime
    task: str | None
    message: str

    def __str__(self) -> str:
        return f"{self.axiom} at position {self.position}, {show(self.at)}: {self.message}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the judge found in a trace, in the order of the trace."""

    violations: tuple[Violation, ...]
    trace: tuple[Entry, ...]

    @property
    def ok(self) -> bool:
        return not self.violations

    @property
    def axioms(self) -> frozenset[Axiom]:
        """The axioms that were violated."""
        return frozenset(violation.axiom for violation in self.violations)

    def assert_ok(self) -> None:
        """Raise an AssertionError that shows each violation with the trace around it."""
        if self.violations:
            raise AssertionError(self.render())

    def render(self, limit: int = 5) -> str:
        """The first violations in words, each with an excerpt of the trace."""
        if not self.violations:
            return f"no violation in {len(self.trace)} records"
        parts = [f"{len(self.violations)} violation(s) in {len(self.trace)} records"]
        for violation in self.violations[:limit]:
            parts.append(f"{violation}\n  ({violation.axiom}: {AXIOMS[violation.axiom]})")
            parts.append("\n".join(_excerpt(self.trace, violation.position)))
        if len(self.violations) > limit:
            parts.append(f"... and {len(self.violations) - limit} more")
        return "\n".join(parts)


def show(instant: datetime) -> str:
    """An instant as it reads best in a sentence: UTC, fractions only where there are any."""
    return instant.replace(tzinfo=None).isoformat(sep=" ") + "Z"


def show_entry(entry: Entry) -> str:
    """A record of the trace on one line."""
    tag = str(type(entry).__struct_config__.tag)
    name = f" [{entry.instance}]" if entry.instance else ""
    if isinstance(entry, InitializeCalled):
        return f"{show(entry.at)}{name} {tag} call={entry.call} {_show_list(entry)}"
    fields = {
        field: value
        for field, value in msgspec.structs.asdict(entry).items()
        if field not in {"at", "instance"} and value != ""
    }
    return " ".join([f"{show(entry.at)}{name}", tag, *(f"{k}={v}" for k, v in fields.items())])


def _show_list(entry: InitializeCalled) -> str:
    if entry.registrations is None:
        return "(no list)"
    shown = [
        f"{task.name!r} {task.expression!r} retry {task.retry_delay}"
        if isinstance(task, TaskFacts)
        else f"misshapen {task.received}"
        for task in entry.registrations[:6]
    ]
    more = len(entry.registrations) - len(shown)
    return "[" + "; ".join(shown) + (f"; {more} more" if more else "") + "]"


def _excerpt(trace: Sequence[Entry], position: int) -> Iterator[str]:
    first = max(0, position - _EXCERPT_BEFORE)
    for index in range(first, min(len(trace), position + _EXCERPT_AFTER + 1)):
        pointer = ">" if index == position else " "
        yield f"  {pointer} {index:>5}  {show_entry(trace[index])}"
