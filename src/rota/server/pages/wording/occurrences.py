"""When something comes next: on the clock of its zone, in UTC, and what the clocks do to it."""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple

from rota.errors import RotaError
from rota.server.pages.wording.times import tell_local
from rota.triggers.cron import Cron, parse_cron
from rota.triggers.dst_notes import annotate, asked_by_cron

SHOWN_COUNT = 3
_LOOK_AHEAD = timedelta(days=366 * 30)


class Occurrence(NamedTuple):
    """One of them: local time, UTC, and a note where the clocks change."""

    local: str
    utc: str
    note: str = ""


class Outlook(NamedTuple):
    """The schedule in words, and what comes next; ``problem`` when it cannot be computed."""

    description: str
    occurrences: tuple[Occurrence, ...] = ()
    skipped: tuple[str, ...] = ()
    problem: str = ""


def foresee_cron(expression: str, zone: tzinfo, now: datetime) -> Outlook:
    """The next occurrences of a declarative task, on the clock of its scheduler."""
    try:
        cron = parse_cron(expression, dialect="posix-multiline")
        return _foresee(cron, zone, now)
    except RotaError as error:
        return Outlook(expression, problem=error.message)


def _foresee(cron: Cron, zone: tzinfo, now: datetime) -> Outlook:
    found = list(cron.between(now, now + _LOOK_AHEAD, zone, limit=SHOWN_COUNT))
    told = annotate(found, zone, asked_by_cron(cron), after=now, gap="skip", fold="both")
    shown = []
    for at in found:
        note = told.notes.get(at)
        shown.append(show_occurrence(at, zone, None if note is None else note.text))
    return Outlook(cron.describe(), tuple(shown), tuple(each.text for each in told.skipped))


def show_occurrence(at: datetime, zone: tzinfo, note: str | None) -> Occurrence:
    """Local time in full; of UTC only what differs: nothing where both clocks show the same."""
    clock = "%H:%M:%S" if at.second else "%H:%M"
    local = at.astimezone(zone)
    utc = at.astimezone(UTC)
    if local.utcoffset() == timedelta(0):
        return Occurrence(tell_local(at, zone), "", note or "")
    day = "" if utc.date() == local.date() else f"{utc:%Y-%m-%d} "
    return Occurrence(tell_local(at, zone), f"{day}{utc.strftime(clock)} UTC", note or "")
