"""Finds what a person should know of: held jobs, troubled tasks, and fired dead-man switches."""

from datetime import datetime, timedelta

from rota.clock.protocol import Clock
from rota.jobs import Job, JobFilter, JobStatus
from rota.jobs.recurrence import alert_at, series_of
from rota.ops.explanation import show
from rota.ops.holds import Hold, find_holds, find_paused
from rota.ops.task_notices import WatchedTasks
from rota.rail.jobs import RailContext, RailSettings, RailStore, walk_jobs
from rota.rail.noted_series import WATCHED_SERIES, forget_pause, list_pauses, list_watched
from rota.stores.protocol import DocumentWrite
from rota.telemetry.notices import Notice, NoticeSource

FORGOTTEN_AFTER = timedelta(minutes=10)
"""A series is noted before it is stored: one that is not found this much later has ended."""

_LIVE = (JobStatus.READY, JobStatus.RUNNING, JobStatus.PENDING)


async def find_notices(
    store: RailStore, clock: Clock, tasks: WatchedTasks | None = None
) -> tuple[Notice, ...]:
    """All conditions of a store, over all tenants. Writes nothing.

    A process that asks again and again keeps ``tasks``: then few records are read each time.
    """
    held = [_note_hold(it) for it in await find_holds(store, clock) if it.count]
    of_tasks = await (tasks or WatchedTasks(store, clock)).find()
    return (*held, *of_tasks, *(await _find_overdue_series(store, clock)))


def _note_hold(hold: Hold) -> Notice:
    is_series = hold.series_id is not None
    source: NoticeSource = "series" if is_series else "queue" if hold.queue else "maintenance"
    return Notice(
        concern="held",
        source=source,
        name=hold.scope.removeprefix("series ") if is_series else hold.scope,
        tenant=hold.tenant,
        count=hold.count,
        since=hold.since,
        text=hold.text,
    )


async def _find_overdue_series(store: RailStore, clock: Clock) -> list[Notice]:
    by_tenant: dict[str, set[str]] = {}
    for watched, _ in await list_watched(store):
        by_tenant.setdefault(watched.tenant, set()).add(watched.series_id)
    now, found = clock.now(), []
    for tenant, series_ids in by_tenant.items():
        for job in (await _find_live(store, clock, tenant, series_ids)).values():
            deadline = alert_at(job)
            if deadline is not None and deadline <= now:
                found.append(_note_series(job, deadline))
    return found


async def _find_live(
    store: RailStore, clock: Clock, tenant: str, series_ids: set[str]
) -> dict[str, Job]:
    """The next job of each of these series that has not ended."""
    around = RailContext(store, tenant, clock, RailSettings(), lambda _: 0)
    found: dict[str, Job] = {}
    for status in _LIVE:
        async for job in walk_jobs(around, JobFilter(status=status, is_recurring=True)):
            origin = series_of(job)
            if origin in series_ids:
                found[origin] = job
    return found


def _note_series(job: Job, deadline: datetime) -> Notice:
    paused = "; it is paused" if job.is_paused else ""
    return Notice(
        concern="overdue",
        source="series",
        name=job.name,
        tenant=job.tenant,
        since=deadline,
        text=f"series {job.name} has not succeeded by {show(deadline)}{paused}",
    )


async def forget_ended(store: RailStore, clock: Clock) -> None:
    """Remove the notes about series that have ended: pauses and dead-man switches."""
    for paused in await list_pauses(store):
        if await find_paused(store, clock, paused) is None and _is_old(paused.at, clock):
            await forget_pause(store, paused.tenant, paused.series_id)
    removals = []
    watched = await list_watched(store)
    for tenant in {it.tenant for it, _ in watched}:
        ids = {it.series_id for it, _ in watched if it.tenant == tenant}
        live = await _find_live(store, clock, tenant, ids)
        removals += [
            DocumentWrite(WATCHED_SERIES, document.key, document.version, None)
            for it, document in watched
            if it.tenant == tenant and it.series_id not in live and _is_old(it.noted_at, clock)
        ]
    if removals:
        await store.write_each(removals)


def _is_old(noted_at: datetime, clock: Clock) -> bool:
    return clock.now() - noted_at > FORGOTTEN_AFTER
