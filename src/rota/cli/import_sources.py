"""What ``rota import`` reads from a file: schedules, and what it cannot read, with the reason."""

from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any

from rota.cli.import_rule import FieldRule


@dataclass(frozen=True)
class ImportedSchedule:
    """One schedule of another scheduler.

    ``when`` and ``options`` are those of ``app.schedule``. ``rule`` is when the other scheduler
    fires; None for an interval, whose phase both count from their own start. ``body`` are the lines
    of the function. ``reasons`` say why single fires may differ, ``notes`` what else is different.
    """

    name: str
    where: str
    source: str
    when: str
    body: tuple[str, ...]
    zone: tzinfo
    rule: FieldRule | None = None
    options: dict[str, Any] = field(default_factory=dict)
    gap_reason: str = ""
    fold_reason: str = ""
    day_reason: str = ""
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
