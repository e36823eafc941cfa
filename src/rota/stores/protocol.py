"""The contract of a store: documents, jobs, and copies of both. Every backend keeps every promise.

A *document* is opaque bytes under a key in a collection, with a version that only grows. A write
names the version it was decided on, and is refused if the document has changed since. That makes a
claim safe.

A *job* is decided about in ``rota.jobs``; a store writes the decision if it still holds. Every verb
is one atomic step, durable when it has returned. Nothing here reads a clock: a verb that depends on
time takes ``now``. The cost of a verb never grows with the number of jobs that have ended, are due
later or wait behind others, unless the verb lists those jobs.

The rules of the job verbs are written once, in ``rota.stores.kernel``; backends run them.
"""

from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import msgspec

from rota.errors import InvalidInputError, invalid
from rota.jobs import Attempt, Change, Job, JobFilter, JobId, Page
from rota.jobs.retention import Expiry

LONGEST_NAME = 255
"""The number of characters that a collection, a key or a worker's name may have."""

LOOK_AHEAD = 1_000
"""How many due jobs of a queue of a tenant a lease by kind or label looks at, and how many tenants.

A job behind that many others that the caller cannot run waits until some of them are gone.
"""


class Reach(Enum):
    """Who else may have the same store open. It decides how to tell a dead peer from a live one."""

    PROCESS = "process"
    HOST = "host"
    NETWORK = "network"


class Document(NamedTuple):
    """The content of one key."""

    key: str
    version: int
    body: bytes


class DocumentWrite(NamedTuple):
    """A write that holds only while the document is at version ``expected``.

    ``expected=None`` demands that the document does not exist; ``body=None`` removes it. Both
    together write nothing and hold only while the document does not exist. A removed document that
    is created again starts at version 1.

    Collections and keys are text of 1 to 255 characters without NUL; texts that differ are
    different names. A body is any bytes, of 1 MiB and more.
    """

    collection: str
    key: str
    expected: int | None
    body: bytes | None

    @property
    def next_version(self) -> int:
        """The version of the document after this write; 0 if the write removes it."""
        return 0 if self.body is None else (self.expected or 0) + 1


def checked(writes: Iterable[DocumentWrite]) -> Iterator[DocumentWrite]:
    """The same writes; InvalidInputError at the first with a name that no store can keep."""
    for write in writes:
        check_name("collection", write.collection)
        check_name("key", write.key)
        yield write


def check_names(collection: str, keys: Iterable[str]) -> None:
    """Refuse names of documents that no store can keep."""
    check_name("collection", collection)
    for key in keys:
        check_name("key", key)


class DocumentStore(Protocol):
    """Stores versioned documents. Every write that returned is durable.

    InvalidInputError means that a name is not valid, StoreUnavailableError that the store cannot
    carry out the call now; in both cases nothing has been written. There is one exception: if the
    connection was lost on the way, ``details["outcome"]`` is "unknown". Then the write was carried
    out wholly or not at all, and reading again shows which. The same is true for a caller that is
    cancelled while it waits.
    """

    reach: Reach

    def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
        """All documents of a collection in key order, page by page.

        Keys are ordered by code point. Each page is consistent in itself and not empty; others may
        write between pages. A document that exists during the whole scan is seen exactly once.
        """
        ...

    async def read(self, collection: str, keys: Sequence[str]) -> dict[str, Document]:
        """The documents that exist among ``keys``, as of one moment."""
        ...

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        """Apply each write that is still current, in one durable step.

        Returns for each write the new version, 0 for a removal, or None if the write was stale and
        wrote nothing. A write sees those before it in the same call. After an error none of them is
        applied.
        """
        ...

    async def write_all(self, writes: Iterable[DocumentWrite]) -> None:
        """Apply all writes or none; StaleVersionError names the first that is not current.

        ``writes`` may be a long stream. The store consumes it as it writes, perhaps in another
        thread, and never holds it as a whole. An exception of the stream is passed on, and nothing
        is written.
        """
        ...

    async def close(self) -> None:
        """Release the store: complete calls that are running, refuse later ones.

        Closing a closed store is not an error.
        """
        ...


class TransactionalStore(DocumentStore, Protocol):
    """Documents that can also take part in a transaction of the caller.

    ``connection`` is the caller's own, to the database of the store. Both verbs raise
    UnsupportedConnectionError if the store does not support the connection or the connection has no
    open transaction. An error of the database itself may have ended the caller's transaction.
    """

    async def read_within(
        self, connection: Any, collection: str, keys: Sequence[str]
    ) -> dict[str, Document]:
        """As ``read``, as the caller's transaction sees it."""
        ...

    async def write_within(self, connection: Any, writes: Sequence[DocumentWrite]) -> None:
        """As ``write_all``; the writes hold once the caller commits, and never after a rollback.

        If one is not current: StaleVersionError, and the transaction is as it was before. Until the
        transaction ends, others cannot write the same documents. If another transaction has written
        one of them, this call waits for its end and then decides what is current.
        """
        ...


class Listener(Protocol):
    """Hears of events in the store. This is only a hint: a caller polls as well."""

    async def wait(self) -> None:
        """Return when it has happened since the last return.

        ``listen``: a job has become READY, or READY at another time. ``listen_for_end``: one of the
        jobs has ended.

        Nothing that happens after listening began, or between two calls, is missed; several events
        may count as one. May return without cause, for example after a lost connection. Cancelling
        it loses nothing. Raises StoreClosedError once the store is closed.
        """
        ...


@runtime_checkable
class Watchable(Protocol):
    """A store that shows whether anything was written, by this process or by another."""

    def read_version(self) -> int | None:
        """A number that changes after any write; None if it cannot be read now.

        Called many times a second: it takes microseconds and never waits.
        """
        ...


class HeldLease(NamedTuple):
    """A lease as its holder knows it."""

    job_id: JobId
    token: int


class LeaseKeeper(Protocol):
    """Extends leases from another thread, even while the event loop is blocked.

    One thread uses and closes it. It opens nothing before the first call; the next call reopens
    what was lost, such as a connection.
    """

    def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        """As ``JobStore.extend``; blocks the thread until the answer is there."""
        ...

    def close(self) -> None:
        """Close what was opened. Closing twice is not an error."""
        ...


CapScope: TypeAlias = tuple[str | None, str | None]
"""The jobs of a tenant and in a queue; None for any."""


class Cap(msgspec.Struct, frozen=True):
    """At most ``running`` jobs of a scope are leased at once, and ``count`` in this call.

    The scope is a tenant, a queue, or a queue of a tenant; with neither it is all jobs. With 0 the
    jobs of the scope wait.
    """

    tenant: str | None = None
    queue: str | None = None
    running: int | None = None
    count: int | None = None

    def __post_init__(self) -> None:
        for field in ("running", "count"):
            value = getattr(self, field)
            if value is not None and (type(value) is not int or value < 0):
                raise invalid(field, f"must be an integer from 0 on, got {value!r:.40}")

    @property
    def scope(self) -> CapScope:
        return self.tenant, self.queue


class LeaseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks for how many jobs, for how long, and from where.

    ``queues`` and ``tenants`` are all of them if left out. ``after_tenant`` is the tenant of the
    last job that the caller was given before, so that the next tenant comes first.

    ``caps`` limit how many jobs of a tenant, a queue or both may run or be given out; jobs without
    room are passed over. ``ageing`` names queues in which jobs gain priority while they wait, and
    the time that adds one priority.

    Only jobs of these ``kinds`` are leased, and of those with a label only jobs whose label is
    among ``labels``; None for any. Other jobs stay where they are.
    """

    worker: str
    limit: int
    lease_for: timedelta
    queues: Collection[str] | None = None
    tenants: Collection[str] | None = None
    after_tenant: str = ""
    caps: tuple[Cap, ...] = ()
    ageing: Mapping[str, timedelta] | None = None
    kinds: Collection[str] | None = None
    labels: Collection[str] | None = None

    @property
    def is_limited(self) -> bool:
        """Whether caps or ageing apply."""
        return bool(self.caps or self.ageing)

    @property
    def is_selective(self) -> bool:
        """Whether kinds or labels decide."""
        return self.kinds is not None or self.labels is not None

    def accepts(self, kind: str, label: str | None) -> bool:
        """Whether the caller can run a job of this kind and label."""
        return is_chosen(kind, self.kinds) and (label is None or is_chosen(label, self.labels))

    def __post_init__(self) -> None:
        check_name("worker", self.worker)
        check_count(self.limit)
        check_choice(self.queues, "queues")
        check_choice(self.tenants, "tenants")
        check_choice(self.kinds, "kinds")
        check_choice(self.labels, "labels")
        if self.lease_for <= timedelta(0):
            raise invalid("lease_for", f"must be longer than no time, got {self.lease_for}")
        for queue, step in (self.ageing or {}).items():
            if step <= timedelta(0):
                raise invalid("ageing", f"must be longer than no time, got {step} for {queue!r}")


class LeasePreview(NamedTuple):
    """What a lease would look at; nothing is leased.

    ``partitions`` are the pairs of tenant and queue with a due job and room for it, of the next
    tenants in turn. ``running`` counts the leased jobs of each partition of the store if a cap
    depends on them; otherwise it is empty.
    """

    partitions: Sequence[tuple[str, str]]
    running: Mapping[tuple[str, str], int]


class Inserted(msgspec.Struct, frozen=True):
    """The job as stored; ``is_existing`` if it existed before, and was left as it is."""

    job: Job
    is_existing: bool = False


class Applied(msgspec.Struct, frozen=True):
    """The effect of one change, on its job and on those that waited for it."""

    job: Job | None
    """The job as the change has it; None if the change was stale and wrote nothing.

    Fields that others amended after the change was decided keep their amended values in the store,
    but show their old ones here; read the job again to see them.
    """
    successor: Job | None = None
    """The next job of the series, if this change created it."""
    released: tuple[JobId, ...] = ()
    """The dependents that became READY, by id."""
    blocked: tuple[JobId, ...] = ()
    """The descendants that became BLOCKED, skipped ones included; by id."""
    is_removed: bool = False
    """Whether the job was removed from the store."""

    @property
    def is_stale(self) -> bool:
        return self.job is None


STALE = Applied(None)


class EndedPlace(NamedTuple):
    """The place of a job among those that have ended: when it ended, then its id."""

    ended_at: datetime
    job_id: JobId


class Pruned(NamedTuple):
    """How many jobs were removed, how many were looked at, and the place to go on after.

    The place is None if no more jobs have ended.
    """

    removed: int
    looked: int = 0
    place: EndedPlace | None = None


class QueueDepth(msgspec.Struct, frozen=True, kw_only=True):
    """The unfinished jobs and dead letters of one queue, as of one moment.

    ``due_count`` jobs are READY and can be leased now, the first since ``oldest_due_at``;
    ``later_count`` are READY and due later. Of the ``running_count`` RUNNING jobs, the leases of
    ``stalled_count`` have expired. ``dead_count`` are dead letters: failed after their last
    attempt, and kept.
    """

    queue: str
    due_count: int = 0
    later_count: int = 0
    running_count: int = 0
    stalled_count: int = 0
    dead_count: int = 0
    oldest_due_at: datetime | None = None


class JobStore(Protocol):
    """Stores jobs. A verb that reads or edits for a caller takes the caller's tenant.

    A call that raises has written nothing, except after a lost connection, as in ``DocumentStore``.
    Then it is safe to repeat ``insert`` with the same ids and ``apply`` with the same changes.
    """

    async def insert(self, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
        """Create all of these jobs or, if one is refused, none.

        The status of a job follows from its dependencies at that moment, whatever the job says: no
        dependency can end unnoticed in between. Dependencies may be jobs of the same call, in any
        order. UnknownDependencyError names those that the job's tenant does not have,
        DependencyCycleError the path that leads back to its start.

        A job that exists already is not created twice: one with the same tenant, kind, idempotency
        key and occurrence (no occurrence counts as one), or with the same id. The call returns the
        existing job, and jobs that depend on the new one depend on it. DuplicateJobError if the
        payloads differ.
        """
        ...

    async def lease(self, request: LeaseRequest, now: datetime) -> list[Job]:
        """Lease up to ``request.limit`` jobs that are READY and due, each to one caller only.

        Each has a token greater than any it had before. Within a tenant they come in the order of
        ``rota.jobs.ordering``. Tenants take turns (``rota.stores.kernel.turns``), so that a tenant
        with a long backlog does not hold up the others. Returns fewer jobs, or none, rather than
        wait.

        ``request.caps`` are never exceeded, however many callers lease at once, if all of them give
        these caps. A RUNNING job counts even after its lease has expired. With ``request.ageing``
        the order is that of ``rota.jobs.aged_key``. A tenant or queue without room, or without a
        due job, does not hold up others; ``rota.stores.kernel.limits`` has the rules.

        With ``request.kinds`` or ``request.labels`` other jobs are passed over, and stay as they
        are. A lease looks at ``LOOK_AHEAD`` due jobs of each queue of each tenant, and at as many
        tenants.
        """
        ...

    async def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        """Extend leases to at least ``until``; False for each that its holder has lost.

        An expired lease that no other worker has taken is still held. ``updated_at`` does not
        change.
        """
        ...

    def make_keeper(self) -> LeaseKeeper:
        """A lease keeper for a thread other than the event loop's. Any thread may call this."""
        ...

    async def apply(self, changes: Sequence[Change], now: datetime) -> list[Applied]:
        """Write each change that still holds, as a whole; a stale one writes nothing.

        With the job are written its attempt, its result, its successor (unless it exists already)
        and the effect on others. Dependents whose dependencies are now all COMPLETED become READY,
        exactly once however their dependencies race. If the job ended in any other way, its PENDING
        dependents follow their ``on_parent_failure``: they become BLOCKED, and their dependents
        in turn; or wait for one dependency less. The cost does not grow with the number of other
        dependencies that a dependent has. A job to be removed stays while others depend on it. A
        change sees those before it in the same call. IllegalMoveError, and nothing is written, if
        the path of a change is not in the table of moves.

        Where the database can do so, the whole call is one step. Elsewhere an interrupted call may
        have written some of its changes: submit all of them again, and the written ones are stale.
        """
        ...

    async def insert_within(
        self, connection: Any, jobs: Sequence[Job], now: datetime
    ) -> list[Inserted]:
        """As ``insert``, in a transaction that the caller has begun on a connection of its own.

        The jobs exist once the caller commits, and never after a rollback; until then no one else
        sees them. Where the database can do so, listeners are woken after the commit.
        UnsupportedConnectionError if the store does not support the connection or the connection
        has no open transaction.
        """
        ...

    async def find_expired(self, now: datetime, limit: int, after: Job | None = None) -> list[Job]:
        """Jobs whose lease has expired, the earliest first, then by id.

        ``after`` is the last job of the previous page; with it, a sweep meets each of them once.
        """
        ...

    async def next_due_at(
        self,
        now: datetime,
        queues: Collection[str] | None = None,
        tenants: Collection[str] | None = None,
    ) -> datetime | None:
        """The first instant, from now on, at which a READY job is due; None if there is none."""
        ...

    def listen(
        self, queues: Collection[str] | None = None, tenants: Collection[str] | None = None
    ) -> AbstractAsyncContextManager[Listener]:
        """Listen while the context lasts."""
        ...

    def listen_for_end(
        self, tenant: str, job_ids: Collection[JobId]
    ) -> AbstractAsyncContextManager[Listener]:
        """Listen for the end of these jobs while the context lasts.

        ``wait`` returns when one of them may have become COMPLETED, FAILED or BLOCKED, or is gone.
        No end after the context was entered is missed; what had ended before shows in ``get``. As
        with ``listen`` it is a hint, and a ``Watchable`` store hears only of its own process. While
        no one listens, ends cost nothing more.
        """
        ...

    async def get(self, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, Job]:
        """The tenant's jobs that exist among these, as of one moment."""
        ...

    async def results(self, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, bytes]:
        """The kept results of the tenant's COMPLETED jobs among these, as of one moment.

        A result is JSON, as the change that completed the job has it. It is written in the same
        step, kept apart from the job, and removed with it.
        """
        ...

    async def find(
        self,
        tenant: str,
        wanted: JobFilter | None = None,
        cursor: str | None = None,
        limit: int = 20,
    ) -> Page:
        """A page of the tenant's jobs, as ``rota.jobs.list_jobs`` gives it.

        ``tenant`` overrides the tenant of the filter.
        """
        ...

    async def count(
        self, tenant: str, wanted: JobFilter | None = None, limit: int | None = None
    ) -> int:
        """How many jobs of the tenant the filter accepts; at most ``limit`` are counted.

        With a status and a limit the cost does not grow with the jobs that have ended.
        """
        ...

    async def attempts(self, tenant: str, job_id: JobId) -> list[Attempt]:
        """All attempts of a job that have ended, the first one first.

        Those that did not succeed are stored, and so is a success with a log;
        ``rota.jobs.complete_history`` adds the success of a COMPLETED job.
        """
        ...

    async def find_dependents(self, tenant: str, job_ids: Sequence[JobId], limit: int) -> list[Job]:
        """The tenant's jobs, in any state, that depend directly on one of these; by id."""
        ...

    async def amend(
        self, tenant: str, job_id: JobId, fields: Mapping[str, Any], now: datetime
    ) -> Job:
        """Change fields of a job, as ``rota.jobs.amend_job`` allows, and return the job.

        Other fields keep what others have written in the meantime. If the new dependencies block
        the job, its PENDING descendants are blocked with it. Raises JobNotFoundError, the errors of
        ``amend_job``, and DuplicateJobError if another job has its key under the new kind.
        """
        ...

    async def delete(self, tenant: str, job_id: JobId) -> Job:
        """Remove a job in any state, with its attempts and result, and return it as it was.

        A worker that runs it learns from ``extend`` that the lease is lost. Raises JobNotFoundError
        if there is no such job, and HasDependentsError if another job, even a finished one, depends
        on it.
        """
        ...

    async def prune(
        self,
        ended_before: datetime,
        limit: int,
        expiry: Expiry | None = None,
        after: EndedPlace | None = None,
    ) -> Pruned:
        """Remove jobs that ended before an instant, the earliest first.

        Looks at ``limit`` jobs, those after a place if one is given, and removes up to as many.
        With ``expiry`` only what its rules say goes, and perhaps only a result or the attempts.
        Never removes a job that others depend on. If the last dependent goes, the job may go in the
        same call.
        """
        ...

    async def survey(self, now: datetime, tenant: str | None = None) -> list[QueueDepth]:
        """The depth of each queue, for all tenants or for one, as of one moment and by name.

        ``rota.stores.survey.survey_jobs`` defines it; unreadable jobs are left out. For operators:
        the cost grows with the jobs that are READY, RUNNING or dead letters, not with COMPLETED
        ones.
        """
        ...

    async def close(self) -> None:
        """Release the store, as ``DocumentStore.close``; listeners get StoreClosedError."""
        ...


class Parked(Protocol):
    """A request that a worker has left with a store."""

    @property
    def is_over(self) -> bool:
        """Whether it gives no more jobs."""
        ...

    def leave(self) -> None:
        """Withdraw it. Until the store knows that, it may still give jobs."""
        ...

    async def left(self, seconds: float) -> None:
        """Withdraw it, and return when no more jobs will come."""
        ...


@runtime_checkable
class ParkingStore(Protocol):
    """A store that can lease a job as it is inserted: the job then waits for one write, not two."""

    async def park(
        self, request: LeaseRequest, now: datetime, receive: Callable[[Job | None], None]
    ) -> Parked | None:
        """Leave a request for new jobs; None if that cannot be. It writes nothing.

        ``receive`` is called in the event loop with each job that is leased to the worker. These
        leases end at ``now + request.lease_for``; no other lease of the worker may. None instead of
        a job means that jobs may have been leased that will not arrive. There are never more than
        ``request.limit`` such leases, as long as the worker does not extend them. Jobs of a series
        are not given, nor are jobs given under limits.
        """
        ...


class KeptDocument(NamedTuple):
    """A document with its collection."""

    collection: str
    key: str
    version: int
    body: bytes


class KeptJob(NamedTuple):
    """A job in any state, with its stored attempts, the first one first, and its result."""

    job: Job
    attempts: tuple[Attempt, ...] = ()
    result: bytes | None = None


class UnreadableJob(NamedTuple):
    """A job that cannot be read.

    ``content`` is JSON: what the first store had of it, in that store's own form, and why it cannot
    be read. Copies do not change it. ``dependencies`` are in order.
    """

    job_id: JobId
    tenant: str
    queue: str
    dependencies: tuple[JobId, ...]
    content: bytes


Record: TypeAlias = KeptDocument | KeptJob | UnreadableJob
"""Anything that a store holds."""


class Portion(NamedTuple):
    """Some records of a store, perhaps none. The last portion has no cursor."""

    records: Sequence[Record]
    cursor: str | None


class PortableStore(Protocol):
    """A store whose content can be copied to another store as it is.

    A copy into an empty store is complete: the second store continues exactly where the first was,
    with every version, token, lease and dependency.
    """

    async def dump(self, cursor: str | None = None, limit: int = 1000) -> Portion:
        """A portion of all records, from the beginning or from the end of another portion.

        Every record appears once if no one writes meanwhile; the order is the store's own. A
        portion is small, in records and in bytes, however much the store holds. Changes nothing.
        InvalidCursorError if ``cursor`` is not from this store; StoreUnavailableError while the
        store has yet to complete an earlier promise.
        """
        ...

    async def load(self, records: Sequence[Record], now: datetime) -> int:
        """Store records as they are, with versions, tokens and states; how many were new.

        A record that exists already, by name or id, is left as it is, so a repeated call changes
        nothing. Records come in any order: a job may depend on one that follows later. Once all
        have come, every job waits for exactly those for which it waited. Wakes no listener. Meant
        for a store that is not in use yet.
        """
        ...


def check_name(field: str, name: str) -> None:
    """Refuse a name that not every store can keep; the error names ``field``."""
    # One comparison and one C call accept nearly every name: this runs for each write.
    if 0 < len(name) <= LONGEST_NAME and name.isprintable():
        return
    reason = _find_fault(name)
    if reason is not None:
        raise InvalidInputError(f"{field}: {reason}", {"field": field, "reason": reason})


def _find_fault(name: str) -> str | None:
    if not name:
        return "must not be empty"
    if len(name) > LONGEST_NAME:
        return f"is {len(name)} characters long, {LONGEST_NAME} are the most"
    if "\0" in name:
        return "must not hold the character NUL"
    if any("\ud800" <= character <= "\udfff" for character in name):
        return "holds half of a surrogate pair, which is not text"
    return None


def check_count(limit: int) -> int:
    """The limit itself, if it is a positive integer."""
    if type(limit) is not int or limit < 1:
        raise invalid("limit", f"must be an integer from 1 on, got {limit!r}")
    return limit


def check_choice(chosen: Collection[str] | None, field: str) -> None:
    """Refuse a single name where several are expected: its letters would count as names."""
    if isinstance(chosen, str):
        raise invalid(field, "must be a collection of names, got a text")


def is_chosen(name: str, chosen: Collection[str] | None) -> bool:
    """Whether the name is among those chosen; None chooses all."""
    return chosen is None or name in chosen


def expiry_key(job: Job) -> tuple[datetime, JobId]:
    """The position of a leased job in the order of ``find_expired``."""
    if job.lease is None:
        raise invalid("after", "must be a job that was found expired, and has a lease")
    return job.lease.until, job.id
