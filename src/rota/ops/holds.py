"""What holds due jobs back now: maintenance windows, paused series and paused queues."""

from asyncio import gather
from collections.abc import Iterator
from datetime import datetime
from secrets import randbits
from typing import Literal

import msgspec

from rota.clock.protocol import Clock, later
from rota.errors import JobEndedError, JobNotFoundError
from rota.jobs import Job, JobId
from rota.ops.explanation import show
from rota.policy.gate_settings import ScopedMaintenance, TenantQuietHours
from rota.policy.gates import RECHECK_FOR, Maintenance
from rota.policy.limits import Limit, Pause
from rota.policy.quiet_hours import QuietHours
from rota.rail.jobs import RailContext, RailSettings, RailStore, find_live
from rota.rail.noted_series import PausedSeries, list_pauses
from rota.rail.settings import GateList, list_gates, list_limits


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """Something that keeps jobs from running, though their time comes.

    ``scope`` names the jobs: everything, a tenant, a queue or a series. ``count`` jobs wait for its
    end, or are due before it. ``since`` is None if that is not known; without ``until`` it lasts
    until a person ends it.
    """

    source: Literal["maintenance", "pause"]
    scope: str
    tenant: str = ""
    count: int
    since: datetime | None = None
    until: datetime | None = None
    who: str = ""
    why: str = ""
    series_id: JobId | None = None
    queue: str | None = None
    text: str = ""

    def describe(self) -> str:
        """One sentence without its full stop: what, by whom and why, how many jobs, since when."""
        what = "maintenance of" if self.source == "maintenance" else "a pause of"
        jobs = "no job yet" if not self.count else "1 job" if self.count == 1 else None
        by = f" by {self.who}" if self.who else ""
        why = f" ({self.why})" if self.why else ""
        parts = [f"{what} {self.scope}{by}{why} holds back {jobs or f'{self.count} jobs'}"]
        if self.since is not None:
            parts.append(f"since {show(self.since)}")
        parts.append("until it is ended" if self.until is None else f"until {show(self.until)}")
        return " ".join(parts)


async def find_holds(store: RailStore, clock: Clock, tenant: str | None = None) -> tuple[Hold, ...]:
    """What holds back jobs of the tenant, or of any tenant, now."""
    now = clock.now()
    gates, pauses, limits = await gather(
        list_gates(store), list_pauses(store, tenant), list_limits(store)
    )
    found = [
        await weigh_window(store, entry, window, now, tenant)
        for entry, window in list_windows(gates, now, tenant)
        if window.from_at is None or window.from_at <= now
    ]
    for paused in pauses:
        job = await find_paused(store, clock, paused)
        if job is not None and (job.occurrence_at or job.created_at) <= now:
            found.append(_weigh_pause(paused))
    found += [
        await _weigh_queue(store, limit, limit.paused, now, tenant)
        for limit in limits.limits
        if limit.paused is not None and (tenant is None or limit.tenant in {None, tenant})
    ]
    return tuple(msgspec.structs.replace(it, text=it.describe()) for it in found)


def list_windows(
    gates: GateList, now: datetime, tenant: str | None = None
) -> Iterator[tuple[ScopedMaintenance, Maintenance]]:
    """The windows that hold back jobs of the tenant, or of any tenant, now or later."""
    for entry in gates.entries:
        if not isinstance(entry, ScopedMaintenance):
            continue
        if tenant is None or entry.scope.tenant in {None, tenant}:
            yield from ((entry, window) for window in entry.windows if not window.is_over(now))


def find_hours(gates: GateList, tenant: str) -> QuietHours | None:
    """The quiet hours of the tenant."""
    found = (it for it in gates.entries if isinstance(it, TenantQuietHours) and it.tenant == tenant)
    entry = next(found, None)
    return None if entry is None else entry.hours


async def weigh_window(
    store: RailStore,
    entry: ScopedMaintenance,
    window: Maintenance,
    now: datetime,
    tenant: str | None,
) -> Hold:
    """What the window would hold back: of the tenant's jobs, or of all in its scope."""
    # A job that is held back is due again when the window ends, or when the gate is asked again.
    until = window.until or later(now, RECHECK_FOR)
    depths = await store.survey(until, tenant or entry.scope.tenant)
    queue = entry.scope.queue
    return Hold(
        source="maintenance",
        scope=str(entry.scope),
        tenant=entry.scope.tenant or "",
        count=sum(it.due_count for it in depths if queue in {None, it.queue}),
        since=window.from_at or window.set_at,
        until=window.until,
        who=window.who,
        why=window.reason,
    )


async def _weigh_queue(
    store: RailStore, limit: Limit, pause: Pause, now: datetime, tenant: str | None
) -> Hold:
    """What a paused queue holds back: of the tenant's jobs, or of all in its scope."""
    depths = await store.survey(now, tenant or limit.tenant)
    whose = "" if limit.tenant is None else f" of tenant {limit.tenant}"
    return Hold(
        source="pause",
        scope=f"queue {limit.queue}{whose}",
        tenant=limit.tenant or "",
        count=sum(it.due_count for it in depths if it.queue == limit.queue),
        since=pause.at,
        who=pause.who,
        why=pause.why,
        queue=limit.queue,
    )


def _weigh_pause(paused: PausedSeries) -> Hold:
    return Hold(
        source="pause",
        scope=f"series {paused.name}",
        tenant=paused.tenant,
        count=1,
        since=paused.at,
        who=paused.who,
        why=paused.why,
        series_id=paused.series_id,
    )


async def find_paused(store: RailStore, clock: Clock, paused: PausedSeries) -> Job | None:
    """The waiting job of the series; None if it has ended or was resumed."""
    around = RailContext(store, paused.tenant, clock, RailSettings(), randbits)
    try:
        job = (await find_live(around, paused.job_id))[-1]
    except (JobEndedError, JobNotFoundError):
        return None
    return job if job.is_paused else None
