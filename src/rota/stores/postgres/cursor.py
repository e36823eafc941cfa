"""A keyset cursor for leases, while another transaction pins the server's horizon.

A leased job leaves a dead entry in the index of the ready set. Usually the next lease clears it
away. While the horizon is pinned none can, and a lease that starts at the front walks past all jobs
that were leased since: each lease takes longer than the last. With the cursor a lease continues
where the last one ended. Jobs that join the ready set before the cursor, such as retries, or with a
new priority or tenant, wait until a lease starts at the front again: after a second at least, and
so seldom that it costs a tenth of the time. Decision 0021 says why.
"""

from asyncio import get_running_loop
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias

import asyncpg

from rota.jobs import Job, JobId
from rota.stores.kernel.turns import order_turns
from rota.stores.postgres import lease
from rota.stores.postgres.connections import DRIVER_ERRORS, Statements
from rota.stores.postgres.lease import PRIORITIES, LeaseCall, Stretch
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

FRONT_AGAIN_AFTER = 1.0
"""Seconds for which leases use the cursor, at least, before one starts at the front again."""

TIMES_ITS_COST = 10
"""And this many times as long as the slowest lease since."""

LONGEST_AWAY = 60.0
"""But no longer: jobs before the cursor wait, and a lease may be slow for other reasons."""

MOST_PLACES = 1_000
"""With more queues, tenants and priorities than that, every lease starts at the front."""

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
    except asyncpg.PostgresError:  # then leases start at the front
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


class Cursor:
    """Where to continue in each place, and when to start at the front again.

    ``is_full``: there are more places than it can remember.
    """

    def __init__(self) -> None:
        self.front_at = 0.0
        self.is_full = False
        self.reached: dict[Place, tuple[datetime, JobId]] = {}
        self._left_at = 0.0
        self._slowest = 0.0

    def leave_front(self, now: float) -> None:
        """Leases continue by the cursor from now on."""
        self._left_at, self._slowest = now, 0.0
        self.note_cost(0.0)

    def note_cost(self, cost: float) -> None:
        """Record the seconds of a lease. After slow ones, the next start at the front is later."""
        self._slowest = max(self._slowest, cost)
        away_for = max(FRONT_AGAIN_AFTER, TIMES_ITS_COST * self._slowest)
        self.front_at = self._left_at + min(away_for, LONGEST_AWAY)

    def move(self, jobs: Sequence[Job]) -> None:
        """These jobs were leased."""
        self._put({(job.tenant, job.queue, job.priority): (job.created_at, job.id) for job in jobs})

    async def learn(self, call: LeaseCall) -> None:
        """Continue in every place from its first due job, wherever the cursor was."""
        partitions = await call.find_partitions(MOST_PLACES + 1, "")
        places = [Stretch(*each, priority) for each in partitions for priority in PRIORITIES]
        found = await call.find_first(places, 1)
        if len(self.reached) + len(found) > MOST_PLACES:
            self.reached.clear()  # many of them may be empty by now
        self.is_full = False
        self._put(
            {(job.tenant, job.queue, job.priority): (job.created_at, job.job_id) for job in found}
        )

    async def lease(self, call: LeaseCall) -> list[Job]:
        """Lease jobs that come after the cursor; errors as in ``lease_from_front``."""
        stretches: dict[str, list[Stretch]] = {}
        for (tenant, queue, priority), reached in self.reached.items():
            stretch = Stretch(tenant, queue, priority, *reached)
            stretches.setdefault(tenant, []).append(stretch)
        tenants = order_turns(stretches, call.request.after_tenant)
        try:
            for start in range(0, len(tenants), TENANTS_AT_ONCE):
                await call.take_in_turns(tenants[start : start + TENANTS_AT_ONCE], stretches)
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
    """Leases from the front; while the horizon is pinned, by a cursor for each scope."""

    def __init__(
        self, horizon: Horizon | None = None, time: Callable[[], float] = loop_time
    ) -> None:
        self._horizon = horizon or Horizon()
        self._time = time
        self._cursors: dict[Scope, Cursor] = {}

    async def lease(self, call: LeaseCall) -> list[Job]:
        """Lease the next jobs."""
        if not await self._horizon.is_pinned(call.statements):
            self._cursors.clear()
            return await lease.lease_from_front(call)
        cursor = self._find_cursor(call.request)
        started_at = self._time()
        is_away = started_at < cursor.front_at
        if is_away and cursor.is_full:
            return await lease.lease_from_front(call)
        if is_away and cursor.reached:
            jobs = await cursor.lease(call)
            cursor.note_cost(self._time() - started_at)
            return jobs
        cursor.leave_front(started_at)  # concurrent leases continue by the cursor
        try:
            jobs = await lease.lease_from_front(call)
            cursor.move(jobs)
            with suppress(*DRIVER_ERRORS):  # the jobs are leased all the same
                await cursor.learn(call)
        finally:
            cost = self._time() - started_at
            cursor.leave_front(started_at + cost)
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
        at the front.
        """
        asked = _scope_of(queues, tenants)
        cursor = next((it for scope, it in self._cursors.items() if scope[:2] == asked), None)
        left = 0.0 if cursor is None or not cursor.reached else cursor.front_at - self._time()
        if left <= 0:
            return None
        rows = await statements.fetch(QUERIES.next_due_after, now)
        front_at = now + timedelta(seconds=left)
        return min([front_at, *(in_calendar(row[0]) for row in rows)])

    def _find_cursor(self, request: LeaseRequest) -> Cursor:
        scope = _scope_of(request.queues, request.tenants, request.kinds, request.labels)
        if scope not in self._cursors and len(self._cursors) >= MOST_CURSORS:
            del self._cursors[next(iter(self._cursors))]
        return self._cursors.setdefault(scope, Cursor())


def _scope_of(*chosen: Collection[str] | None) -> Scope:
    return tuple(None if names is None else frozenset(names) for names in chosen)
