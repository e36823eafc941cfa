"""Which list a page and a count read, and what is remembered of due times.

The rest is that of all dialects.
"""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple, TypeAlias

from rota.jobs import JobFilter, JobStatus
from rota.stores.sql import read
from rota.stores.sqlite.queries import QUERIES
from rota.stores.sqlite.session import Session

FEW = 5_000
"""Up to this many READY jobs, a page of them reads all READY jobs instead of all jobs in order."""

MOST_CHOICES = 100
"""How many choices of queues and tenants are remembered."""

Choice: TypeAlias = tuple[frozenset[str] | None, frozenset[str] | None]

_UNSUCCESSFUL = frozenset({JobStatus.PENDING, JobStatus.FAILED, JobStatus.BLOCKED})


class Reads(read.Reads[Session]):
    """Reads jobs; the reader's thread runs these coroutines to their end."""

    def _choose_list(self, wanted: JobFilter) -> str:
        """The list with the fewest jobs that are not wanted: most are COMPLETED, and in the way."""
        if wanted.only_dead:
            return QUERIES.list_dead
        if wanted.is_of_series:
            return QUERIES.list_recurring
        return QUERIES.list_unsuccessful if wanted.status in _UNSUCCESSFUL else QUERIES.list_any

    async def _choose_page(self, session: Session, wanted: JobFilter) -> str:
        """A page is put in order where few jobs are running or READY."""
        chosen = self._choose_list(wanted)
        if chosen == QUERIES.list_any and wanted.status is JobStatus.RUNNING:
            return QUERIES.list_running
        if chosen == QUERIES.list_any and wanted.status is JobStatus.READY:
            most = {"tenant": wanted.tenant, "most": FEW + 1}
            ((number,),) = await session.fetch(QUERIES.count_ready, **most)
            return QUERIES.list_few_ready if number <= FEW else chosen
        return chosen

    def _choose_count(self, session: Session, wanted: JobFilter) -> str:
        is_all = wanted == JobFilter(tenant=wanted.tenant)
        return QUERIES.count_all if is_all else super()._choose_count(session, wanted)


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
        self.found: dict[Choice, NextDue] = {}
        """What was found in one version of the file, which may have changed since."""
        self._version: int | None = None

    def put(self, version: int | None, choice: Choice, due: NextDue, now: datetime) -> None:
        """Remember what was found in this version or a later one, unless a job is due now."""
        if version is None or (due.at is not None and due.at <= now):
            return
        if version != self._version or len(self.found) >= MOST_CHOICES:
            self._version, self.found = version, {}
        self.found[choice] = due

    def find(self, version: int | None, choice: Choice, now: datetime) -> NextDue | None:
        """The due time, if it is known for this version and has not come."""
        if version != self._version:
            self._version, self.found = None, {}
            return None
        due = self.found.get(choice)
        if due is None or (due.at is not None and due.at <= now):
            return None
        return due
