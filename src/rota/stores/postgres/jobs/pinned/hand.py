"""A hand that goes along the line: each lease begins where the last one ended.

What was leased leaves an entry in the index behind. Usually the next one that comes by clears it
away. While the horizon is pinned nobody can, and whoever begins at the front walks past everything
that was leased since: each lease takes longer than the last, without end. The hand walks past it
once. What joins the line behind the hand, as a job does that is tried again, and what joins it in a
place that is not known yet, waits until the hand goes back to the front and finds the beginning of
every place: once a second at most, and so seldom that it costs a tenth of the time.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import accumulate
from typing import NamedTuple

from rota.jobs import Job, JobId
from rota.stores.kernel.turns import order_turns
from rota.stores.postgres.jobs.connections.statements import Statements
from rota.stores.postgres.jobs.leasing import set_aside
from rota.stores.postgres.jobs.pinned.horizon import Horizon, loop_time
from rota.stores.postgres.jobs.pinned.queries import QUERIES
from rota.stores.postgres.jobs.rows import LeaseTerms, Row, in_calendar
from rota.stores.postgres.translation import DRIVER_ERRORS
from rota.stores.protocol import LeaseRequest

FRONT_AGAIN_AFTER = 1.0
"""Seconds: so long the hand goes on at least before it goes back to the front."""

TIMES_ITS_COST = 10
"""And so many times as long as the dearest lease took since it was there."""

LONGEST_AWAY = 60.0
"""But no longer: what is behind the hand waits, and a lease may take long for other reasons."""

MOST_PLACES = 1_000
"""With more places than that the hand remembers none, and begins at the front."""

MOST_SCOPES = 1_000
"""So many hands there are, of those who want different queues or tenants; the oldest has to go."""

Scope = tuple[frozenset[str] | None, frozenset[str] | None]
FromFront = Callable[[], Awaitable[list[Job]]]


class _Place(NamedTuple):
    """A part of the line in which jobs stand in the order in which they were made."""

    queue: str
    tenant: str
    priority: int


class _Hand:
    """Where to go on in each place, and when to begin at the front again.

    ``is_lost``: there are more places than it can remember.
    """

    def __init__(self) -> None:
        self.front_at = 0.0
        self.is_lost = False
        self.reached: dict[_Place, tuple[datetime, JobId]] = {}
        self._left_at = 0.0
        self._dearest = 0.0

    def leave_front(self, now: float) -> None:
        """From now on it is away from the front."""
        self._left_at, self._dearest = now, 0.0
        self.note_cost(0.0)

    def note_cost(self, cost: float) -> None:
        """A lease took so long: the hand is back at the front the later."""
        self._dearest = max(self._dearest, cost)
        away_for = max(FRONT_AGAIN_AFTER, TIMES_ITS_COST * self._dearest)
        self.front_at = self._left_at + min(away_for, LONGEST_AWAY)

    def move(self, jobs: Sequence[Job]) -> None:
        """These were leased."""
        if not self.is_lost:
            for job in jobs:
                place = _Place(job.queue, job.tenant, job.priority)
                self.reached[place] = (job.created_at, job.id)
            self._forget(len(self.reached))

    def put(self, beginnings: Sequence[Row]) -> None:
        """In every place there is it goes on from the first job that is due, wherever it was."""
        if len(self.reached) + len(beginnings) > MOST_PLACES:
            self.reached.clear()  # many of them may be empty by now
        for queue, tenant, priority, created_at, job_id in beginnings:
            self.reached[_Place(queue, tenant, priority)] = (created_at, job_id)
        self._forget(len(self.reached))

    def _forget(self, place_count: int) -> None:
        self.is_lost = place_count > MOST_PLACES
        if self.is_lost:
            self.reached.clear()


class Hands:
    """Leases from the front while that costs little, and by hand while the horizon is pinned."""

    def __init__(
        self, horizon: Horizon | None = None, time: Callable[[], float] = loop_time
    ) -> None:
        self._horizon = horizon or Horizon()
        self._time = time
        self._hands: dict[Scope, _Hand] = {}

    async def lease(
        self, statements: Statements, request: LeaseRequest, now: datetime, from_front: FromFront
    ) -> list[Job]:
        """Hand out due jobs. ``from_front`` does it as it is done when nothing is in the way."""
        if not await self._horizon.is_pinned(statements):
            self._hands.clear()
            return await from_front()
        hand = self._find_hand(_scope_of(request.queues, request.tenants))
        begun_at = self._time()
        is_away = begun_at < hand.front_at
        if is_away and hand.is_lost:
            return await from_front()
        if is_away and hand.reached:
            jobs = await _lease_onward(statements, request, now, hand)
            hand.note_cost(self._time() - begun_at)
            return jobs
        hand.leave_front(begun_at)  # others who ask meanwhile go on by hand
        try:
            jobs = await from_front()
            hand.move(jobs)
            await _find_beginnings(statements, request, now, hand)
        finally:
            cost = self._time() - begun_at
            hand.leave_front(begun_at + cost)
            hand.note_cost(cost)
        return jobs

    def _find_hand(self, scope: Scope) -> _Hand:
        if scope not in self._hands and len(self._hands) >= MOST_SCOPES:
            del self._hands[next(iter(self._hands))]
        return self._hands.setdefault(scope, _Hand())

    async def next_due_at(
        self,
        statements: Statements,
        now: datetime,
        queues: Collection[str] | None,
        tenants: Collection[str] | None,
    ) -> datetime | None:
        """When it makes sense to ask again, if a hand is on its way; None if none is.

        It has met all that is due ahead of it. What is behind it is found when it is back at the
        front, and what is due later when its time has come.
        """
        hand = self._hands.get(_scope_of(queues, tenants))
        left = 0.0 if hand is None or not hand.reached else hand.front_at - self._time()
        if left <= 0:
            return None
        front_at = now + timedelta(seconds=left)
        rows = await statements.fetch(QUERIES.next_due_onward, now)
        return min([front_at, *(in_calendar(row[0]) for row in rows)])


async def _find_beginnings(
    statements: Statements, request: LeaseRequest, now: datetime, hand: _Hand
) -> None:
    """Have the hand know every place. If that fails, what has just been leased is leased still."""
    chosen = (None if it is None else list(it) for it in (request.queues, request.tenants))
    with suppress(*DRIVER_ERRORS):
        hand.put(await statements.fetch(QUERIES.find_places, now, *chosen, MOST_PLACES + 1))


async def _lease_onward(
    statements: Statements, request: LeaseRequest, now: datetime, hand: _Hand
) -> list[Job]:
    """What is ahead of the hand; tenants take turns, and have what others leave over.

    Every round is a transaction by itself: if one fails, those before it have leased all the same.
    """
    terms = LeaseTerms(request.worker, now, now + request.lease_for)
    tenants = order_turns({place.tenant for place in hand.reached}, request.after_tenant)
    taken: list[Job] = []
    try:
        while tenants and (left := request.limit - len(taken)):
            part = max(1, left // len(tenants))
            rows = await _ask(statements, request, now, hand, (tenants, part, left))
            jobs, damaged = terms.decode(rows)
            hand.move(jobs)
            taken += jobs
            await set_aside(statements, damaged)
            got = Counter(row[1] for row in rows)
            tenants = [tenant for tenant in tenants if got[tenant] >= part]
    except DRIVER_ERRORS:
        if not taken:
            raise
    return taken


async def _ask(
    statements: Statements,
    request: LeaseRequest,
    now: datetime,
    hand: _Hand,
    wanted: tuple[list[str], int, int],
) -> Sequence[Row]:
    tenants, part, left = wanted
    number = {tenant: index for index, tenant in enumerate(tenants)}
    places = sorted(
        (place for place in hand.reached if place.tenant in number),
        key=lambda place: (number[place.tenant], -place.priority, hand.reached[place]),
    )
    counts = Counter(place.tenant for place in places)
    lasts = list(accumulate(counts[tenant] for tenant in tenants))
    return await statements.fetch(
        QUERIES.lease_onward,
        now,
        tenants,
        [last - counts[tenant] + 1 for tenant, last in zip(tenants, lasts, strict=True)],
        lasts,
        [place.queue for place in places],
        [place.priority for place in places],
        [hand.reached[place][0] for place in places],
        [hand.reached[place][1] for place in places],
        part,
        left,
        now + request.lease_for,
        request.worker,
    )


def _scope_of(queues: Collection[str] | None, tenants: Collection[str] | None) -> Scope:
    return (
        None if queues is None else frozenset(queues),
        None if tenants is None else frozenset(tenants),
    )
