"""Which list a page and a count read, and the next due time; the rest is that of all dialects.

None of these coroutines ever waits: the reader's thread runs them to their end.
"""

from collections.abc import Collection
from datetime import datetime
from functools import partial
from typing import NamedTuple, TypeAlias

from rota.jobs import JobFilter, JobStatus, Page
from rota.stores.kernel.partitions import find_next_due
from rota.stores.kernel.unit import run
from rota.stores.rows import to_instant, to_micros
from rota.stores.sql.read import (
    attempts,
    count_listed,
    find_dependents,
    find_expired,
    find_listed,
    get,
    read_document_portion,
    read_job_portion,
    results,
    survey,
)
from rota.stores.sqlite.lease import answer_step
from rota.stores.sqlite.queries import QUERIES
from rota.stores.sqlite.session import Session

__all__ = [
    "DueCache",
    "NextDue",
    "attempts",
    "count",
    "find",
    "find_dependents",
    "find_expired",
    "get",
    "make_choice",
    "next_due_at",
    "read_document_portion",
    "read_job_portion",
    "results",
    "survey",
]

FEW = 5_000
"""Up to this many READY jobs, a page of them reads all READY jobs instead of all jobs in order."""

MOST_CHOICES = 100
"""How many choices of queues and tenants are remembered."""

Choice: TypeAlias = tuple[frozenset[str] | None, frozenset[str] | None]

_UNSUCCESSFUL = frozenset({JobStatus.PENDING, JobStatus.FAILED, JobStatus.BLOCKED})


async def find(session: Session, wanted: JobFilter, cursor: str | None, limit: int) -> Page:
    """A page of the jobs of the filter's tenant."""
    return await find_listed(session, await _choose_page(session, wanted), wanted, cursor, limit)


async def count(session: Session, wanted: JobFilter, limit: int | None) -> int:
    """How many jobs of its tenant the filter accepts."""
    statement = QUERIES.count_listed.replace(":jobs", _choose_list(wanted))
    if wanted == JobFilter(tenant=wanted.tenant):
        statement = QUERIES.count_all
    return await count_listed(session, statement, wanted, limit)


async def next_due_at(
    session: Session,
    now: datetime,
    queues: Collection[str] | None,
    tenants: Collection[str] | None,
) -> datetime | None:
    """See ``JobStore.next_due_at``."""
    plan = find_next_due(queues, tenants, to_micros(now))
    due_at = run(plan, partial(answer_step, session.connection))
    return None if due_at is None else to_instant(due_at)


def _choose_list(wanted: JobFilter) -> str:
    """The list with the fewest jobs that are not wanted: most are COMPLETED, and in the way."""
    if wanted.only_dead:
        return QUERIES.list_dead
    if wanted.is_of_series:
        return QUERIES.list_recurring
    return QUERIES.list_unsuccessful if wanted.status in _UNSUCCESSFUL else QUERIES.list_any


async def _choose_page(session: Session, wanted: JobFilter) -> str:
    """The same for a page, which is put in order where few jobs are running or READY."""
    chosen = _choose_list(wanted)
    if chosen == QUERIES.list_any and wanted.status is JobStatus.RUNNING:
        return QUERIES.list_running
    if chosen == QUERIES.list_any and wanted.status is JobStatus.READY:
        ((number,),) = await session.fetch(QUERIES.count_ready, tenant=wanted.tenant, most=FEW + 1)
        return QUERIES.list_few_ready if number <= FEW else chosen
    return chosen


class NextDue(NamedTuple):
    """The instant at which the next job is due; None if there is none."""

    at: datetime | None


def make_choice(queues: Collection[str] | None, tenants: Collection[str] | None) -> Choice:
    """Queues and tenants as a key."""
    return (
        None if queues is None else frozenset(queues),
        None if tenants is None else frozenset(tenants),
    )


class DueCache:
    """The next due times found in one version of the file. A new version empties it.

    An idle worker asks again and again. While the file has not changed, and the due time has not
    come, there is no need to read the file.
    """

    def __init__(self) -> None:
        self._version: int | None = None
        self._found: dict[Choice, NextDue] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def put(self, version: int | None, choice: Choice, due: NextDue, now: datetime) -> None:
        """Remember what was found in this version or a later one, unless a job is due now."""
        if version is None or (due.at is not None and due.at <= now):
            return
        if version != self._version or len(self._found) >= MOST_CHOICES:
            self._version, self._found = version, {}
        self._found[choice] = due

    def find(self, version: int | None, choice: Choice, now: datetime) -> NextDue | None:
        """The due time, if it is known for this version and has not come."""
        if version != self._version:
            self._version, self._found = None, {}
            return None
        due = self._found.get(choice)
        if due is None or (due.at is not None and due.at <= now):
            return None
        return due
