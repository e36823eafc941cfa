"""Schedules as pages show them: next runs in several zones, and past runs as a strip."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, NamedTuple

from rota.clock.loop import call_in_thread
from rota.errors import RotaError
from rota.jobs.validation import read_recurrence
from rota.ops.series import SHOWN_IN_LIST, SeriesRun
from rota.rail.jobs import Upcoming, preview_series
from rota.scheduler.history import TaskRun
from rota.scheduler.policy import DECLARATIVE, SchedulerPolicy
from rota.server.pages.formats import format_length, format_local
from rota.server.pages.statuses import Sign, sign_of
from rota.triggers.cron import parse_stored_cron
from rota.triggers.dst_notes import annotate, asked_by_cron
from rota.triggers.zone import load_zone

LATE_FROM = timedelta(minutes=1)
PREVIEWED = 5
_LOOK_AHEAD = timedelta(days=366 * 30)


class Occurrence(NamedTuple):
    """An occurrence: local time, UTC, and a note at a DST change."""

    local: str
    utc: str
    note: str = ""
    there: str = ""


class Outlook(NamedTuple):
    """The schedule in words and its next occurrences. ``problem``: it cannot be computed."""

    description: str
    occurrences: tuple[Occurrence, ...] = ()
    skipped: tuple[str, ...] = ()
    problem: str = ""


def show_occurrence(
    at: datetime, zone: tzinfo, note: str | None, there: tzinfo | None = None
) -> Occurrence:
    """Local time in full; UTC only where it differs, with its date only where that differs.

    ``there`` is another zone in which to show it, too.
    """
    clock = "%H:%M:%S" if at.second else "%H:%M"
    local = at.astimezone(zone)
    utc = at.astimezone(UTC)
    elsewhere = "" if there is None else format_local(at, there)
    if local.utcoffset() == timedelta(0):
        return Occurrence(format_local(at, zone), "", note or "", elsewhere)
    day = "" if utc.date() == local.date() else f"{utc:%Y-%m-%d} "
    shown = f"{day}{utc.strftime(clock)} UTC"
    return Occurrence(format_local(at, zone), shown, note or "", elsewhere)


def show_upcoming(
    found: Iterable[Upcoming], zone: tzinfo, there: tzinfo | None = None
) -> tuple[Occurrence, ...]:
    return tuple(show_occurrence(it.at, zone, it.note, there) for it in found)


def preview_task(
    expression: str,
    zone: tzinfo,
    now: datetime,
    *,
    policy: SchedulerPolicy = DECLARATIVE,
    count: int = SHOWN_IN_LIST,
    there: tzinfo | None = None,
) -> Outlook:
    """The next occurrences of a declarative task, by the zone and the policy of its scheduler."""
    try:
        cron = parse_stored_cron(expression, policy.dialect)
        zone, fold = cron.zone or zone, policy.repeated_hour
        found = list(cron.between(now, now + _LOOK_AHEAD, zone, limit=count, fold=fold))
        notes = annotate(found, zone, asked_by_cron(cron), after=now, gap="skip", fold=fold)
    except RotaError as error:
        return Outlook(expression, problem=error.message)
    shown = []
    for at in found:
        note = notes.notes.get(at)
        shown.append(show_occurrence(at, zone, None if note is None else note.text, there))
    return Outlook(cron.describe(), tuple(shown), tuple(each.text for each in notes.skipped))


async def preview_rule(
    fields: Mapping[str, Any], now: datetime, there: tzinfo | None = None
) -> Outlook:
    """A rule in words with its next occurrences, or what is wrong with it. Raises nothing."""
    try:
        recurrence, _ = read_recurrence(dict(fields), now)
        start = max(recurrence.start, now)
        preview = await call_in_thread(lambda: preview_series(recurrence, start, PREVIEWED))
    except RotaError as error:
        return Outlook("", problem=error.message.replace("recurrence.", ""))
    return Outlook(
        preview.description,
        show_upcoming(preview.occurrences, load_zone(recurrence.zone), there),
        preview.skipped,
    )


class PastRun(NamedTuple):
    """A past run of a series or a task; ``title`` describes it in words."""

    run: SeriesRun | TaskRun
    sign: Sign
    title: str
    late_for: timedelta | None
    lasted_for: timedelta | None
    job_id: str | None = None

    @property
    def is_late(self) -> bool:
        return self.late_for is not None and self.late_for >= LATE_FROM


def show_series_runs(runs: Iterable[SeriesRun], zone: tzinfo) -> list[PastRun]:
    shown = []
    for run in runs:
        late_for, lasted_for = _seconds(run.late_seconds), _seconds(run.lasted_seconds)
        past = _show_run(run, run.occurrence_at, late_for, lasted_for, zone)
        shown.append(past._replace(job_id=run.job_id))
    return shown


def show_task_runs(runs: Iterable[TaskRun], zone: tzinfo) -> list[PastRun]:
    shown = []
    for run in runs:
        late_for = run.started_at - run.scheduled_at
        lasted_for = None if run.ended_at is None else run.ended_at - run.started_at
        past = _show_run(run, run.scheduled_at, late_for, lasted_for, zone)
        shown.append(past._replace(title=f"{past.title}; {run.reason}"))
    return shown


def _show_run(
    run: SeriesRun | TaskRun,
    at: datetime,
    late_for: timedelta | None,
    lasted_for: timedelta | None,
    zone: tzinfo,
) -> PastRun:
    sign = sign_of(run, at)
    late_for = None if late_for is None else max(late_for, timedelta(0))
    parts = [f"{format_local(at, zone)}: {sign.word}"]
    if late_for is not None:
        parts.append(f"{format_length(late_for)} late")
    if lasted_for is not None:
        parts.append(f"ran {format_length(lasted_for)}")
    return PastRun(run, sign, ", ".join(parts), late_for, lasted_for)


def _seconds(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
