"""The store seam for jobs: the verbs, and what every backend must guarantee about them.

What is to become of a job is decided in ``rota.jobs``; a store writes it, if it still holds. Every
verb is one atomic and, when it has returned, durable step. Nothing here reads a clock: whatever
depends on time is given ``now``. No verb's cost may grow with the number of jobs that have ended,
are due later or wait behind others, except where a list of them is asked for.

What a backend has to decide itself, because only it can do so atomically, is kept small and is
written down once as functions that all backends call or are tested against:

- ``duplicates`` and ``placement``: what becomes of jobs that are handed in;
- ``rota.jobs.ordering`` and ``turns``: who comes next; ``caps`` and ``selection``, where there are
  limits;
- ``moves``: whether a change still holds, and which fields it writes;
- ``rota.jobs.decide_dependents``: who is released and who is blocked.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from rota.jobs import Attempt, Change, Job, JobFilter, JobId, Page
from rota.stores.jobs.requests import HeldLease, LeaseRequest
from rota.stores.jobs.results import Applied, Inserted
from rota.stores.jobs.survey import QueueDepth


class Listener(Protocol):
    """Hears when there may be something to lease. Only a hint: whoever hears nothing polls."""

    async def wait(self) -> None:
        """Return when a job has become READY, or READY at another time, since the last return.

        What happened since listening began, or between two calls, is not missed; any number of
        such happenings are one. May return without cause, for example when a connection was lost.
        Cancelling it loses nothing. Raises StoreClosedError once the store is closed.
        """
        ...


@runtime_checkable
class Watchable(Protocol):
    """A store whose listeners do not hear of other processes, but can see that there is news."""

    def read_version(self) -> int | None:
        """A number that is another one once anybody has written; None if it cannot be had now.

        Asked many times a second: it costs microseconds, and waits for nothing.
        """
        ...


class LeaseKeeper(Protocol):
    """Keeps leases alive from another thread, also while the event loop does not turn.

    One thread uses and closes it. Nothing is opened before the first call; what was lost, such as
    a connection, is opened again by the next one.
    """

    def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        """As ``JobStore.extend``; the thread waits for the answer."""
        ...

    def close(self) -> None:
        """Let go of what was opened. Closing what is closed is no error."""
        ...


class JobStore(Protocol):
    """Remembers jobs. Verbs that read on somebody's behalf are told for which tenant.

    A call that is refused, or that the store cannot carry out, has written nothing; the exception
    is a connection lost on the way, as ``DocumentStore`` describes it. Repeating ``insert`` with
    the same ids and ``apply`` with the same changes is then safe.
    """

    async def insert(self, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
        """Keep all of these jobs or, when one is refused, none.

        A job's status follows from what its dependencies are at that moment, whatever it says: no
        dependency can end unnoticed in between. Dependencies may be jobs of the same call, in any
        order. UnknownDependencyError names those that the job's tenant does not have,
        DependencyCycleError a way that leads back to itself.

        A job that exists already is not kept twice: one with the same tenant, kind, idempotency key
        and occurrence (none being an occurrence like any other), or the same id. The existing one
        is returned, and what depends on the new one depends on that. DuplicateJobError when it was
        asked for with another payload.
        """
        ...

    async def lease(self, request: LeaseRequest, now: datetime) -> list[Job]:
        """Hand out up to ``request.limit`` jobs that are READY and due, each to one caller only.

        Each carries a token greater than any it had before. Within a tenant they come in the order
        of ``rota.jobs.ordering``. Tenants take turns as ``turns`` says, so that none with a long
        backlog holds up the others. Returns fewer, or none, rather than wait.

        What ``request.caps`` allow is never exceeded, however many lease at once, as long as all of
        them give these caps: a job that is RUNNING counts, also when its lease has run out. With
        ``request.ageing`` the order is that of ``rota.jobs.aged_key``. Who has no place, or nothing
        that is due, keeps nobody else from theirs; ``selection`` says who gets which.
        """
        ...

    async def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        """Let leases last until then, at least; False for each that its holder has lost.

        A lease that ran out and that nobody took is still held. ``updated_at`` stays as it is.
        """
        ...

    def make_keeper(self) -> LeaseKeeper:
        """A keeper of leases for a thread that is not the event loop's."""
        ...

    async def apply(self, changes: Sequence[Change], now: datetime) -> list[Applied]:
        """Write each change that still holds, whole or not at all; a stale one writes nothing.

        With the job go its attempt, its successor (unless it exists already) and the consequences
        for others: dependents whose dependencies are now all COMPLETED become READY, exactly once
        however their dependencies race; when it ended any other way its PENDING descendants become
        BLOCKED. A job that is to be removed is kept while others depend on it. A change sees those
        before it in the same call. IllegalMoveError, and nothing written, when the path of one is
        not in the table of moves.

        Where the database can do so, the whole call is one step. Elsewhere a call that was cut off
        may have written some of its changes: hand all in again, for what was written is stale then.
        """
        ...

    async def insert_within(
        self, connection: Any, jobs: Sequence[Job], now: datetime
    ) -> list[Inserted]:
        """As ``insert``, in a transaction that the caller has begun on a connection of their own.

        The jobs come into being when the caller commits, and never if they roll back; until then
        nobody else sees them. Whoever listens is told after the commit, where the database can do
        so. UnsupportedConnectionError when the store knows no such connection, or it has no
        transaction under way.
        """
        ...

    async def find_expired(self, now: datetime, limit: int, after: Job | None = None) -> list[Job]:
        """Jobs whose lease has run out, the longest ago first, then by id.

        ``after`` is the last job of the page before; with it every such job is met once in a sweep.
        """
        ...

    async def next_due_at(
        self,
        now: datetime,
        queues: Collection[str] | None = None,
        tenants: Collection[str] | None = None,
    ) -> datetime | None:
        """The first instant, from now on, at which a READY job is due; None when there is none."""
        ...

    def listen(
        self, queues: Collection[str] | None = None, tenants: Collection[str] | None = None
    ) -> AbstractAsyncContextManager[Listener]:
        """Listen for as long as the context lasts."""
        ...

    async def get(self, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, Job]:
        """The tenant's jobs that exist among these, as of one moment."""
        ...

    async def find(
        self,
        tenant: str,
        wanted: JobFilter | None = None,
        cursor: str | None = None,
        limit: int = 20,
    ) -> Page:
        """A page of the tenant's jobs, as ``rota.jobs.list_jobs`` gives it.

        The tenant is the one named here, whatever the filter says.
        """
        ...

    async def count(self, tenant: str, wanted: JobFilter | None = None) -> int:
        """How many jobs of the tenant the filter accepts."""
        ...

    async def attempts(self, tenant: str, job_id: JobId) -> list[Attempt]:
        """The attempts of a job that did not succeed, the first one first."""
        ...

    async def find_dependents(self, tenant: str, job_ids: Sequence[JobId], limit: int) -> list[Job]:
        """The tenant's jobs that name one of these among their dependencies, by id.

        Whatever has become of them; at most ``limit``.
        """
        ...

    async def amend(
        self, tenant: str, job_id: JobId, fields: Mapping[str, Any], now: datetime
    ) -> Job:
        """Change fields of a job, as ``rota.jobs.amend_job`` allows, and return it.

        Other fields keep what others have written meanwhile. When the new dependencies block it,
        its PENDING descendants are blocked with it. Raises JobNotFoundError, what ``amend_job``
        raises, and DuplicateJobError when another job has its key under the new kind.
        """
        ...

    async def delete(self, tenant: str, job_id: JobId) -> Job:
        """Remove a job at whatever stage, with its attempts, and return it as it was.

        Whoever runs it learns by ``extend`` that the lease is lost. JobNotFoundError when there is
        none, HasDependentsError when any other, even one that has ended, depends on it.
        """
        ...

    async def prune(self, ended_before: datetime, limit: int) -> int:
        """Remove up to so many jobs that ended before then, the longest ago first; how many.

        Never one that others depend on; when the last of those goes, it may go in the same call.
        """
        ...

    async def survey(self, now: datetime, tenant: str | None = None) -> list[QueueDepth]:
        """How full each queue is, over all tenants or for one, as of one moment and by name.

        As ``rota.stores.jobs.survey.survey_jobs`` says it; what cannot be read is left out. For
        operators: its cost grows with the jobs that are READY, RUNNING or dead letters, and not
        with those that were COMPLETED.
        """
        ...

    async def close(self) -> None:
        """Release the store, as ``DocumentStore.close``; whoever listens is told."""
        ...
