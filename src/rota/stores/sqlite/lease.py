"""``lease`` and ``extend``.

A lease first marks the READY jobs that have become due. They form a partition for each queue of
each tenant, and a lease looks only at them: jobs that have ended, are due later or wait for others
cost nothing.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime

import apsw

from rota.clock.protocol import to_utc
from rota.errors import DamagedJobError
from rota.jobs import Job, JobId
from rota.jobs.record import HIGHEST_PRIORITY
from rota.stores.kernel.limits import (
    Candidate,
    Standing,
    lease_chosen,
    lease_limited,
    preview_lease,
)
from rota.stores.kernel.partitions import find_partitions
from rota.stores.kernel.turns import take_turns
from rota.stores.kernel.unit import Partition, answer_by, run, run_async
from rota.stores.protocol import LOOK_AHEAD, CapScope, HeldLease, LeasePreview, LeaseRequest
from rota.stores.rows import Row, decode_job, decode_standings, encode_ids, logger, to_micros
from rota.stores.sql.partitions import Steps
from rota.stores.sqlite.connection import SqliteSettings, open_beside, transaction
from rota.stores.sqlite.queries import QUERIES
from rota.stores.sqlite.session import Session, finish
from rota.stores.sqlite.translation import translated

MOST_MARKED_DUE = 10_000
"""How many jobs one lease marks as due, the longest due first.

If more become due between two leases, the order holds among the marked ones, and the next lease
marks the others. It keeps the transaction short for those that wait for it.
"""


def lease_jobs(connection: apsw.Connection, request: LeaseRequest, now: datetime) -> list[Job]:
    """See ``JobStore.lease``."""
    connection.execute(QUERIES.mark_due, (to_micros(now), MOST_MARKED_DUE))
    lease = _Lease(connection, request, now)
    if request.is_limited:
        return run(lease_limited(request, now), answer_by(lease))
    taken: list[Job] = []
    while len(taken) < request.limit:
        chosen = lease.choose(request.limit - len(taken))
        if not lease.accepts_all(chosen):
            break
        leased = lease.take(chosen)
        taken += leased
        if len(leased) == len(chosen):
            return taken
    return taken or run(lease_chosen(request, now), answer_by(lease))


def preview_jobs(connection: apsw.Connection, request: LeaseRequest, now: datetime) -> LeasePreview:
    """See ``OpenStore.preview_lease``."""
    connection.execute(QUERIES.mark_due, (to_micros(now), MOST_MARKED_DUE))
    return run(preview_lease(request), answer_by(_Lease(connection, request, now)))


class _Lease:
    """One call of ``lease``, in its transaction."""

    def __init__(self, connection: apsw.Connection, request: LeaseRequest, now: datetime) -> None:
        self._connection = connection
        self._request = request
        self._now = to_micros(now)
        self._until = to_micros(now + request.lease_for)
        self._choice = _encode_names(request.kinds), _encode_names(request.labels)

    def count_running(self, request: LeaseRequest) -> Counter[Partition]:  # noqa: ARG002 - all are counted
        return Counter(self._connection.execute(QUERIES.find_leased))

    def take_jobs(self, request: LeaseRequest, chosen: Sequence[Candidate]) -> list[Job]:  # noqa: ARG002 - as in __init__
        return self.take([each.job_id for each in chosen])

    def choose(self, limit: int) -> list[JobId]:
        """The next jobs, tenants in turn."""
        queues: dict[str, list[str]] = {}
        for tenant, queue in self.find_partitions(self._request, limit):
            queues.setdefault(tenant, []).append(queue)
        counts: Counter[str] = Counter()

        def take(tenant: str, count: int) -> list[JobId]:
            skipped = counts[tenant]
            counts[tenant] += count
            return self._first_of_tenant(tenant, queues[tenant], skipped + count)[skipped:]

        return take_turns(queues, limit, take)

    def accepts_all(self, chosen: Sequence[JobId]) -> bool:
        """Whether the caller can run all of these jobs. Mostly so: others need a second look."""
        if not self._request.is_selective:
            return True
        values = (None, None, None, encode_ids(chosen), *self._choice)
        return self._connection.execute(QUERIES.find_unfit, values).fetchone() is None

    def take(self, chosen: Sequence[JobId]) -> list[Job]:
        """Lease these due jobs, in their order. Unreadable ones are set aside and left out."""
        values = (encode_ids(chosen), self._now, self._request.worker, self._until)
        rows = {row[0]: row for row in self._connection.execute(QUERIES.lease_jobs, values)}
        leased: list[Job] = []
        for job_id in chosen:
            try:
                leased.append(decode_job(rows[job_id]))
            except DamagedJobError as damage:
                # Otherwise every lease would meet it again, and hold up the jobs behind it.
                logger.warning("%s; it is set aside", damage)
                self._connection.execute(QUERIES.set_aside, (job_id, damage.reason))
        return leased

    def find_partitions(
        self, request: LeaseRequest, limit: int, full: Collection[CapScope] = ()
    ) -> list[Partition]:
        plan = find_partitions(request, limit, full, self._now)
        return finish(run_async(plan, answer_by(Steps(Session(self._connection)))))

    def _first_of_tenant(self, tenant: str, queues: Iterable[str], count: int) -> list[JobId]:
        found: list[Row] = []
        for queue in queues:
            values = (tenant, queue, self._now, count)
            found += self._connection.execute(QUERIES.find_due, values)
        return [job_id for _, _, job_id in sorted(found)[:count]]

    def find_first(
        self,
        request: LeaseRequest,  # noqa: ARG002 - as in __init__
        partitions: Sequence[Partition],
        job_count: int,
        passed_over: Sequence[JobId],  # noqa: ARG002 - no other caller takes jobs meanwhile
    ) -> list[Standing]:
        return decode_standings(
            (job_id, tenant, queue, -priority, created_at)
            for tenant, queue in partitions
            for priority, created_at, job_id in self._read_first(tenant, queue, job_count)
        )

    def _read_first(self, tenant: str, queue: str, count: int) -> Iterator[Row]:
        values: Row = (tenant, queue, self._now, count)
        plain, of_priority = QUERIES.find_due, QUERIES.find_due_of_priority
        if self._request.is_selective:
            values = (*values, *self._choice, LOOK_AHEAD)
            plain, of_priority = QUERIES.find_accepted, QUERIES.find_accepted_of_priority
        if queue not in (self._request.ageing or ()):
            yield from self._connection.execute(plain, values)
            return
        for priority in range(1, HIGHEST_PRIORITY + 1):
            yield from self._connection.execute(of_priority, (*values, priority))


def _encode_names(names: Collection[str] | None) -> str | None:
    return None if names is None else encode_ids(names)


def extend_leases(
    connection: apsw.Connection, held: Sequence[HeldLease], until: datetime
) -> list[bool]:
    """See ``JobStore.extend``."""
    until_micros = to_micros(until)
    answers: list[bool] = []

    def encode_each() -> Iterator[Row]:
        for job_id, token in held:
            yield job_id, token, until_micros
            answers.append(connection.changes() == 1)

    connection.executemany(QUERIES.extend_lease, encode_each())
    return answers


class Keeper:
    """See ``LeaseKeeper``; the thread that uses it opens its connection."""

    def __init__(self, settings: SqliteSettings) -> None:
        self._settings = settings
        self._connection: apsw.Connection | None = None

    def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        """See ``LeaseKeeper.extend``."""
        until = to_utc(until, "until")
        to_utc(now, "now")
        with translated(self._settings.path):
            if self._connection is None:
                self._connection = open_beside(self._settings)
            with transaction(self._connection):
                return extend_leases(self._connection, held, until)

    def close(self) -> None:
        """See ``LeaseKeeper.close``."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
