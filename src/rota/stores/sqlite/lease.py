"""``lease`` and ``extend``.

A lease first marks the READY jobs that have become due. They form a partition for each queue of
each tenant, and a lease looks only at them: jobs that have ended, are due later or wait for others
cost nothing.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

import apsw

from rota.errors import DamagedJobError
from rota.jobs import Job, JobId
from rota.jobs.record import HIGHEST_PRIORITY
from rota.stores.kernel.limits import (
    CountRunning,
    FindFirst,
    FindPartitions,
    Standing,
    TakeJobs,
    lease_chosen,
    lease_limited,
    preview_lease,
    scopes_of,
)
from rota.stores.kernel.turns import order_turns, take_turns
from rota.stores.kernel.unit import Partition, run
from rota.stores.protocol import LOOK_AHEAD, HeldLease, LeasePreview, LeaseRequest
from rota.stores.rows import (
    EPOCH,
    Row,
    decode_job,
    encode_ids,
    logger,
    to_instant,
    to_micros,
)
from rota.stores.sqlite.connection import SqliteSettings, open_beside, transaction
from rota.stores.sqlite.queries import QUERIES
from rota.stores.sqlite.translation import translated
from rota.triggers.zone import to_utc

MOST_MARKED_DUE = 10_000
"""How many jobs one lease marks as due, the longest due first.

If more become due between two leases, the order holds among the marked ones, and the next lease
marks the others. It keeps the transaction short for those that wait for it.
"""

_AFTER_ALL_QUEUES = b""


def lease_jobs(connection: apsw.Connection, request: LeaseRequest, now: datetime) -> list[Job]:
    """See ``JobStore.lease``."""
    connection.execute(QUERIES.mark_due, (to_micros(now), MOST_MARKED_DUE))
    lease = _Lease(connection, request, now)
    if request.is_limited:
        return run(lease_limited(request, now), lease.answer)
    taken: list[Job] = []
    while len(taken) < request.limit:
        chosen = lease.choose(request.limit - len(taken))
        if not lease.accepts_all(chosen):
            break
        leased = lease.take(chosen)
        taken += leased
        if len(leased) == len(chosen):
            return taken
    return taken or run(lease_chosen(request, now), lease.answer)


def preview_jobs(connection: apsw.Connection, request: LeaseRequest, now: datetime) -> LeasePreview:
    """See ``OpenStore.preview_lease``."""
    connection.execute(QUERIES.mark_due, (to_micros(now), MOST_MARKED_DUE))
    return run(preview_lease(request), _Lease(connection, request, now).answer)


class _Lease:
    """One call of ``lease``, in its transaction."""

    def __init__(self, connection: apsw.Connection, request: LeaseRequest, now: datetime) -> None:
        self._connection = connection
        self._request = request
        self._now = to_micros(now)
        self._until = to_micros(now + request.lease_for)
        self._choice = tuple(
            None if names is None else encode_ids(names)
            for names in (request.kinds, request.labels)
        )
        self._answers: dict[type, Callable[[Any], Any]] = {
            CountRunning: lambda _: Counter(connection.execute(QUERIES.find_leased)),
            FindPartitions: self._find_partitions,
            FindFirst: self._find_first,
            TakeJobs: lambda query: self.take([each.job_id for each in query.chosen]),
        }

    def answer(self, query: Any) -> Any:
        """The answer to a query of ``lease_limited``."""
        return self._answers[type(query)](query)

    def choose(self, limit: int) -> list[JobId]:
        """The next jobs, tenants in turn."""
        queues: dict[str, list[str]] = {}
        for tenant, queue in self._due_partitions(limit):
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

    def _due_partitions(
        self, tenant_limit: int, full: Collection[tuple[str | None, str | None]] = ()
    ) -> list[Partition]:
        """Partitions with a due job, outside the full scopes, of the next tenants in turn."""
        request = self._request
        scopes = set(full)
        found: list[Partition] = []
        tenants: set[str] = set()
        partitions = find_partitions(
            self._connection, request.queues, request.tenants, request.after_tenant
        )
        for each in partitions:
            if each.tenant not in tenants and len(tenants) == tenant_limit:
                break
            has_room = not scopes or scopes.isdisjoint(scopes_of(each.tenant, each.queue))
            if has_room and is_partition_due(self._connection, each, self._now):
                found.append((each.tenant, each.queue))
                tenants.add(each.tenant)
        return found

    def _first_of_tenant(self, tenant: str, queues: Iterable[str], count: int) -> list[JobId]:
        found: list[Row] = []
        for queue in queues:
            values = (tenant, queue, self._now, count)
            found += self._connection.execute(QUERIES.find_due, values)
        return [job_id for _, _, job_id in sorted(found)[:count]]

    def _find_partitions(self, query: FindPartitions) -> list[Partition]:
        return self._due_partitions(query.limit, query.full)

    def _find_first(self, query: FindFirst) -> list[Standing]:
        found: list[Standing] = []
        created = EPOCH
        for tenant, queue in query.partitions:
            for priority, created_at, job_id in self._read_first(tenant, queue, query.job_count):
                with suppress(OverflowError):  # a damaged instant is found when the job is taken
                    created = to_instant(created_at)
                found.append(Standing(job_id, tenant, queue, -priority, created))
        return found

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


class DuePartition(NamedTuple):
    """A queue of a tenant with jobs marked as due, and when the first of them is due."""

    tenant: str
    queue: str
    due_at: int


def find_partitions(
    connection: apsw.Connection,
    queues: Collection[str] | None,
    tenants: Collection[str] | None,
    after: str = "",
) -> Iterator[DuePartition]:
    """The chosen partitions by tenant and queue, starting after a tenant.

    It steps from one to the next, however many jobs each has.
    """
    chosen = None if queues is None else sorted(set(queues))
    if tenants is not None:
        for tenant in order_turns(set(tenants), after):
            yield from _step(connection, (tenant, ""), chosen, tenant)
        return
    if after:
        yield from _step(connection, (after, _AFTER_ALL_QUEUES), chosen, None)
    yield from _step(connection, ("", ""), chosen, after or None)


def is_partition_due(connection: apsw.Connection, partition: DuePartition, now: int) -> bool:
    """Whether one of its jobs is due: the first, unless the clock was set back."""
    if partition.due_at <= now:
        return True
    values = (partition.tenant, partition.queue, now)
    return connection.execute(QUERIES.is_partition_due, values).fetchone() is not None


def _step(
    connection: apsw.Connection,
    place: tuple[str, str | bytes],
    chosen: Sequence[str] | None,
    last_tenant: str | None,
) -> Iterator[DuePartition]:
    while (found := connection.execute(QUERIES.next_partition, place).fetchone()) is not None:
        partition = DuePartition._make(found)
        if last_tenant is not None and partition.tenant > last_tenant:
            return
        place = partition.tenant, f"{partition.queue}\0"  # the text that follows directly
        if chosen is not None:
            index = bisect_left(chosen, partition.queue)
            if index == len(chosen) or chosen[index] != partition.queue:
                place = (
                    partition.tenant,
                    chosen[index] if index < len(chosen) else _AFTER_ALL_QUEUES,
                )
                continue
        yield partition


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
