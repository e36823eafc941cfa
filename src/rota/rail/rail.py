"""The rail: one place to schedule the work of any module, for one tenant."""

from collections.abc import Callable, Mapping
from datetime import datetime, time, timedelta, tzinfo
from secrets import randbits
from typing import Any
from zoneinfo import ZoneInfo

from rota.clock.protocol import Clock
from rota.clock.system import SystemClock
from rota.errors import InvalidJobError, JobNotFoundError
from rota.jobs import JobId, JobRequest, Overlap, RetryPolicy, admit_job
from rota.jobs.states import RailWord
from rota.jobs.validation import read_recurrence
from rota.policy.gate_settings import Scope, parse_quiet_hours
from rota.policy.maintenance import Maintenance
from rota.rail import gates
from rota.rail.audit import Act, record_act
from rota.rail.context import RailSettings, RailStore, Surroundings
from rota.rail.jobs import RailJob, RailPage, Search, list_rail_jobs, read_state, view_job
from rota.rail.preview import Preview, preview_series
from rota.rail.requests import (
    Asked,
    Moment,
    Rule,
    outer_names,
    read_moment,
    read_once,
    read_rule,
    read_series,
    read_tenant,
)
from rota.rail.series import cancel_jobs, find_job, find_live, move_job, pause_series, resume_series
from rota.triggers.zone import Fold, Gap

Payload = Mapping[str, Any]


class Rail:
    """Schedules jobs of one tenant and looks after them; it never sees another tenant's.

    Every argument is checked before anything happens: InvalidJobError names it and says why.
    ``who`` and ``why`` go into the audit log.
    """

    def __init__(
        self,
        store: RailStore,
        tenant: str = "default",
        *,
        clock: Clock | None = None,
        settings: RailSettings | None = None,
        draw_bits: Callable[[int], int] = randbits,
    ) -> None:
        self._around = Surroundings(
            store,
            read_tenant(tenant),
            clock or SystemClock(),
            settings or RailSettings(),
            draw_bits,
        )

    async def schedule_once(
        self,
        kind: str,
        payload: Payload,
        *,
        run_at: Moment,
        priority: int = 3,
        idempotency_key: str | None = None,
        queue: str | None = None,
        retry_policy: RetryPolicy | Mapping[str, Any] | None = None,
        within: Any = None,
    ) -> JobId:
        """One job at one time; the id of the job.

        With an ``idempotency_key``, given here or in the payload, a job of the same kind that has
        it already is the one: its id is returned, or DuplicateJobError raised if its payload is
        another. ``within`` is a connection of the caller's own with a transaction under way: the
        job comes into being when that is committed.
        """
        asked = Asked(kind, payload, priority, idempotency_key, queue, retry_policy)
        with outer_names():
            request = read_once(asked, run_at, self._around.settings)
            return await self._insert(request, within)

    async def schedule_recurring(
        self,
        kind: str,
        payload: Payload,
        *,
        rrule: str | None = None,
        cron: str | None = None,
        interval: str | timedelta | None = None,
        tz: str | ZoneInfo | None = None,
        start_from: Moment | None = None,
        until: Moment | None = None,
        count: int | None = None,
        gap: Gap | None = None,
        fold: Fold | None = None,
        overlap: Overlap = "skip",
        priority: int = 3,
        idempotency_key: str | None = None,
        queue: str | None = None,
        retry_policy: RetryPolicy | Mapping[str, Any] | None = None,
        within: Any = None,
    ) -> JobId:
        """A series, one job at a time; the id of its first, which also names the series.

        Exactly one of ``rrule``, ``cron`` and ``interval`` says when, on the clock of ``tz``. The
        first occurrence is the first at or after ``start_from``, which is now unless the rule's own
        DTSTART says otherwise. Left out, the ``idempotency_key`` is that id: each call is a series
        of its own.
        """
        rule = Rule(rrule, cron, interval, tz, start_from, until, count, gap, fold, overlap)
        asked = Asked(kind, payload, priority, idempotency_key, queue, retry_policy)
        with outer_names(rule):
            request = read_series(asked, rule, self._around.settings)
            return await self._insert(request, within)

    async def get(self, job_id: JobId) -> RailJob:
        """The job as it stands; JobNotFoundError when the tenant has none of that id."""
        job = await find_job(self._around, job_id)
        if job is None:
            raise JobNotFoundError(str(job_id))
        return view_job(job)

    async def list(
        self,
        *,
        state: RailWord | None = None,
        kind: str | None = None,
        cursor: str | None = None,
        limit: int = 20,
    ) -> RailPage:
        """A page of the tenant's jobs, the newest first."""
        search = Search(
            state=read_state(state), accepts=lambda job: kind is None or job.kind == kind
        )
        return await list_rail_jobs(self._around, search, cursor, limit)

    async def cancel(
        self,
        job_id: JobId,
        *,
        ends_series: bool = True,
        who: str | None = None,
        why: str | None = None,
    ) -> RailJob:
        """Call off a job, at whatever stage; of a series any job's id will do, and it ends.

        With ``ends_series=False`` only the present occurrence is called off. JobEndedError when
        there is nothing left to call off.
        """
        await find_live(self._around, job_id)
        await self._record("cancel", job_id, who, why, endsSeries=ends_series)
        reason = "cancelled" + (f" by {who}" if who else "") + (f": {why}" if why else "")
        cancelled = await cancel_jobs(self._around, job_id, reason, ends_series=ends_series)
        return view_job(cancelled[-1])

    async def reschedule(
        self, job_id: JobId, run_at: Moment, *, who: str | None = None, why: str | None = None
    ) -> RailJob:
        """Let a job that waits run at another time; of a series, only its next occurrence."""
        due_at = read_moment(run_at, "run_at")
        await find_live(self._around, job_id)
        await self._record("reschedule", job_id, who, why, runAt=due_at.isoformat())
        return view_job(await move_job(self._around, job_id, due_at))

    async def run_now(
        self, job_id: JobId, *, who: str | None = None, why: str | None = None
    ) -> RailJob:
        """Let a job that waits run at once; a series goes on afterwards as if it had waited."""
        await find_live(self._around, job_id)
        await self._record("run_now", job_id, who, why)
        return view_job(await move_job(self._around, job_id, self._around.clock.now()))

    async def pause(
        self, job_id: JobId, *, who: str | None = None, why: str | None = None
    ) -> RailJob:
        """Let a series wait: an occurrence that has begun is finished, none begins."""
        await find_live(self._around, job_id)
        await self._record("pause", job_id, who, why)
        return view_job(await pause_series(self._around, job_id))

    async def resume(
        self,
        job_id: JobId,
        *,
        catch_up: bool = False,
        who: str | None = None,
        why: str | None = None,
    ) -> RailJob:
        """Let a paused series go on with its next occurrence.

        Those that passed meanwhile are passed over; with ``catch_up`` the first of them runs now.
        """
        await find_live(self._around, job_id)
        await self._record("resume", job_id, who, why, catchUp=catch_up)
        return view_job(await resume_series(self._around, job_id, catch_up=catch_up))

    async def preview(
        self, job_id: JobId | None = None, *, occurrence_count: int = 5, **rule: Any
    ) -> Preview:
        """The next occurrences, with notes where the clocks change: of a series, or of a rule.

        A rule is given with the arguments of ``schedule_recurring`` that say when.
        """
        if job_id is not None:
            job = (await find_live(self._around, job_id))[-1]
            if job.recurrence is None:
                raise InvalidJobError("job_id", "must name a series, and this job does not recur")
            return preview_series(job.recurrence, job.occurrence_at or job.due_at, occurrence_count)
        asked = Rule(**rule)
        with outer_names(asked):
            recurrence, _ = read_recurrence(read_rule(asked), self._around.clock.now())
        return preview_series(recurrence, recurrence.start, occurrence_count)

    async def set_quiet_hours(
        self,
        start: str | time | None = None,
        end: str | time | None = None,
        tz: str | tzinfo | None = None,
        *,
        who: str | None = None,
        why: str | None = None,
        **more: Any,
    ) -> None:
        """Hold back what notifies people between these times of day; None clears.

        ``more`` is what ``rota.gates.parse_quiet_hours`` takes: weekdays, rest days, holidays.
        """
        store, tenant = self._around.store, self._around.tenant
        if start is None and end is None:
            await self._record("set_quiet_hours", None, who, why, cleared=True)
            return await gates.clear_quiet_hours(store, tenant)
        for field, value in (("start", start), ("end", end), ("tz", tz)):
            if value is None:
                raise InvalidJobError(field, "is missing")
        hours = parse_quiet_hours(start or "", end or "", tz or "", **more)
        await self._record("set_quiet_hours", None, who, why, start=str(start), end=str(end))
        return await gates.set_quiet_hours(store, tenant, hours)

    async def set_maintenance(
        self,
        is_on: bool,  # noqa: FBT001 - fixed: rail.set_maintenance(True, …)
        *,
        until: datetime | None = None,
        reason: str = "",
        who: str = "",
    ) -> None:
        """Hold back everything of the tenant, until then or until it is switched off."""
        store, scope = self._around.store, Scope(tenant=self._around.tenant)
        if not is_on:
            await self._record("set_maintenance", None, who or None, reason, isOn=False)
            return await gates.clear_maintenance(store, scope)
        window = Maintenance(until=until, reason=reason, who=who)
        await self._record("set_maintenance", None, who or None, reason, isOn=True)
        return await gates.set_maintenance(store, scope, window)

    async def _insert(self, request: JobRequest, within: Any) -> JobId:
        around = self._around
        now = around.clock.now()
        job = admit_job(request, job_id=around.make_id(now), now=now, tenant=around.tenant)
        if within is None:
            (inserted,) = await around.store.insert([job], now)
        else:
            (inserted,) = await around.store.insert_within(within, [job], now)
        return inserted.job.id

    async def _record(
        self, action: str, job_id: JobId | None, who: str | None, why: str | None, **details: Any
    ) -> None:
        job_ids = () if job_id is None else (job_id,)
        act = Act(action=action, who=who, why=why, job_ids=job_ids, details=details)
        await record_act(self._around, act)
