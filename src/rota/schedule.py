"""One schedule of an app: what its author writes, and a handle on it at run time."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Protocol, TypeAlias, TypeVar
from zoneinfo import ZoneInfo

import msgspec
from msgspec.structs import replace

from rota.clock.duration import Duration
from rota.clock.loop import call_in_thread
from rota.errors import ConflictError, InvalidInputError, ScheduleNotFoundError
from rota.jobs import CatchUp, JobStatus, Overlap
from rota.jobs.fields import read_flag, read_name
from rota.jobs.record import DEFAULT_TENANT
from rota.jobs.recurrence import start_at
from rota.jobs.validation import Retry, read_retry
from rota.ops.schedules import (
    ScheduleDefinition,
    StoredSchedule,
    VersionedSchedule,
    create_write,
    find_schedule,
    format_seconds,
    read_text,
    settle,
    write_schedules,
)
from rota.rail.jobs import ROUND_LIMIT, find_live, pause_series, preview_series, resume_series
from rota.session import Session, Sessions
from rota.signature import TaskSignature
from rota.triggers import Trigger
from rota.triggers.cron import Cron, CronTrigger, Every, FieldCron, settle_zone
from rota.triggers.interval import Interval
from rota.triggers.rrule import RecurrenceRule
from rota.triggers.zone import Fold, Gap, load_zone

When: TypeAlias = str | timedelta | Trigger | Cron
"""Cron text in the extended dialect, RRULE text, a duration, or a trigger."""

Value = TypeVar("Value")

_INSTANT = timedelta(microseconds=1)
_CHECKED_FROM = datetime(2000, 1, 1, tzinfo=UTC)


class ScheduleOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What an author may say about a schedule besides when it is due."""

    zone: tzinfo | str | None = None
    gap: Gap | None = None
    fold: Fold | None = None
    overlap: Overlap = "skip"
    catch_up: CatchUp = "once"
    jitter: Duration | None = None
    alert_after: Duration | None = None
    notifies: bool | None = None


def read_options(given: Mapping[str, Any]) -> ScheduleOptions:
    """The options of a schedule; InvalidInputError names one that does not exist."""
    known = ScheduleOptions.__struct_fields__
    for name in given:
        if name not in known:
            reason = f"is not an option of a schedule; there are {', '.join(known)}"
            raise _refuse(name, reason)
    return ScheduleOptions(**given)


class ScheduledTask(Protocol):
    """A task, as far as its schedules need it."""

    name: str
    options: Any
    signature: TaskSignature
    sessions: Sessions


def define(task: ScheduledTask, args: Mapping[str, Any], retry: Retry | None) -> ScheduleDefinition:
    """What a schedule of the task says besides its rule. Validates the arguments."""
    given: object = args
    if not isinstance(given, Mapping):
        raise _refuse("args", f"{args!r:.60} is not a mapping of parameter names to values")
    return ScheduleDefinition(
        kind=task.name,
        queue=task.options.queue,
        priority=task.options.priority,
        retry=task.options.retry if retry is None else read_retry(retry),
        payload=task.signature.bind((), dict(args)).payload,
        label=task.options.label,
    )


def read_rule(
    definition: ScheduleDefinition,
    when: When,
    options: ScheduleOptions,
    default_zone: tzinfo | str | None = None,
) -> ScheduleDefinition:
    """The definition with its rule, validated. InvalidInputError says what is wrong.

    The zone is that of the options, else that of ``when``, else the default, else UTC. Options that
    contradict a zone in front of a cron expression are refused.
    """
    cleared = replace(definition, cron=None, rrule=None, interval=None, start=None)
    return _with_rule(cleared, {"zone": default_zone} | read_when(when), options)


def _with_rule(
    definition: ScheduleDefinition, fields: dict[str, Any], options: ScheduleOptions
) -> ScheduleDefinition:
    given = None if options.zone is None else read_zone_name(options.zone)
    if "cron" in fields:
        fields["cron"], given = settle_zone(fields["cron"], given)
    zone = fields.pop("zone", None) if given is None else given
    chosen = {name: getattr(options, name) for name in ("gap", "fold")}
    fields |= {name: value for name, value in chosen.items() if value is not None}
    fields["zone"] = read_zone_name(zone)
    made = replace(
        definition,
        **fields,
        overlap=options.overlap,
        catch_up=options.catch_up,
        **{name: _read_optional(getattr(options, name), name) for name in _DURATIONS},
        notifies=None if options.notifies is None else read_flag(options.notifies, "notifies"),
    )
    # A rule that ended long ago is valid: a program does not stop working when its rule ends.
    made.make_recurrence(_CHECKED_FROM)
    return made


def read_when(when: object) -> dict[str, Any]:
    """The fields of a definition that say when."""
    if isinstance(when, str):
        return read_text(when)
    if isinstance(when, timedelta):
        return {"interval": format_seconds(when, "when")}
    if isinstance(when, Every):
        return {"interval": format_seconds(when.period, "when")}
    return {"cron": when.text} if isinstance(when, FieldCron) else _read_trigger(when)


def _read_trigger(when: object) -> dict[str, Any]:
    match when:
        case CronTrigger():
            rules = {"zone": when.zone, "gap": when.gap, "fold": when.fold}
            return read_when(when.cron) | rules
        case Interval():
            return {"interval": format_seconds(when.every, "when"), "start": when.anchor}
        case RecurrenceRule():
            frame = when.frame
            rules = {"zone": frame.zone, "gap": frame.gap, "fold": frame.fold}
            return {"rrule": when.text, "start": when.start} | rules
    reason = "cron text, RRULE text, a timedelta, or a trigger of rota.triggers"
    raise _refuse("when", f"{when!r:.60} is not a schedule; write {reason}")


def read_zone_name(zone: object) -> str:
    """The IANA name of a zone; UTC if none is given."""
    match zone:
        case None:
            return "UTC"
        case str():
            return str(load_zone(zone))
        case ZoneInfo() if zone.key:
            return zone.key
    if zone == UTC:
        return "UTC"
    raise _refuse("zone", f"{zone!r:.60} has no IANA name; write one such as 'Europe/London'")


_DURATIONS = ("jitter", "alert_after")


def _read_optional(value: Duration | None, field: str) -> str | None:
    return None if value is None else format_seconds(value, field)


def _refuse(field: str, reason: str) -> InvalidInputError:
    return InvalidInputError(f"{field}: {reason}", {"field": field, "reason": reason})


class ScheduleHandle:
    """One schedule of a task, by its name. It holds no connection and can be kept.

    A schedule that the code declares can be paused and resumed; to change or end it, change the
    code.
    """

    __slots__ = ("_task", "name", "tenant")

    def __init__(
        self, task: ScheduledTask, name: str | None = None, *, tenant: str = DEFAULT_TENANT
    ) -> None:
        self._task = task
        self.name = name or task.name
        self.tenant = tenant

    def __repr__(self) -> str:
        return f"<ScheduleHandle {self.name} of {self._task.name}>"

    async def pause(self) -> None:
        """Pause it. A running occurrence finishes."""
        await self._run(self._pause)

    def pause_sync(self) -> None:
        """As ``pause``; blocks the thread."""
        self._run_sync(self._pause)

    async def resume(self, *, catch_up: bool = False) -> None:
        """Resume with the next occurrence; with ``catch_up``, with the first that was missed."""
        await self._run(lambda session: self._resume(session, catch_up=catch_up))

    def resume_sync(self, *, catch_up: bool = False) -> None:
        """As ``resume``; blocks the thread."""
        self._run_sync(lambda session: self._resume(session, catch_up=catch_up))

    async def update(self, when: When | None = None, **changes: Any) -> None:
        """Change when it is due, its arguments (``args``), or any other option of ``schedule``.

        Options that you leave out stay. An occurrence that runs finishes as it began.
        """
        await self._run(lambda session: self._update(session, when, changes))

    def update_sync(self, when: When | None = None, **changes: Any) -> None:
        """As ``update``; blocks the thread."""
        self._run_sync(lambda session: self._update(session, when, changes))

    async def cancel(self) -> None:
        """End it. An occurrence that runs finishes."""
        await self._run(self._cancel)

    def cancel_sync(self) -> None:
        """As ``cancel``; blocks the thread."""
        self._run_sync(self._cancel)

    async def next(self, count: int = 1) -> list[datetime]:
        """When it starts next, up to ``count`` instants; none while it is paused."""
        return await self._run(lambda session: self._list_next(session, count))

    def next_sync(self, count: int = 1) -> list[datetime]:
        """As ``next``; blocks the thread."""
        return self._run_sync(lambda session: self._list_next(session, count))

    async def _run(self, work: Callable[[Session], Awaitable[Value]]) -> Value:
        return await self._task.sessions.run(work)

    def _run_sync(self, work: Callable[[Session], Awaitable[Value]]) -> Value:
        return self._task.sessions.run_sync(work)

    async def _find(self, session: Session) -> VersionedSchedule:
        found = await find_schedule(session.store, self.tenant, self.name)
        if found is None or found.schedule.is_removed:
            raise ScheduleNotFoundError(self.name, self.tenant)
        return found

    async def _pause(self, session: Session) -> None:
        found = await self._find(session)
        await pause_series(session.as_rail(self.tenant), found.schedule.series_id)

    async def _resume(self, session: Session, *, catch_up: bool) -> None:
        found = await self._find(session)
        around = session.as_rail(self.tenant)
        await resume_series(around, found.schedule.series_id, catch_up=catch_up)

    async def _cancel(self, session: Session) -> None:
        await self._replace(session, lambda it: replace(it, is_removed=True, is_settled=False))

    async def _update(
        self, session: Session, when: When | None, changes: Mapping[str, Any]
    ) -> None:
        def redefine(stored: StoredSchedule) -> StoredSchedule:
            definition = change_definition(self._task, stored.definition, when, changes)
            now = session.clock.now()
            spare_id = session.make_id(now)
            return stored.redefine(definition, now, spare_id)

        await self._replace(session, redefine)

    async def _replace(
        self, session: Session, change: Callable[[StoredSchedule], StoredSchedule]
    ) -> None:
        for _ in range(ROUND_LIMIT):
            found = await self._find(session)
            if found.schedule.app is not None:
                raise _declared(found.schedule)
            if await write_schedules(session.store, [found.write(change(found.schedule))]):
                break
        present = await find_schedule(session.store, self.tenant, self.name)
        await settle(session.as_rail(self.tenant), [] if present is None else [present])

    async def _list_next(self, session: Session, count: int) -> list[datetime]:
        found, now = await self._find(session), session.clock.now()
        job = (await find_live(session.as_rail(self.tenant), found.schedule.series_id))[-1]
        rule = job.recurrence
        if rule is None or job.is_paused:
            return []
        after = max((job.occurrence_at or job.due_at) + _INSTANT, now)
        later = (await call_in_thread(lambda: preview_series(rule, after, count))).occurrences
        starts = [start_at(rule, job.origin or job.id, each.at) for each in later]
        return (starts if job.status is JobStatus.RUNNING else [job.due_at, *starts])[:count]


def change_definition(
    task: ScheduledTask, before: ScheduleDefinition, when: When | None, changes: Mapping[str, Any]
) -> ScheduleDefinition:
    """The definition with these options of ``schedule`` changed."""
    given = dict(changes)
    args, retry = given.pop("args", None), given.pop("retry", None)
    made = before
    if args is not None or retry is not None:
        fresh = define(task, before.payload if args is None else args, retry)
        made = replace(made, payload=fresh.payload)
        made = made if retry is None else replace(made, retry=fresh.retry)
    kept = {name: getattr(before, name) for name in ScheduleOptions.__struct_fields__}
    options = read_options(kept | given)
    return _with_rule(made, {}, options) if when is None else read_rule(made, when, options)


async def create_schedule(
    session: Session, handle: ScheduleHandle, definition: ScheduleDefinition
) -> ScheduleHandle:
    """Create a schedule at run time. One with the same name and definition is left as it is.

    Raises ConflictError if the name belongs to a schedule that says something else.
    """
    name, tenant = read_name(handle.name), handle.tenant
    now, around = session.clock.now(), session.as_rail(tenant)
    series_id = session.make_id(now)
    made = StoredSchedule(
        name=name,
        tenant=tenant,
        definition=definition,
        series_id=series_id,
        anchor=now,
        updated_at=now,
    )
    for _ in range(ROUND_LIMIT):
        found = await find_schedule(session.store, tenant, name)
        if found is None:
            await write_schedules(session.store, [create_write(made)])
            continue
        if not found.schedule.is_removed:
            _check_same(found.schedule, definition)
        await settle(around, [found])
        if not found.schedule.is_removed:
            return handle
    raise ConflictError(f"Schedule {name} is created and removed by others all the time", {})


def _check_same(stored: StoredSchedule, definition: ScheduleDefinition) -> None:
    if stored.app is not None:
        raise _declared(stored)
    if stored.definition != definition:
        raise ConflictError(
            f"Schedule {stored.name} exists and says something else; give this one a name of its "
            "own, or update that one with its handle",
            {"schedule": stored.name},
        )


def _declared(stored: StoredSchedule) -> ConflictError:
    return ConflictError(
        f"Schedule {stored.name} is declared at {stored.declared_at}; change it there",
        {"schedule": stored.name, "declaredAt": stored.declared_at},
    )
