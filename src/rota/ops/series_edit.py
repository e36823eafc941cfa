"""Changes a series: what would change, and then the change.

A series that a program declares is changed there. One that was made at run time by name has its
definition in a document, and is changed through it. Any other consists of its jobs alone.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from rota.clock.loop import call_in_thread
from rota.errors import ConflictError, InvalidJobError, JobNotFoundError, RotaError
from rota.jobs import Job, JobId, JobStatus, Recurrence, amend_job
from rota.jobs.fields import RANDOM_BITS, make_job_id
from rota.jobs.recurrence import occurrence_of, reschedule, series_of
from rota.jobs.validation import RESCHEDULE, read_recurrence
from rota.ops.schedules import (
    RULE_FIELDS,
    VersionedSchedule,
    find_schedule,
    settle,
    write_schedules,
)
from rota.ops.series import find_series_job
from rota.policy.audit import AuditedAction, record_action
from rota.rail.jobs import (
    ROUND_LIMIT,
    Preview,
    RailContext,
    Upcoming,
    find_live,
    preview_series,
)
from rota.rail.noted_series import note_alerts

SHOWN = 5
WHEN_FIELDS = ("cron", "rrule", "interval")
JOB_FIELDS = ("queue", "priority", "payload")
_NOT_SHOWN = {"unmet_since", "is_continued"}
_NOT_IN_DEFINITION = ("until", "count")


class SeriesChange(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a series, before and after."""

    field: str
    before: Any
    after: Any


class SeriesEdit(msgspec.Struct, frozen=True, kw_only=True):
    """What a change would do, or has done.

    ``occurrences_before`` and ``occurrences_after`` are the next few. ``notes`` say what else is
    worth knowing. ``is_applied``: the change was made.
    """

    series_id: JobId
    changes: tuple[SeriesChange, ...]
    description_before: str
    description_after: str
    occurrences_before: tuple[Upcoming, ...]
    occurrences_after: tuple[Upcoming, ...]
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    is_applied: bool = False


async def plan_edit(
    context: RailContext, series_id: JobId, fields: Mapping[str, Any], *, shown: int = SHOWN
) -> SeriesEdit:
    """What ``edit_series`` would change. Writes nothing."""
    job = await find_series_job(context, series_id)
    await find_own_schedule(context, job)
    recurrence = _read_rule(job, fields.get("recurrence"), context.clock.now())
    given = {name: fields[name] for name in JOB_FIELDS if name in fields}
    amend_job(job, given, context.clock.now())  # refuses what cannot be
    return await call_in_thread(
        lambda: _compare(job, recurrence, given, context.clock.now(), shown)
    )


async def edit_series(
    context: RailContext,
    series_id: JobId,
    fields: Mapping[str, Any],
    *,
    who: str | None = None,
    why: str | None = None,
) -> SeriesEdit:
    """Give a series another rule, queue, priority or payload. An occurrence that runs finishes.

    ``fields`` may have ``recurrence``, a mapping that replaces the rule, and ``queue``,
    ``priority`` and ``payload``. What is not given stays. Raises ConflictError for a series that a
    program declares.
    """
    plan = await plan_edit(context, series_id, fields)
    if not plan.changes:
        return plan
    job = await find_series_job(context, series_id)
    recurrence = _read_rule(job, fields.get("recurrence"), context.clock.now())
    changed = {it.field: [it.before, it.after] for it in plan.changes if it.field != "payload"}
    act = AuditedAction(
        action="edit_series", who=who, why=why, job_ids=(plan.series_id,), details=changed
    )
    given = {name: fields[name] for name in JOB_FIELDS if name in fields}
    schedule = await find_own_schedule(context, job)
    if schedule is not None:
        definition = _redefine(recurrence, given)
        await record_action(context, act)
        await _change_schedule(context, schedule, definition)
    else:
        await record_action(context, act)
        rule = {} if recurrence == job.recurrence else {RESCHEDULE: recurrence}
        await _change_jobs(context, series_id, {**rule, **given})
    return replace(plan, is_applied=True)


async def find_own_schedule(context: RailContext, job: Job) -> VersionedSchedule | None:
    """The schedule behind the series; None if its jobs are all there is.

    Raises ConflictError if a program declares it.
    """
    found = await find_schedule(context.store, context.tenant, job.name)
    if found is None or found.schedule.series_id != series_of(job):
        return None
    schedule = found.schedule
    if schedule.app is not None:
        raise ConflictError(
            f"Schedule {schedule.name} is declared at {schedule.declared_at}; change it there",
            {"schedule": schedule.name, "declaredAt": schedule.declared_at},
        )
    return found


def _read_rule(job: Job, given: Mapping[str, Any] | None, now: datetime) -> Recurrence:
    """The new rule, validated. The phase stays unless what says when changes."""
    before = job.recurrence
    if before is None:
        raise InvalidJobError("recurrence", "is not there")
    if given is None:
        return before
    is_same = all(given.get(name) == getattr(before, name) for name in WHEN_FIELDS)
    start = given.get("start") or (before.start if is_same else None)
    recurrence, _ = read_recurrence({**given, "start": start}, now)
    return replace(recurrence, unmet_since=before.unmet_since)


def _compare(
    job: Job, recurrence: Recurrence, given: Mapping[str, Any], now: datetime, shown: int
) -> SeriesEdit:
    before = job.recurrence or recurrence
    moved: dict[str, Any] = {}
    if recurrence != before:
        moved = reschedule(job, recurrence, now)
    at_before = max(occurrence_of(job), now if job.is_paused else job.created_at)
    at_after = moved.get("occurrence_at", at_before)
    old = _preview_present(before, at_before, shown)
    new = old
    if recurrence != before:
        new = preview_series(recurrence, max(at_after, recurrence.start), shown)
    return SeriesEdit(
        series_id=series_of(job),
        changes=tuple(_list_changes(job, recurrence, given)),
        description_before=old.description,
        description_after=new.description,
        occurrences_before=old.occurrences,
        occurrences_after=new.occurrences,
        skipped=new.skipped,
        notes=tuple(_list_notes(job, now, is_moved="occurrence_at" in moved)),
    )


def _preview_present(recurrence: Recurrence, at: datetime, shown: int) -> Preview:
    """The next runs by the present rule; none if it cannot be computed. An edit repairs that."""
    try:
        return preview_series(recurrence, at, shown)
    except (RotaError, OverflowError):
        return Preview(recurrence.text, (), (), is_complete=False)


def _list_changes(job: Job, recurrence: Recurrence, given: Mapping[str, Any]) -> list[SeriesChange]:
    before, after = asdict(job.recurrence or recurrence), asdict(recurrence)
    changes = [
        SeriesChange(field=name, before=_plain(before[name]), after=_plain(after[name]))
        for name in after
        if name not in _NOT_SHOWN and before[name] != after[name]
    ]
    changes += [
        SeriesChange(field=name, before=getattr(job, name), after=value)
        for name, value in given.items()
        if getattr(job, name) != value
    ]
    return changes


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value)


def _list_notes(job: Job, now: datetime, *, is_moved: bool) -> list[str]:
    notes = []
    if job.status is JobStatus.RUNNING:
        notes.append("The occurrence that runs now finishes as it began.")
    elif not is_moved and job.due_at <= now:
        notes.append("The occurrence that is due now keeps its time.")
    if job.is_paused:
        notes.append("The series is paused, and stays so.")
    return notes


def _redefine(recurrence: Recurrence, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of the definition behind a series that has a name."""
    for name in _NOT_IN_DEFINITION:
        if getattr(recurrence, name) is not None:
            reason = "cannot be given for a schedule that has a name; leave it out"
            raise InvalidJobError(f"recurrence.{name}", reason)
    return {name: getattr(recurrence, name) for name in RULE_FIELDS} | dict(given)


async def _change_schedule(
    context: RailContext, found: VersionedSchedule, fields: Mapping[str, Any]
) -> None:
    name = found.schedule.name
    for _ in range(ROUND_LIMIT):
        now = context.clock.now()
        definition = replace(found.schedule.definition, **fields)
        after = found.schedule.redefine(
            definition, now, make_job_id(now, context.draw_bits(RANDOM_BITS))
        )
        is_written = await write_schedules(context.store, [found.write(after)])
        present = await find_schedule(context.store, context.tenant, name)
        if present is None:
            return
        if is_written:
            await settle(context, [present])
            return
        found = present
    raise _outrun(name)


async def _change_jobs(context: RailContext, series_id: JobId, fields: Mapping[str, Any]) -> None:
    for _ in range(ROUND_LIMIT):
        live = await find_live(context, series_id)
        recurrence = fields.get(RESCHEDULE, live[-1].recurrence)
        await note_alerts(context.store, [replace(live[-1], recurrence=recurrence)])
        if all([await _amend(context, job, fields) for job in live]):
            return
    raise _outrun(series_id)


async def _amend(context: RailContext, job: Job, fields: Mapping[str, Any]) -> bool:
    try:
        await context.store.amend(context.tenant, job.id, fields, context.clock.now())
    except (ConflictError, JobNotFoundError):
        return False
    return True


def _outrun(name: str) -> ConflictError:
    return ConflictError(
        f"Series {name} keeps being changed by other callers; try again",
        {"series": name},
    )
