"""A keyset cursor for leases, where those from the beginning read past many dead entries.

A leased job leaves a dead entry in the index of the ready set. The next lease marks it as dead, but
its page stays until a vacuum cleans the index, which is seldom in a table of millions of jobs; and
while another transaction pins the server's horizon, it may not even be marked. A lease from the
beginning reads past all of them: each lease takes longer than the last. With the cursor a lease
continues where the last one ended. Jobs that join the ready set before the cursor, such as retries,
or with a new priority or tenant, wait until a lease starts at the beginning again: after a second
at least, and so seldom that it costs a tenth of the time. Decision 0021 says why.
"""

from asyncio import get_running_loop
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias

import asyncpg
from msgspec.structs import replace

from rota.jobs import Job, JobId
from rota.stores.kernel.turns import order_turns
from rota.stores.postgres import lease
from rota.stores.postgres.connections import DRIVER_ERRORS, Statements
from rota.stores.postgres.lease import PRIORITIES, KeyRange, LeaseCall
from rota.stores.postgres.queries import QUERIES
from rota.stores.postgres.rows import in_calendar
from rota.stores.protocol import LeaseRequest

CHECKED_EVERY = 5.0
"""Seconds. A horizon that has not moved between two checks is pinned."""

FEWEST_BEHIND = 100
"""While fewer transactions have begun since, there is not much to clear away."""

LONG_FOR = timedelta(minutes=5)
MANY_BEHIND = 100_000
"""An operator should know what holds the horizon back for that long or, where the time is not
known, for that many transactions."""

RESTART_AFTER = 1.0
"""Seconds for which leases use the cursor, at least, before one starts at the beginning again."""

TIMES_ITS_COST = 10
"""And this many times as long as the slowest lease since."""

LONGEST_AWAY = 60.0
"""But no longer: jobs before the cursor wait, and a lease may be slow for other reasons."""

MOST_PAGES = 150
"""Pages of the index that a lease from the beginning may read before the cursor is used: some ten
thousand dead entries."""

PAGES_OF_A_PARTITION = 20
"""And for each partition that it leases from: it searches the index for each of them."""

MOST_PLACES = 1_000
"""With more queues, tenants and priorities than that, every lease starts at the beginning."""

MOST_CURSORS = 1_000
"""Cursors for different choices of queues and tenants; the oldest goes first."""

TENANTS_AT_ONCE = 100

Place: TypeAlias = tuple[str, str, int]
"""A tenant, a queue and a priority: their jobs are leased in the order of their creation."""

Scope: TypeAlias = tuple[frozenset[str] | None, ...]
"""Queues and tenants, then kinds and labels; None for all."""


def loop_time() -> float:
    """Seconds of a clock that is never set back."""
    return get_running_loop().time()


class Hold(NamedTuple):
    """What holds the horizon furthest back, and for how many transactions.

    ``lasting_for`` is None if the server does not say.
    """

    behind_count: int
    transaction: str
    holder: str
    lasting_for: timedelta | None


async def read_hold(statements: Statements) -> Hold | None:
    """What holds the horizon back; None if nothing does, or the server does not say."""
    try:
        rows = await statements.fetch(QUERIES.read_horizon)
    except asyncpg.PostgresError:  # then leases start at the beginning
        return None
    for behind_count, transaction, holder, seconds in rows:
        lasting_for = None if seconds is None else timedelta(seconds=seconds)
        return Hold(behind_count, transaction, holder, lasting_for)
    return None


def describe_hold(hold: Hold | None) -> str | None:
    """Who holds the horizon back; None if it is too short to matter to an operator."""
    if hold is None or hold.behind_count < FEWEST_BEHIND:
        return None
    if hold.lasting_for is None:
        is_long, since = hold.behind_count >= MANY_BEHIND, ""
    else:
        is_long = hold.lasting_for >= LONG_FOR
        since = f" for {hold.lasting_for // timedelta(minutes=1)} minutes and"
    return f"{hold.holder},{since} for {hold.behind_count} transactions" if is_long else None


class Horizon:
    """Checks now and then whether the horizon is pinned."""

    def __init__(
        self,
        checked_every: float = CHECKED_EVERY,
        fewest_behind: int = FEWEST_BEHIND,
        time: Callable[[], float] = loop_time,
    ) -> None:
        self._checked_every = checked_every
        self._fewest_behind = fewest_behind
        self._time = time
        self._checked_at: float | None = None
        self._last: str | None = None
        self._is_pinned = False

    async def is_pinned(self, statements: Statements) -> bool:
        """Whether the horizon stood still at the last check, which may be some seconds ago."""
        now = self._time()
        if self._checked_at is None:  # a new store has left nothing behind
            self._checked_at = now
        elif now - self._checked_at >= self._checked_every:
            self._checked_at = now
            hold = await read_hold(statements)
            needed = None if hold is None else hold.transaction
            is_old = hold is not None and hold.behind_count >= self._fewest_behind
            self._is_pinned = is_old and needed == self._last
            self._last = needed
        return self._is_pinned


class FromStart:
    """Leases from the beginning of the ready set; counts now and then the pages that one reads.

    ``is_costly``: it reads past more dead entries than the cursor costs.
    """

    def __init__(
        self, checked_every: float = CHECKED_EVERY, time: Callable[[], float] = loop_time
    ) -> None:
        self.is_costly = False
        self._checked_every = checked_every
        self._time = time
        self._checked_at: float | None = None

    async def lease(self, call: LeaseCall) -> list[Job]:
        """Lease the first jobs; errors as in ``lease_from_start``."""
        now = self._time()
        if self._checked_at is None:  # a new store has left nothing behind
            self._checked_at = now
        pause = RESTART_AFTER if self.is_costly else self._checked_every
        if now - self._checked_at < pause:
            return await lease.lease_from_start(call)
        self._checked_at = now
        await _read_pages(call.statements)  # a count that is reported now does not end in between
        before = await _read_pages(call.statements)
        jobs = await lease.lease_from_start(call)
        with suppress(*DRIVER_ERRORS):  # the jobs are leased all the same
            self._judge(before, await _read_pages(call.statements), jobs)
        return jobs

    def _judge(self, before: "_Pages", after: "_Pages", jobs: Sequence[Job]) -> None:
        """Through a pooler each statement may run in another session: that says nothing."""
        if after.session == before.session and after.page_count > before.page_count:
            partitions = {(job.tenant, job.queue) for job in jobs}
            most = MOST_PAGES + PAGES_OF_A_PARTITION * len(partitions)
            self.is_costly = after.page_count - before.page_count > most


class _Pages(NamedTuple):
    """How many pages of the index of the ready set a session has read since its last report.

    It reports at the end of a statement, at most once a second.
    """

    session: int
    page_count: int


async def _read_pages(statements: Statements) -> _Pages:
    (row,) = await statements.fetch(QUERIES.count_pages)
    return _Pages(*row)


class Cursor:
    """Where to continue in each place, and when to start at the beginning again.

    ``is_full``: there are more places than it can remember.
    """

    def __init__(self) -> None:
        self.restart_at = 0.0
        self.is_full = False
        self.reached: dict[Place, tuple[datetime, JobId]] = {}
        self._left_at = 0.0
        self._slowest = 0.0

    def leave_start(self, now: float) -> None:
        """Leases continue by the cursor from now on."""
        self._left_at, self._slowest = now, 0.0
        self.note_cost(0.0)

    def note_cost(self, cost: float) -> None:
        """Record the seconds of a lease. After slow ones, the next start again is later."""
        self._slowest = max(self._slowest, cost)
        away_for = max(RESTART_AFTER, TIMES_ITS_COST * self._slowest)
        self.restart_at = self._left_at + min(away_for, LONGEST_AWAY)

    def move(self, jobs: Sequence[Job]) -> None:
        """These jobs were leased."""
        self._put({(job.tenant, job.queue, job.priority): (job.created_at, job.id) for job in jobs})

    async def learn(self, call: LeaseCall) -> None:
        """Continue in every place from its first due job, wherever the cursor was."""
        partitions = await call.find_partitions(
            replace(call.request, after_tenant=""), MOST_PLACES + 1
        )
        places = [KeyRange(*each, priority) for each in partitions for priority in PRIORITIES]
        found = await call.read_first(places, 1)
        if len(self.reached) + len(found) > MOST_PLACES:
            self.reached.clear()  # many of them may be empty by now
        self.is_full = False
        self._put(
            {(job.tenant, job.queue, job.priority): (job.created_at, job.job_id) for job in found}
        )

    async def lease(self, call: LeaseCall) -> list[Job]:
        """Lease jobs that come after the cursor; errors as in ``lease_from_start``."""
        ranges: dict[str, list[KeyRange]] = {}
        for (tenant, queue, priority), reached in self.reached.items():
            key_range = KeyRange(tenant, queue, priority, *reached)
            ranges.setdefault(tenant, []).append(key_range)
        tenants = order_turns(ranges, call.request.after_tenant)
        try:
            first = [each for tenant in tenants[:TENANTS_AT_ONCE] for each in ranges[tenant]]
            await call.take_after(first)
            for start in range(0, len(tenants) if call.left else 0, TENANTS_AT_ONCE):
                await call.take_in_turns(tenants[start : start + TENANTS_AT_ONCE], ranges)
        except DRIVER_ERRORS:
            if not call.taken:
                raise
        finally:
            self.move(call.taken)
        return call.taken

    def _put(self, places: dict[Place, tuple[datetime, JobId]]) -> None:
        if self.is_full:
            return
        self.reached |= places
        self.is_full = len(self.reached) > MOST_PLACES
        if self.is_full:
            self.reached.clear()


class Cursors:
    """Leases from the beginning of the ready set, or by a cursor for each scope.

    The cursor is used while the horizon is pinned, or a lease from the beginning is costly.
    """

    def __init__(
        self,
        horizon: Horizon | None = None,
        time: Callable[[], float] = loop_time,
        from_start: FromStart | None = None,
    ) -> None:
        self._horizon = horizon or Horizon()
        self._from_start = from_start or FromStart(time=time)
        self._time = time
        self._cursors: dict[Scope, Cursor] = {}

    async def lease(self, call: LeaseCall) -> list[Job]:
        """Lease the next jobs."""
        if not await self._horizon.is_pinned(call.statements) and not self._from_start.is_costly:
            self._cursors.clear()
            return await self._from_start.lease(call)
        cursor = self._find_cursor(call.request)
        started_at = self._time()
        is_away = started_at < cursor.restart_at
        if is_away and cursor.is_full:
            return await self._from_start.lease(call)
        if is_away and cursor.reached:
            jobs = await cursor.lease(call)
            cursor.note_cost(self._time() - started_at)
            return jobs
        cursor.leave_start(started_at)  # concurrent leases continue by the cursor
        try:
            jobs = await self._from_start.lease(call)
            cursor.move(jobs)
            with suppress(*DRIVER_ERRORS):  # the jobs are leased all the same
                await cursor.learn(call)
        finally:
            cost = self._time() - started_at
            cursor.leave_start(started_at + cost)
            cursor.note_cost(cost)
        return jobs

    async def next_due_at(
        self,
        statements: Statements,
        now: datetime,
        queues: Collection[str] | None,
        tenants: Collection[str] | None,
    ) -> datetime | None:
        """When to ask again while a cursor is in use; None if none is.

        It has met all due jobs that come after it. Those before it are found when a lease starts
        at the beginning.
        """
        asked = _scope_of(queues, tenants)
        cursor = next((it for scope, it in self._cursors.items() if scope[:2] == asked), None)
        left = 0.0 if cursor is None or not cursor.reached else cursor.restart_at - self._time()
        if left <= 0:
            return None
        rows = await statements.fetch(QUERIES.next_due_after, now)
        restart_at = now + timedelta(seconds=left)
        return min([restart_at, *(in_calendar(row[0]) for row in rows)])

    def _find_cursor(self, request: LeaseRequest) -> Cursor:
        scope = _scope_of(request.queues, request.tenants, request.kinds, request.labels)
        if scope not in self._cursors and len(self._cursors) >= MOST_CURSORS:
            del self._cursors[next(iter(self._cursors))]
        return self._cursors.setdefault(scope, Cursor())


def _scope_of(*chosen: Collection[str] | None) -> Scope:
    return tuple(None if names is None else frozenset(names) for names in chosen)
