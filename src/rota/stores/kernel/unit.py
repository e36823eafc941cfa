"""A unit of work: what a plan reads, and what it writes, without saying how.

A plan is a generator. It yields queries, receives their answers, and returns a ``Decision``: the
writes and the caller's answer. A plan never touches a database. So the same plan runs inside a
synchronous transaction (SQLite), an asynchronous one (PostgreSQL, MongoDB), or on plain reads whose
versions are checked at commit (Redis).

A backend answers each query by the method with its name: ``ReadEnded`` by ``read_ended``. It
commits the writes, all or none, only if nothing that the plan has read has changed. Where it finds
out at commit, it runs a new plan.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from rota.jobs import Attempt, Ending, Job, JobId, JobStatus, OnParentFailure
from rota.jobs.fields import LOWEST_ID
from rota.stores.kernel.identity import Identity
from rota.stores.protocol import EndedPlace

Answer = TypeVar("Answer")

FIRST_PLACE = EndedPlace(datetime.min.replace(tzinfo=UTC), LOWEST_ID)
"""Before every job that has ended."""

Partition: TypeAlias = tuple[str, str]
"""A tenant and a queue: jobs that are leased in one order."""


class Stored(NamedTuple):
    """A job as the store has it.

    ``is_awaited`` is true if other jobs depend on it, or once did. A job that is not awaited can
    end without a look at others.
    """

    job: Job
    is_awaited: bool = False


class Waiting(NamedTuple):
    """A PENDING job, and the number of dependencies for which it still waits.

    ``parents`` are those of its dependencies that the query asked about or found on its way.
    """

    job_id: JobId
    tenant: str
    queue: str
    due_at: datetime
    open_count: int
    parents: tuple[JobId, ...]
    on_parent_failure: OnParentFailure = "block"


class Ended(NamedTuple):
    """A job that has ended. Ordered by when it ended, then by id."""

    ended_at: datetime
    job_id: JobId
    dependencies: tuple[JobId, ...] = ()


class ReadJobs(NamedTuple):
    """The jobs with these ids. Answer: ``dict[JobId, Stored]`` of those that exist.

    A job that cannot be read raises DamagedJobError; with ``skips_damaged`` it is left out.
    """

    job_ids: Collection[JobId]
    skips_damaged: bool = False


class ReadStatuses(NamedTuple):
    """The status of each of these jobs, even of unreadable ones. Answer: ``dict[JobId, str]``.

    Only ``load`` asks for it.
    """

    job_ids: Collection[JobId]


class ReadTwins(NamedTuple):
    """The jobs with these identities. Answer: ``list[Job]``."""

    identities: Collection[Identity]


class ReadWaiting(NamedTuple):
    """The PENDING jobs that depend on these; with ``is_deep``, also through other PENDING jobs.

    Answer: ``list[Waiting]``. The parents are among the jobs that the plan has read, and a new
    dependent marks its parents as awaited; so a dependent that appears before the commit makes the
    plan run again.
    """

    parents: Collection[JobId]
    is_deep: bool


class ReadAncestors(NamedTuple):
    """The dependencies of these jobs and of all their ancestors. Answer: ``dict[JobId, tuple]``.

    Of two units that read ancestors at the same time, only one commits: otherwise two amendments
    could close a cycle together.
    """

    job_ids: Collection[JobId]


class ReadDependents(NamedTuple):
    """The ids of the jobs, in any state, that depend on each of these. Answer: ``dict`` of sets."""

    job_ids: Collection[JobId]


class ReadEnded(NamedTuple):
    """The jobs that ended first, before an instant, without dependents. Answer: ``list[Ended]``.

    Only those that come after ``after`` in the order of ``Ended``.
    """

    before: datetime
    limit: int
    after: EndedPlace = FIRST_PLACE


Query: TypeAlias = Any
"""One of the queries above, or of those in ``limits``."""

Reading: TypeAlias = Generator[Query, Any, Answer]


def read_jobs(
    job_ids: Collection[JobId], *, skips_damaged: bool = False
) -> Reading[dict[JobId, Stored]]:
    """See ``ReadJobs``."""
    return {} if not job_ids else (yield ReadJobs(job_ids, skips_damaged))


def read_twins(identities: Collection[Identity]) -> Reading[list[Job]]:
    """See ``ReadTwins``."""
    return [] if not identities else (yield ReadTwins(identities))


def read_waiting(parents: Collection[JobId], *, is_deep: bool) -> Reading[list[Waiting]]:
    """See ``ReadWaiting``."""
    return [] if not parents else (yield ReadWaiting(parents, is_deep))


def read_ancestors(job_ids: Collection[JobId]) -> Reading[dict[JobId, tuple[JobId, ...]]]:
    """See ``ReadAncestors``."""
    return {} if not job_ids else (yield ReadAncestors(job_ids))


def read_dependents(job_ids: Collection[JobId]) -> Reading[dict[JobId, set[JobId]]]:
    """See ``ReadDependents``; a job without dependents has an empty set."""
    found = {} if not job_ids else (yield ReadDependents(job_ids))
    return {job_id: set(found.get(job_id, ())) for job_id in job_ids}


def read_ended(query: ReadEnded) -> Reading[list[Ended]]:
    """See ``ReadEnded``."""
    found: list[Ended] = yield query
    return found


class NewJob(NamedTuple):
    """A job to create, with the number of dependencies for which it waits: ``is_done`` decides.

    ``unreadable`` is the content of a job that cannot be read, which comes only from ``load``.
    Then ``job`` is a stand-in that the store never shows or leases.
    """

    job: Job
    open_count: int = 0
    is_awaited: bool = False
    unreadable: bytes | None = None


class Amended(NamedTuple):
    """A job whose every field may have changed.

    ``open_count`` is the number of new dependencies for which it waits; None if its dependencies
    are the same as ``before``.
    """

    before: Job
    job: Job
    open_count: int | None = None


class Placed(NamedTuple):
    """A PENDING job with a new count of open dependencies, and perhaps a new status.

    READY and BLOCKED also set ``updated_at``, to the time of the writes. A skipped job is BLOCKED
    and has an ``ending`` and an ``error``, its ``last_error``; otherwise both stay as they are.
    """

    waiting: Waiting
    status: JobStatus
    open_count: int
    ending: Ending | None = None
    error: str | None = None


@dataclass(slots=True)
class Writes:
    """What a unit of work writes at ``now``. Each job is in at most one of the mappings.

    ``moved`` jobs have new values in ``MOVE_FIELDS`` only. ``awaited`` jobs gain a dependent: they
    are marked, and written even if they are marked already, so that their end at the same time
    conflicts. ``results`` belong to jobs in ``moved`` and ``new``. ``removed`` jobs go with their
    attempts, dependencies and results. Jobs in ``without_results`` and ``without_attempts`` have
    ended, stay as they are, and lose these. Writes that are silent wake no listener.
    """

    now: datetime
    new: dict[JobId, NewJob] = field(default_factory=dict)
    moved: dict[JobId, Job] = field(default_factory=dict)
    amended: dict[JobId, Amended] = field(default_factory=dict)
    placed: dict[JobId, Placed] = field(default_factory=dict)
    awaited: set[JobId] = field(default_factory=set)
    removed: set[JobId] = field(default_factory=set)
    attempts: list[Attempt] = field(default_factory=list)
    results: dict[JobId, bytes] = field(default_factory=dict)
    without_results: set[JobId] = field(default_factory=set)
    without_attempts: set[JobId] = field(default_factory=set)
    is_silent: bool = False

    def ready_partitions(self) -> set[Partition]:
        """Where jobs became READY, or READY at another time: who listens there is woken."""
        if self.is_silent:
            return set()
        jobs = [one.job for one in self.new.values()]
        jobs += self.moved.values()
        jobs += [one.job for one in self.amended.values()]
        places = {(job.tenant, job.queue) for job in jobs if job.status is JobStatus.READY}
        return places | {
            (one.waiting.tenant, one.waiting.queue)
            for one in self.placed.values()
            if one.status is JobStatus.READY
        }

    def ended_jobs(self) -> set[JobId]:
        """The jobs that ended or are gone: who listens for their end is woken."""
        if self.is_silent:
            return set()
        ended = {job.id for job in self.moved.values() if job.status.is_terminal}
        ended |= {one.job.id for one in self.amended.values() if one.job.status.is_terminal}
        ended |= {each for each, one in self.placed.items() if one.status.is_terminal}
        return ended | self.removed


class Decision(NamedTuple, Generic[Answer]):
    """How a plan ends: what to commit, and what to tell the caller once it is committed."""

    writes: Writes
    answer: Answer


Plan: TypeAlias = Generator[Query, Any, Decision[Answer]]


class Committed(NamedTuple, Generic[Answer]):
    """A caller's answer, and the partitions and ended jobs whose listeners to wake."""

    answer: Answer
    ready: set[Partition]
    ended: set[JobId] = set()  # noqa: RUF012 - never changed

    @classmethod
    def of(cls, writes: Writes, answer: Answer) -> "Committed[Answer]":
        """What follows from writes that are committed."""
        return cls(answer, writes.ready_partitions(), writes.ended_jobs())


def answer_by(backend: object) -> Callable[[Query], Any]:
    """Answers queries by the methods with their names, which are given their fields by name."""

    def answer(query: Query) -> Any:
        return getattr(backend, _method_of(type(query).__name__))(**query._asdict())

    return answer


@cache
def _method_of(query: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", query).lower()


def run(plan: Reading[Answer], answer: Callable[[Query], Any]) -> Answer:
    """Run a plan to its end, inside a synchronous transaction."""
    reply: Any = None
    try:
        while True:
            reply = answer(plan.send(reply))
    except StopIteration as end:
        value: Answer = end.value
        return value


async def run_async(plan: Reading[Answer], answer: Callable[[Query], Awaitable[Any]]) -> Answer:
    """Run a plan to its end, inside an asynchronous transaction."""
    reply: Any = None
    try:
        while True:
            reply = await answer(plan.send(reply))
    except StopIteration as end:
        value: Answer = end.value
        return value


def group_by_parent(waiting: Sequence[Waiting]) -> Mapping[JobId, list[JobId]]:
    """The waiting jobs of each parent, in the order they were read."""
    children: dict[JobId, list[JobId]] = {}
    for one in waiting:
        for parent in one.parents:
            children.setdefault(parent, []).append(one.job_id)
    return children
