"""What ``rota import`` reads from a file: schedules, and what it cannot read, with the reason."""

from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any

from rota.cli.import_rule import Rule


@dataclass(frozen=True)
class ImportedSchedule:
    """One schedule of another scheduler.

    ``when`` and ``options`` are those of ``app.schedule``, ``queue`` that of ``app.task``. ``rule``
    is when the other scheduler fires, from ``start`` on. ``body`` are the lines of the function.
    ``gap_reason`` says why fires near a skipped hour may differ, ``miss_reason`` why others may,
    and ``notes`` what else is different.
    """

    name: str
    where: str
    source: str
    when: str
    body: tuple[str, ...]
    zone: tzinfo
    rule: Rule
    start: datetime | None = None
    queue: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    gap_reason: str = ""
    miss_reason: str = "the two read the rule differently"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unreadable:
    """A part of the file that was left out."""

    where: str
    reason: str


@dataclass(frozen=True)
class Imported:
    """All of a file."""

    schedules: tuple[ImportedSchedule, ...]
    unreadable: tuple[Unreadable, ...]
    imports: tuple[str, ...] = ()
