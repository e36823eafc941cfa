"""The explanation of a job, its wording, and the facts it is made from."""

from asyncio import gather
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Literal, NamedTuple

import msgspec

from rota.auth.masking import mask_text
from rota.errors import InvalidZoneError, JobNotFoundError
from rota.fleet.presence import WorkerPresence, list_workers
from rota.jobs import Attempt, Ending, Job, JobId, JobStatus, derive_job_id
from rota.jobs.fields import read_id
from rota.jobs.recurrence import occurrence_of
from rota.jobs.transitions import SUCCEEDED
from rota.ops.audit import find_audit_entries
from rota.policy.audit import AuditEntry
from rota.policy.gate_settings import GateSettings, make_gate_settings
from rota.policy.limits import BUCKETS, Bucket, Limit, key_of
from rota.rail.dead_letters import replacement_id
from rota.rail.jobs import RailStore
from rota.rail.settings import list_gates, list_limits
from rota.stores.documents import decode_body
from rota.stores.kernel.limits import scopes_of
from rota.stores.kernel.unit import Partition
from rota.stores.protocol import JobStore, QueueDepth
from rota.triggers.zone import load_zone

LONGEST_ERROR = 300

_TRACEBACK = "Traceback (most recent call last):"

MOST_ANCESTORS = 200
"""The number of jobs visited on the way to a failed dependency."""

_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_OTHERS = ""
"""Represents all other tenants. It is not a valid tenant name."""

_DEAD_ENDS = frozenset({JobStatus.FAILED, JobStatus.BLOCKED})


def name_error(text: str | None) -> str:
    """The line of an error that names it; empty when there is no error.

    This is the first line, or the last line of a Python traceback. Rota tokens and passwords in
    URLs are masked.
    """
    lines = [line.rstrip() for line in (text or "").splitlines() if line.strip()]
    if not lines:
        return ""
    return mask_text(_find_telling(lines).strip())[:LONGEST_ERROR]


def end_sentence(text: str) -> str:
    """The text, ending in a full stop."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def format_error(text: str | None) -> str:
    """An error as the end of a sentence."""
    return end_sentence(name_error(text) or "no error was recorded")


def show(instant: datetime, zone: tzinfo = UTC) -> str:
    """An instant for people: the wall time in a zone, and UTC."""
    local, universal = instant.astimezone(zone), instant.astimezone(UTC)
    text = f"{local:%a %Y-%m-%d %H:%M:%S %Z}"
    if local.utcoffset() == timedelta(0):
        return text
    day = "%H:%M:%S" if local.date() == universal.date() else "%a %Y-%m-%d %H:%M:%S"
    return f"{text} ({universal.strftime(day)} UTC)"


def format_duration(duration: timedelta) -> str:
    """A duration in its two largest units: ``3 days 4 hours``, ``12 seconds``."""
    seconds = int(duration.total_seconds())
    parts: list[str] = []
    for name, length in (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        number, seconds = divmod(seconds, length)
        if number:
            parts.append(f"{number} {name}{'s' if number > 1 else ''}")
    return " ".join(parts[:2]) or "less than a second"


def format_attempt_duration(duration: timedelta) -> str:
    """A duration of which milliseconds matter."""
    if duration >= timedelta(seconds=1):
        return format_duration(duration)
    return f"{duration / timedelta(milliseconds=1):.0f} ms"


def format_job(job: Job) -> str:
    """The name of a job inside a sentence."""
    return f'job {job.id} ("{job.name}")'


def zone_of(job: Job) -> tzinfo:
    """The zone of the job's series; UTC for a job without a series or with an unknown zone."""
    if job.recurrence is None:
        return UTC
    try:
        return load_zone(job.recurrence.zone)
    except InvalidZoneError:
        return UTC


def _find_telling(lines: list[str]) -> str:
    if _TRACEBACK not in lines:
        return lines[0]
    last = len(lines) - lines[::-1].index(_TRACEBACK)
    below = lines[last:]
    while below and below[0].startswith(" "):
        below.pop(0)
    return below[0] if below else lines[-1]


Answer = Literal[
    "ran",
    "failed",
    "cancelled",
    "did not run",
    "will not run",
    "running",
    "stalled",
    "due",
    "will run",
    "waits",
    "not known",
]
"""The state of the job in a word.

``due``: only a free worker, or what the reasons name, is missing. ``will run``: at a known time.
``waits``: for other jobs, or to be resumed. ``did not run`` and ``not known`` answer questions
about an instant; ``not known`` means the history does not reach back far enough.
"""

ReasonCode = Literal[
    "succeeded",
    "exhausted",
    "discarded",
    "lost",
    "cancelled",
    "blocked",
    "dependency",
    "lease",
    "stalled",
    "due",
    "later",
    "retry",
    "attempt",
    "snoozed",
    "deferred",
    "gate",
    "limit",
    "rate",
    "no_worker",
    "line",
    "moved",
    "paused",
    "occurrence",
    "clock_change",
    "missed",
    "catch_up",
    "jitter",
    "overlap",
    "next_occurrence",
    "series_end",
    "replaced_by",
    "replaces",
    "now",
]


class Reason(msgspec.Struct, frozen=True):
    """One reason, in words and for programs.

    ``at`` is the instant it refers to and ``until`` its end. ``job_id`` names another job, ``who``
    a person or worker.
    """

    code: ReasonCode
    text: str
    at: datetime | None = None
    until: datetime | None = None
    job_id: JobId | None = None
    who: str | None = None


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The answer in a word and a sentence, and the reasons, most important first.

    ``next_at`` is the next known event: the job starts, or the answer may change. ``at`` is the
    instant in question, if any.
    """

    job_id: JobId
    status: JobStatus
    answer: Answer
    sentence: str
    reasons: tuple[Reason, ...]
    next_at: datetime | None = None
    at: datetime | None = None
    asked_at: datetime

    def __str__(self) -> str:
        return "\n".join([self.sentence, *(f"- {reason.text}" for reason in self.reasons)])


class Finding(NamedTuple):
    """The answer, the sentence that gives it, and the reasons, most important first."""

    answer: Answer
    sentence: str
    reasons: list[Reason]
    next_at: datetime | None = None

    def conclude(
        self, job_id: JobId, status: JobStatus, asked_at: datetime, at: datetime | None = None
    ) -> Explanation:
        """The explanation of a job, with this answer."""
        return Explanation(
            job_id=job_id,
            status=status,
            answer=self.answer,
            sentence=self.sentence,
            reasons=tuple(self.reasons),
            next_at=self.next_at,
            at=at,
            asked_at=asked_at,
        )


class Snapshot(NamedTuple):
    """The gates, limits and workers that may hold back a due job, as they are now."""

    board: GateSettings
    limits: tuple[Limit, ...] = ()
    buckets: Mapping[str, Bucket] = {}
    running_counts: Mapping[Partition, int] = {}
    workers: tuple[WorkerPresence, ...] = ()
    depth: QueueDepth | None = None


class JobFacts(NamedTuple):
    """A job, the time, and everything that affects the job.

    ``dependencies`` are those that still exist. ``culprits`` are the failed jobs that block it,
    directly or through other jobs. ``snapshot`` is set for a job that has not ended.
    """

    job: Job
    now: datetime
    snapshot: Snapshot | None = None
    dependencies: Mapping[JobId, Job] = {}
    culprits: tuple[Job, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    audit: tuple[AuditEntry, ...] = ()
    successor: Job | None = None
    replacement: Job | None = None

    def show(self, instant: datetime) -> str:
        """An instant in words, in UTC and in the zone of the job's series."""
        return show(instant, zone_of(self.job))


async def read_job(store: JobStore, tenant: str, job_id: object) -> Job:
    """The tenant's job with that id. Raises JobNotFoundError when there is none."""
    named = read_id(job_id, "job_id")
    job = (await store.get(tenant, [named])).get(named)
    if job is None:
        raise JobNotFoundError(named)
    return job


async def read_facts(store: RailStore, now: datetime, tenant: str, job_id: object) -> JobFacts:
    """Read the facts about a job.

    Raises JobNotFoundError when the tenant has no job with that id.
    """
    job = await read_job(store, tenant, job_id)
    follower, stand_in = derive_job_id(job.id, occurrence_of(job)), replacement_id(job)
    kin = await store.get(tenant, [*job.dependencies, follower, stand_in])
    has_ended = job.status.is_terminal
    return JobFacts(
        job=job,
        now=now,
        snapshot=None if has_ended else await read_snapshot(store, now, job),
        dependencies={each: kin[each] for each in job.dependencies if each in kin},
        culprits=await find_culprits(store, job) if job.status is JobStatus.BLOCKED else (),
        attempts=tuple(await _read_failures(store, tenant, job.id)),
        audit=await _find_audit(store, job) if _may_be_audited(job) else (),
        successor=kin.get(follower),
        replacement=kin.get(stand_in) if has_ended else None,
    )


async def _read_failures(store: RailStore, tenant: str, job_id: JobId) -> list[Attempt]:
    attempts = await store.attempts(tenant, job_id)
    return [each for each in attempts if each.outcome != SUCCEEDED]


async def read_snapshot(store: RailStore, now: datetime, job: Job) -> Snapshot:
    """Read the gates, limits and workers that apply to the job's tenant and queue."""
    scopes = scopes_of(job.tenant, job.queue)
    limits = [it for it in (await list_limits(store)).limits if (it.tenant, it.queue) in scopes]
    rated = [key_of(it.tenant, it.queue) for it in limits if it.rate is not None]
    kept = await store.read(BUCKETS, rated) if rated else {}
    own, gates, workers = await gather(
        store.survey(now, job.tenant), list_gates(store), list_workers(store, now)
    )
    everybody = await store.survey(now) if limits else []  # only limits ask for other tenants
    return Snapshot(
        board=make_gate_settings(gates.entries),
        limits=tuple(limits),
        buckets={  # one that cannot be read counts as full
            key: it for key in kept if (it := decode_body(kept[key], Bucket, None)) is not None
        },
        running_counts=_count_running(job.tenant, everybody, own),
        workers=tuple(workers),
        depth=next((it for it in own if it.queue == job.queue), None),
    )


async def find_culprits(store: RailStore, job: Job) -> tuple[Job, ...]:
    """Find the failed jobs that block this one, directly or through blocked jobs."""
    found: dict[JobId, Job] = {}
    met, left = {job.id}, list(job.dependencies)
    while left and len(met) < MOST_ANCESTORS:
        asked = [each for each in dict.fromkeys(left) if each not in met][:MOST_ANCESTORS]
        met.update(asked)
        left = []
        for each in (await store.get(job.tenant, asked)).values():
            if each.status is JobStatus.FAILED or each.ending is Ending.CANCELLED:
                found[each.id] = each
            elif each.status in _DEAD_ENDS:
                left.extend(each.dependencies)
    return tuple(found.values())


def _may_be_audited(job: Job) -> bool:
    """Whether the audit log, which is long, may explain more than the job record."""
    if job.ending is Ending.CANCELLED or job.is_paused:
        return True
    return job.status is JobStatus.READY and job.updated_at > job.created_at


async def _find_audit(store: RailStore, job: Job) -> tuple[AuditEntry, ...]:
    """In a series, the audit log may name its first job."""
    if job.origin is None:
        return await find_audit_entries(store, job.tenant, [job.id], job.created_at)
    return await find_audit_entries(store, job.tenant, [job.id, job.origin], _LONG_AGO)


def _count_running(
    tenant: str, everybody: Sequence[QueueDepth], own: Sequence[QueueDepth]
) -> dict[Partition, int]:
    """Count running jobs by tenant and queue. All other tenants count as one."""
    mine = {it.queue: it.running_count for it in own}
    counts = {(tenant, queue): count for queue, count in mine.items()}
    counts |= {(_OTHERS, it.queue): it.running_count - mine.get(it.queue, 0) for it in everybody}
    return counts
