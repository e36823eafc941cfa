"""A calendar of what will run: series and declarative tasks of the coming days, and collisions."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from typing import Literal

import msgspec

from rota.clock.loop import call_in_thread
from rota.errors import InvalidInputError, RotaError
from rota.jobs import PAUSED_UNTIL, Job, make_trigger
from rota.jobs.recurrence import CALENDAR_END, occurrence_of, series_of, start_at
from rota.ops.series import find_next_jobs
from rota.ops.tasks import read_context
from rota.rail.jobs import RailContext
from rota.scheduler.policy import SchedulerContext
from rota.scheduler.queries import read_tasks
from rota.scheduler.task import TaskState
from rota.triggers.cron import parse_stored_cron

DAYS = 31
OFTEN_A_DAY = 48
"""A schedule with more runs a day than this is listed apart: it collides with everything."""

MOST_ENTRIES = 5_000
MOST_COLLISIONS = 20
_DAY = timedelta(days=1)


class CalendarEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One run that will be due. ``id`` is that of the series, or the name of the task."""

    at: datetime
    name: str
    source: Literal["series", "task"]
    id: str
    queue: str | None = None


class FrequentSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that is due very often: how often in the range, and when first."""

    name: str
    source: Literal["series", "task"]
    id: str
    count: int
    first_at: datetime
    queue: str | None = None


class Collision(msgspec.Struct, frozen=True, kw_only=True):
    """Schedules that are due in the same minute, ``count`` times; ``at`` is the first minute."""

    at: datetime
    names: tuple[str, ...]
    count: int = 1


class Calendar(msgspec.Struct, frozen=True, kw_only=True):
    """What will be due from ``since`` to ``until``, in order.

    ``frequent`` schedules are not among the ``entries``. ``collisions`` has the largest first.
    ``is_cut``: there are more runs than are listed.
    """

    since: datetime
    until: datetime
    entries: tuple[CalendarEntry, ...]
    frequent: tuple[FrequentSchedule, ...] = ()
    collisions: tuple[Collision, ...] = ()
    paused_count: int = 0
    is_cut: bool = False


class _Source(msgspec.Struct, frozen=True, kw_only=True):
    """One schedule, and its runs in the range."""

    name: str
    source: Literal["series", "task"]
    id: str
    queue: str | None
    runs: tuple[datetime, ...]


async def make_calendar(
    context: RailContext, days: int = 1, *, has_tasks: bool = False, zone: tzinfo = UTC
) -> Calendar:
    """What will be due in the next ``days`` days. Tasks belong to no tenant: ``has_tasks``.

    ``zone`` is that of tasks whose scheduler has not declared its own.
    """
    if not 1 <= days <= DAYS:
        message = f"days must be an integer from 1 to {DAYS}, got {days}"
        raise InvalidInputError(message, {"field": "days"})
    now = context.clock.now()
    until = now + days * _DAY
    jobs = list((await find_next_jobs(context.store, context.tenant))[0].values())
    live = [job for job in jobs if not job.is_paused]
    tasks: list[TaskState] = []
    paused_count = len(jobs) - len(live)
    rules = await read_context(context.store, context.clock, zone)
    if has_tasks:
        found = await read_tasks(context.store, context.clock)
        held = {name for name, pause in found.pauses.items() if pause.is_active}
        tasks = [task for task in found.tasks if task.name not in held]
        paused_count += len(found.tasks) - len(tasks)
    limit = days * OFTEN_A_DAY
    return await call_in_thread(
        lambda: _compose(
            [*_read_series(live, now, until), *_read_tasks(tasks, rules, now, until)],
            Calendar(since=now, until=until, entries=(), paused_count=paused_count),
            limit,
        )
    )


def _read_series(jobs: Iterable[Job], now: datetime, until: datetime) -> Iterator[_Source]:
    for job in jobs:
        yield _Source(
            name=job.name,
            source="series",
            id=series_of(job),
            queue=job.queue,
            runs=tuple(_walk_series(job, now, until)),
        )


def _walk_series(job: Job, now: datetime, until: datetime) -> Iterator[datetime]:
    recurrence = job.recurrence
    if recurrence is None or job.due_at >= PAUSED_UNTIL:
        return
    if now <= job.due_at <= until:
        yield job.due_at
    last = min(recurrence.until or CALENDAR_END, until)
    left = None if recurrence.count is None else recurrence.count - 1
    try:
        trigger = make_trigger(recurrence)
        at = trigger.next_after(max(occurrence_of(job), now))
        for _ in range(MOST_ENTRIES):
            if at is None or at > last or left == 0:
                return
            yield start_at(recurrence, series_of(job), at)
            left = None if left is None else left - 1
            at = trigger.next_after(at)
    except (RotaError, OverflowError):
        return  # the page of the series says what is wrong with its rule


def _read_tasks(
    tasks: Iterable[TaskState], rules: SchedulerContext, now: datetime, until: datetime
) -> Iterator[_Source]:
    for task in tasks:
        try:
            cron = parse_stored_cron(task.cron_expression, rules.policy.dialect)
            fold = rules.policy.repeated_hour
            runs = tuple(cron.between(now, until, rules.zone, limit=MOST_ENTRIES, fold=fold))
        except RotaError:
            runs = ()
        yield _Source(name=task.name, source="task", id=task.name, queue=None, runs=runs)


def _compose(sources: Sequence[_Source], empty: Calendar, limit: int) -> Calendar:
    rare = [it for it in sources if it.runs and len(it.runs) <= limit]
    entries = sorted(
        (
            CalendarEntry(at=at, name=it.name, source=it.source, id=it.id, queue=it.queue)
            for it in rare
            for at in it.runs
        ),
        key=lambda it: (it.at, it.name),
    )
    frequent = [
        FrequentSchedule(
            name=it.name,
            source=it.source,
            id=it.id,
            count=len(it.runs),
            first_at=it.runs[0],
            queue=it.queue,
        )
        for it in sources
        if len(it.runs) > limit
    ]
    return msgspec.structs.replace(
        empty,
        entries=tuple(entries[:MOST_ENTRIES]),
        frequent=tuple(sorted(frequent, key=lambda it: it.name)),
        collisions=tuple(islice(_find_collisions(entries), MOST_COLLISIONS)),
        is_cut=len(entries) > MOST_ENTRIES,
    )


def _find_collisions(entries: Iterable[CalendarEntry]) -> Iterator[Collision]:
    """The schedules that are due in the same minutes: the largest groups first."""
    groups: defaultdict[tuple[str, ...], list[datetime]] = defaultdict(list)
    for at, names in find_full_minutes(entries).items():
        groups[tuple(sorted(names))].append(at)
    for group, minutes in sorted(groups.items(), key=lambda it: (-len(it[0]), min(it[1]))):
        yield Collision(at=min(minutes), names=group, count=len(minutes))


def find_full_minutes(entries: Iterable[CalendarEntry]) -> dict[datetime, list[str]]:
    """The minutes in which several schedules are due, with their names."""
    minutes: defaultdict[datetime, dict[str, str]] = defaultdict(dict)
    for entry in entries:
        minutes[to_minute(entry.at)][entry.id] = entry.name
    return {at: list(names.values()) for at, names in minutes.items() if len(names) > 1}


def to_minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)
