"""Schedules by name: what each says, where it is stored, and the series that carries it out.

A schedule is a document. Its jobs are those of a series, as for every recurring job. A change is
decided by writing the document, together with others if several change at once. The series follows:
``settle`` brings it into line, and can be repeated by any process at any time. So a crash in
between loses nothing, and processes that do the same do it once.
"""

import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

import msgspec
from msgspec.structs import replace

from rota.clock.duration import Duration, read_duration
from rota.errors import (
    ConflictError,
    DuplicateJobError,
    InvalidInputError,
    InvalidJobError,
    JobEndedError,
    JobNotFoundError,
    StaleVersionError,
)
from rota.jobs import (
    CatchUp,
    Job,
    JobId,
    JobRequest,
    JobStatus,
    Overlap,
    Recurrence,
    RetryPolicy,
    admit_job,
    decide_cancel,
    first_occurrence,
)
from rota.jobs.validation import RESCHEDULE, read_recurrence
from rota.rail.jobs import ROUND_LIMIT, RailContext, find_live
from rota.rail.noted_series import note_alerts
from rota.stores.documents import all_documents, find_document
from rota.stores.protocol import DocumentStore, DocumentWrite
from rota.triggers.cron_dialects import EVERY
from rota.triggers.zone import Fold, Gap

SCHEDULES = "schedules"
"""The collection of schedules; the key is ``tenant/name``."""

REMOVED = "its schedule was removed"

_encode = msgspec.json.Encoder().encode


class ScheduleDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a schedule says: which task runs with which arguments, and when.

    Exactly one of ``cron``, ``rrule`` and ``interval`` is set. ``start`` is set only if the
    schedule names one.
    """

    kind: str
    queue: str = "default"
    priority: int = 5
    retry: RetryPolicy = JobRequest(name="", queue="").retry_policy
    payload: dict[str, Any] = {}
    cron: str | None = None
    rrule: str | None = None
    interval: str | None = None
    zone: str = "UTC"
    start: datetime | None = None
    gap: Gap | None = None
    fold: Fold | None = None
    overlap: Overlap = "skip"
    catch_up: CatchUp = "once"
    jitter: str | None = None
    alert_after: str | None = None
    notifies: bool | None = None
    label: str | None = None

    @property
    def when(self) -> str:
        """The rule as it was written."""
        if self.interval is not None:
            return f"every {self.interval}"
        return self.cron or self.rrule or ""

    @property
    def timing(self) -> tuple[str, datetime | None]:
        """What decides the phase: if it changes, the phase begins again."""
        return self.when, self.start

    def make_recurrence(self, anchor: datetime) -> Recurrence:
        """The rule of its series. Raises InvalidJobError for a rule without occurrences."""
        fields = {name: getattr(self, name) for name in RULE_FIELDS}
        start = self.start or self._find_start(anchor)
        return read_recurrence(fields | {"start": start}, anchor)[0]

    def _find_start(self, anchor: datetime) -> datetime | None:
        """Where the phase begins; None leaves it to the DTSTART of the rule."""
        has_start = self.rrule is not None and "DTSTART" in self.rrule.upper()
        return None if has_start else anchor

    def compare(self, other: "ScheduleDefinition") -> dict[str, tuple[Any, Any]]:
        """The fields that differ, each with both values."""
        return {
            name: (getattr(self, name), getattr(other, name))
            for name in self.__struct_fields__
            if getattr(self, name) != getattr(other, name)
        }


RULE_FIELDS = (
    *("cron", "rrule", "interval", "zone", "gap", "fold"),
    *("overlap", "catch_up", "jitter", "alert_after"),
)


class StoredSchedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A schedule as stored.

    ``app`` declares it; without one it was made at run time. ``anchor`` fixes the phase of its
    rule. ``is_settled``: the series is as the definition says. ``is_removed``: the series is to
    end, and then the document goes. ``has_begun``: it was settled before. If its series has ended
    since, and the schedule changes, a new series begins as ``spare_id``.
    """

    name: str
    tenant: str
    definition: ScheduleDefinition
    series_id: JobId
    anchor: datetime
    updated_at: datetime
    app: str | None = None
    declared_at: str | None = None
    spare_id: JobId | None = None
    has_begun: bool = False
    is_settled: bool = False
    is_removed: bool = False

    @property
    def key(self) -> str:
        return schedule_key(self.tenant, self.name)

    def make_recurrence(self) -> Recurrence | None:
        """The rule of its series; None if it has no occurrence any more."""
        try:
            recurrence = self.definition.make_recurrence(self.anchor)
        except InvalidJobError:  # each definition was valid when it was declared
            return None
        return None if _is_over(recurrence, self.updated_at) else recurrence

    def redefine(
        self, definition: ScheduleDefinition, now: datetime, spare_id: JobId
    ) -> "StoredSchedule":
        """The schedule with another definition, yet to be settled."""
        is_same = self.definition.timing == definition.timing
        return replace(
            self,
            definition=definition,
            anchor=self.anchor if is_same else now,
            updated_at=now,
            spare_id=spare_id,
            is_settled=False,
            is_removed=False,
        )


class VersionedSchedule(msgspec.Struct, frozen=True):
    """A stored schedule, and the version of its document."""

    schedule: StoredSchedule
    version: int

    def write(self, schedule: StoredSchedule | None) -> DocumentWrite:
        """The write that replaces it, or removes it."""
        body = None if schedule is None else _encode(schedule)
        return DocumentWrite(SCHEDULES, self.schedule.key, self.version, body)


def schedule_key(tenant: str, name: str) -> str:
    """The key of a schedule's document; a long name is replaced by its digest."""
    key = f"{tenant}/{name}"
    if len(key) <= _LONGEST_KEY:
        return key
    return f"{tenant}/{sha256(name.encode()).hexdigest()}"


_LONGEST_KEY = 255
_decode = msgspec.json.Decoder(StoredSchedule).decode


def fingerprint(definitions: Mapping[str, ScheduleDefinition]) -> str:
    """A digest of a set of schedules by key: equal exactly if all definitions are."""
    content = msgspec.json.encode(sorted(definitions.items()), order="sorted")
    return sha256(content).hexdigest()[:16]


def create_write(schedule: StoredSchedule) -> DocumentWrite:
    """The write that creates the document, unless one exists."""
    return DocumentWrite(SCHEDULES, schedule.key, None, _encode(schedule))


async def scan_schedules(store: DocumentStore) -> AsyncIterator[VersionedSchedule]:
    """All schedules, by key."""
    async for document in all_documents(store, SCHEDULES):
        yield VersionedSchedule(_decode(document.body), document.version)


async def find_schedule(store: DocumentStore, tenant: str, name: str) -> VersionedSchedule | None:
    found = await find_document(store, SCHEDULES, schedule_key(tenant, name))
    return None if found is None else VersionedSchedule(_decode(found.body), found.version)


async def settle(around: RailContext, found: Iterable[VersionedSchedule]) -> None:
    """Bring the series of these schedules into line with their definitions.

    Series that are new come into being together. Repeating it, also elsewhere and at the same time,
    changes nothing. A schedule that others change meanwhile is settled as they want it.
    """
    waiting = [each for each in found if not each.schedule.is_settled]
    for _ in range(ROUND_LIMIT):
        if not waiting:
            return
        waiting = await _settle_once(around, waiting)
    raise _outrun(waiting[0].schedule)


async def _settle_once(
    around: RailContext, waiting: Sequence[VersionedSchedule]
) -> list[VersionedSchedule]:
    """Settle these; returns those that others have changed meanwhile."""
    begun = await _find_begun(around, [each.schedule for each in waiting])
    settled: list[StoredSchedule] = []
    new: list[Job] = []
    for each in waiting:
        schedule = each.schedule
        if schedule.series_id in begun:
            schedule = await _adjust(around, schedule)
        job = None if schedule.is_settled or schedule.is_removed else make_first_job(schedule)
        new += [] if job is None else [job]
        settled.append(replace(schedule, is_settled=True, has_begun=True))
    if new and not await _begin(around, new):
        return await _read_again(around, waiting)
    return await _record(around, list(zip(waiting, settled, strict=True)))


async def _begin(around: RailContext, jobs: Sequence[Job]) -> bool:
    """Insert the first jobs of series; False if others have begun one of them meanwhile."""
    await note_alerts(around.store, jobs)
    try:
        inserted = await around.store.insert(jobs, around.clock.now())
    except DuplicateJobError:  # with other arguments
        return False
    return not any(each.is_existing for each in inserted)


async def _read_again(
    around: RailContext, waiting: Sequence[VersionedSchedule]
) -> list[VersionedSchedule]:
    """The same schedules as they are now. One that is gone is ended: it may have begun here."""
    return [left for each in waiting for left in await _reread(around, each.schedule)]


async def _reread(around: RailContext, tried: StoredSchedule) -> list[VersionedSchedule]:
    present = await find_schedule(around.store, tried.tenant, tried.name)
    if present is None or present.schedule.series_id != tried.series_id:
        await end_series(around, tried)
    return _unsettled(present, tried)


def _unsettled(present: VersionedSchedule | None, tried: StoredSchedule) -> list[VersionedSchedule]:
    """The schedule as it is now, if its series may differ from it.

    Others may have settled it before this process changed or ended the same series, which it did
    with what it had read earlier.
    """
    if present is None:
        return []
    now = present.schedule
    is_same = now.definition == tried.definition and now.is_removed == tried.is_removed
    if now.is_settled and is_same:
        return []
    return [VersionedSchedule(replace(now, is_settled=False), present.version)]


async def _record(
    around: RailContext, done: Sequence[tuple[VersionedSchedule, StoredSchedule]]
) -> list[VersionedSchedule]:
    """Write what is settled; returns the schedules that have changed since they were read."""
    writes = [each.write(None if after.is_removed else after) for each, after in done]
    answers = await around.store.write_each(writes)
    changed: list[VersionedSchedule] = []
    for (_, after), answer in zip(done, answers, strict=True):
        if answer is None:
            changed += await _reread(around, after)
    return changed


async def _find_begun(around: RailContext, schedules: Sequence[StoredSchedule]) -> set[JobId]:
    """The series that have begun: settled once, or their first job exists."""
    begun = {each.series_id for each in schedules if each.has_begun}
    for each in schedules:
        if not each.has_begun:
            begun |= (await around.store.get(each.tenant, [each.series_id])).keys()
    return begun


def make_first_job(schedule: StoredSchedule) -> Job | None:
    """The first job of the series: every host makes the same. None if the rule has ended."""
    definition, now = schedule.definition, schedule.updated_at
    recurrence = schedule.make_recurrence()
    if recurrence is None:
        return None
    # Occurrences before the schedule was made were not missed.
    first = replace(recurrence, catch_up="skip") if recurrence.start < now else recurrence
    request = JobRequest(
        name=schedule.name,
        kind=definition.kind,
        recurrence=first,
        **_job_fields(definition),
    )
    job = admit_job(request, job_id=schedule.series_id, now=now, tenant=schedule.tenant)
    return replace(job, recurrence=recurrence)


def _is_over(recurrence: Recurrence, now: datetime) -> bool:
    return first_occurrence(replace(recurrence, catch_up="skip"), now) is None


async def _adjust(around: RailContext, schedule: StoredSchedule) -> StoredSchedule:
    """Give the live jobs of the series its rule and its arguments, or end them.

    If the series has ended by itself, the schedule is to begin another.
    """
    recurrence = None if schedule.is_removed else schedule.make_recurrence()
    if recurrence is None:
        await end_series(around, schedule)
        return replace(schedule, is_settled=True)
    fields = {RESCHEDULE: recurrence, **_job_fields(schedule.definition)}
    for _ in range(ROUND_LIMIT):
        live = await _find_live(around, schedule)
        if not live:
            return replace(schedule, series_id=schedule.spare_id or schedule.series_id)
        await note_alerts(around.store, [replace(live[-1], recurrence=recurrence)])
        if all([await _amend(around, job, fields) for job in live]):
            return replace(schedule, is_settled=True)
    raise _outrun(schedule)


def _job_fields(definition: ScheduleDefinition) -> dict[str, Any]:
    """What the definition says about each job of its series."""
    return {
        "queue": definition.queue,
        "payload": definition.payload,
        "priority": definition.priority,
        "retry_policy": definition.retry,
        "notifies": definition.notifies,
        "label": definition.label,
    }


async def end_series(around: RailContext, schedule: StoredSchedule) -> None:
    """End the series. An occurrence that runs finishes; a waiting one is cancelled."""
    for _ in range(ROUND_LIMIT):
        live = await _find_live(around, schedule)
        if all([await _end(around, job) for job in live]):
            return
    raise _outrun(schedule)


async def _end(around: RailContext, job: Job) -> bool:
    """End the series with this job; False if the job has changed meanwhile."""
    now = around.clock.now()
    if job.status is JobStatus.RUNNING and job.recurrence is not None:
        last = replace(job.recurrence, until=job.occurrence_at or now)
        return await _amend(around, job, {RESCHEDULE: last})
    (applied,) = await around.store.apply([decide_cancel(job, REMOVED, now)], now)
    return not applied.is_stale


async def _amend(around: RailContext, job: Job, fields: Mapping[str, Any]) -> bool:
    try:
        await around.store.amend(job.tenant, job.id, fields, around.clock.now())
    except (JobEndedError, JobNotFoundError):
        return False
    return True


async def _find_live(around: RailContext, schedule: StoredSchedule) -> list[Job]:
    try:
        return await find_live(around._replace(tenant=schedule.tenant), schedule.series_id)
    except (JobNotFoundError, JobEndedError):
        return []


def _outrun(schedule: StoredSchedule) -> ConflictError:
    return ConflictError(
        f"Schedule {schedule.name} keeps being changed by other callers; try again",
        {"schedule": schedule.name},
    )


async def write_schedules(store: DocumentStore, writes: Sequence[DocumentWrite]) -> bool:
    """Write all of these or none; False if others have written one of them meanwhile."""
    try:
        await store.write_all(writes)
    except StaleVersionError:
        return False
    return True


_SECOND = timedelta(seconds=1)
_RULE = re.compile(r"^\s*(RRULE|DTSTART|EXDATE|RDATE)\b|FREQ=", re.IGNORECASE | re.MULTILINE)
_ZONE = re.compile(r"^DTSTART;(?:.*;)?TZID=([^:;]+)", re.IGNORECASE | re.MULTILINE)
_DURATION = re.compile(r"(\d+(\.\d+)?(ms|[dhms]))+")
_EVERY = {EVERY, "every"}


def read_text(text: str) -> dict[str, Any]:
    """The one of ``cron``, ``rrule`` and ``interval`` that the text is, and a zone it names."""
    if _RULE.search(text):
        zone = _ZONE.search(text)
        return {"rrule": text.strip()} | ({} if zone is None else {"zone": zone[1]})
    words = text.split()
    if len(words) == 2 and words[0] in _EVERY:
        return {"interval": words[1]}
    if _DURATION.fullmatch(text.strip()):
        return {"interval": format_seconds(text.strip(), "when")}
    return {"cron": text.strip()}


def format_seconds(value: Duration, field: str) -> str:
    """A duration as ``1h30m5s``. Raises InvalidInputError for one that is not whole seconds."""
    duration = read_duration(value, field)
    if duration < _SECOND or duration % _SECOND:
        reason = f"{value!s:.60} is not a whole number of seconds, at least one"
        raise InvalidInputError(f"{field}: {reason}", {"field": field, "reason": reason})
    minutes, seconds = divmod(duration // _SECOND, 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (seconds, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count)
