"""The occurrences of a schedule, with the effect of daylight saving, as a table and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from cyclopts import Parameter

from rota.cli.options import (
    ChosenZone,
    FoldOption,
    FromOption,
    GapOption,
    ZoneOption,
    choose_zone,
    format_instant,
    read_instant,
)
from rota.cli.output import Row, Terminal, format_duration, print_table
from rota.triggers.dst_notes import AskedFor, DstNotes, Skipped, annotate, describe_change
from rota.triggers.zone import Fold, Gap


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a schedule: what comes strictly after an instant, in a zone, by rules."""

    chosen: ChosenZone
    after: datetime
    gap: Gap
    fold: Fold

    def to_document(self) -> dict[str, Any]:
        return {
            "zone": self.chosen.name,
            "zone_source": self.chosen.source,
            "gap": self.gap,
            "fold": self.fold,
            "from": format_instant(self.after),
        }


@Parameter(name="*")
@dataclass(frozen=True)
class Asked:
    """The options that ask a question of an expression."""

    zone: ZoneOption = None
    start: FromOption = None
    gap: GapOption = "skip"
    fold: FoldOption = "both"

    def read(self, terminal: Terminal, zone: str | None = None) -> Question:
        """The question: by default in the zone that the schedule names, and from now on."""
        chosen = choose_zone(zone or self.zone)
        after = terminal.clock.now()
        if self.start is not None:
            after = read_instant(self.start, chosen.zone, "--from")
        return Question(chosen, after, self.gap, self.fold)


WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

END_OF_CALENDAR = datetime.max.replace(tzinfo=UTC)
EXPLAINED_COUNT = 3
"""How many occurrences an explanation lists."""

_WIDE = 90


@dataclass(frozen=True)
class Listing:
    """The answer to a question: occurrences, ascending, and what daylight saving does to them."""

    question: Question
    occurrences: Sequence[datetime]
    dst: DstNotes

    @cached_property
    def clock(self) -> str:
        """The format of a wall time; it has seconds if any occurrence does."""
        has_seconds = any(occurrence.second for occurrence in self.occurrences)
        return "%Y-%m-%d %H:%M:%S" if has_seconds else "%Y-%m-%d %H:%M"

    @property
    def number_width(self) -> int:
        return len(str(len(self.occurrences)))

    def show_local(self, instant: datetime) -> datetime:
        """The instant on the clocks of the zone that was asked for."""
        return instant.astimezone(self.question.chosen.zone)


def make_listing(
    occurrences: Sequence[datetime], question: Question, asked: AskedFor | None
) -> Listing:
    """The answer to a question; ``asked`` says which wall times the schedule asks for."""
    zone, gap, fold = question.chosen.zone, question.gap, question.fold
    notes = annotate(occurrences, zone, asked, after=question.after, gap=gap, fold=fold)
    return Listing(question, occurrences, notes)


def print_listing(terminal: Terminal, title: str, listing: Listing) -> None:
    """Print what is listed, from when and where, and one row per occurrence.

    A dim row stands wherever some were skipped. The column for notes is left out when it is empty.
    A remark says so when the host's zone is unknown and UTC stands in for it.
    """
    chosen = listing.question.chosen
    if chosen.source == "fallback":
        terminal.print_remark(
            "note: the host's time zone has no known name, so this is UTC; name one with --zone"
        )
    local = listing.show_local(listing.question.after)
    terminal.print_text(title, "bold")
    terminal.print_text(f"{chosen.name}, after {_show(local, '%Y-%m-%d %H:%M:%S')}\n", "dim")
    console = terminal.out
    rows = list(_rows(listing, in_two_lines=console.is_terminal and console.width < _WIDE))
    if not any(cells["Note"] for cells, _ in rows):
        rows = [
            ({name: it for name, it in cells.items() if name != "Note"}, style)
            for cells, style in rows
        ]
    print_table(console, rows)


def listing_document(listing: Listing) -> dict[str, Any]:
    """The occurrences and the skipped times, for programs."""
    return {
        "occurrences": [
            _occurrence_document(listing, number, occurrence)
            for number, occurrence in enumerate(listing.occurrences, start=1)
        ],
        "skipped": [_skipped_document(skipped) for skipped in listing.dst.skipped],
    }


def _rows(listing: Listing, *, in_two_lines: bool) -> Iterator[Row]:
    skipped = list(listing.dst.skipped)
    for number, occurrence in enumerate(listing.occurrences, start=1):
        while skipped and skipped[0].transition.at <= occurrence:
            yield _skipped_row(listing, skipped.pop(0))
        cells, style = _occurrence_row(listing, number, occurrence)
        note = cells["Note"].replace(": ", ":\n") if in_two_lines else cells["Note"]
        yield {**cells, "Note": note}, style


def _occurrence_row(listing: Listing, number: int, occurrence: datetime) -> Row:
    note = listing.dst.notes.get(occurrence)
    cells = {
        f"{'#':>{listing.number_width}}": f"{number:>{listing.number_width}}",
        "Local": _show(listing.show_local(occurrence), listing.clock),
        "UTC": f"{occurrence.strftime(listing.clock)}Z",
        "In": format_duration(occurrence - listing.question.after),
        "Note": note.text if note else "",
    }
    return cells, "yellow" if note else ""


def _skipped_row(listing: Listing, skipped: Skipped) -> Row:
    first, times = skipped.walls[0], len(skipped.walls)
    local = f"{WEEKDAYS[first.weekday()][:3]} {skipped.subject.partition(' (')[0]}"
    absence = "does not exist" if times == 1 else f"{times} do not exist"
    cells = {
        f"{'#':>{listing.number_width}}": f"{'-':>{listing.number_width}}",
        "Local": local,
        "UTC": absence,
        "In": "",
        "Note": describe_change(skipped.transition),
    }
    return cells, "dim"


def _show(local: datetime, clock: str) -> str:
    """The weekday, the time, and its offset; where the zone once had seconds in it, those too."""
    offset = local.isoformat()[len(local.replace(tzinfo=None).isoformat()) :]
    return f"{WEEKDAYS[local.weekday()][:3]} {local.strftime(clock)} {offset}"


def _occurrence_document(listing: Listing, number: int, occurrence: datetime) -> dict[str, Any]:
    local, note = listing.show_local(occurrence), listing.dst.notes.get(occurrence)
    return {
        "number": number,
        "local": local.isoformat(),
        "weekday": WEEKDAYS[local.weekday()],
        "utc": format_instant(occurrence),
        "in_seconds": (occurrence - listing.question.after) // timedelta(seconds=1),
        "note": note and {"kind": note.kind, "asked_for": note.wall.isoformat(), "text": note.text},
    }


def _skipped_document(skipped: Skipped) -> dict[str, Any]:
    return {
        "first": skipped.walls[0].isoformat(),
        "last": skipped.walls[-1].isoformat(),
        "count": len(skipped.walls),
        "transition_at": format_instant(skipped.transition.at),
        "text": skipped.text,
    }
