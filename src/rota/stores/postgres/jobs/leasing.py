"""``lease`` and what keeps leases: who gets which job, for how long, and whose time has run out."""

from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from rota.jobs import Job, normalize_job_id
from rota.stores.kernel.turns import order_turns
from rota.stores.postgres.jobs.connections.statements import Statements
from rota.stores.postgres.jobs.queries import QUERIES
from rota.stores.postgres.jobs.rows import Damage, LeaseTerms, Row, decode_jobs, in_calendar
from rota.stores.postgres.translation import DRIVER_ERRORS
from rota.stores.protocol import HeldLease, LeaseRequest

PROMOTED_AT_ONCE = 10_000
"""So many jobs whose time has come are put into the line by one lease, the longest due first.

Only when more than that have become due since the last lease is their order not that of all."""

LEFT_OUT = 100
"""So many leases take it for granted that there are several lanes, after one that met them."""

JOBS_TO_PROMOTE, SEVERAL_LANES = range(2)
"""Why ``lease_only_lane`` may lease nothing."""

_LAST_QUEUE = chr(0x10FFFF)
"""No queue is called anything that comes after it."""

MOST_STEPS = 5
"""So often further tenants are asked in the place of those of whom others have taken all."""

LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
AT_LAST = datetime(9999, 1, 1, tzinfo=UTC)
NOBODYS_REQUEST = LeaseRequest(
    worker="nobody", limit=1, lease_for=timedelta(seconds=1), queues=("",)
)
"""Of a connection that gets to know the statement: nothing is wanted, and no queue is called so."""


class OnlyLane:
    """Leases at less cost where all that is in line is of one queue and tenant, as it often is."""

    def __init__(self) -> None:
        self._left_out_count = 0

    async def take(
        self, statements: Statements, request: LeaseRequest, now: datetime
    ) -> Sequence[Row] | None:
        """The rows of what was leased; None if the line is not like that, or was not lately."""
        if self._left_out_count:
            self._left_out_count -= 1
            return None
        if request.tenants is not None or (request.queues is not None and len(request.queues) != 1):
            return None
        rows = await take_only_lane(statements, request, request.limit, now)
        if _says(rows, JOBS_TO_PROMOTE):
            await promote(statements, now)
            rows = await take_only_lane(
                statements, request, request.limit, now, looks_for_late=False
            )
        if _says(rows, SEVERAL_LANES):
            self._left_out_count = LEFT_OUT
            return None
        return rows


async def take_only_lane(
    statements: Statements,
    request: LeaseRequest,
    limit: int,
    now: datetime,
    *,
    looks_for_late: bool = True,
) -> Sequence[Row]:
    """Up to so many rows, or one without an id that says why there are none."""
    first, last = ("", _LAST_QUEUE) if request.queues is None else (*request.queues,) * 2
    values = (now, first, last, limit, now + request.lease_for, request.worker, looks_for_late)
    return await statements.fetch(QUERIES.lease_only_lane, *values)


def _says(rows: Sequence[Row], reason: int) -> bool:
    """Whether nothing was leased, for that reason."""
    return bool(rows) and rows[0][0] is None and rows[0][-1] == reason


class _Round(NamedTuple):
    """One round of the turns: how many are wanted, of whom, and who comes first."""

    length: int
    tenants: Sequence[str] | None
    after_tenant: str
    is_first: bool = False
    is_hindered: bool = False
    """Others were quicker: rather any jobs than those that come next."""
    step_count: int = 0
    """How often others had taken all of the tenants that were asked."""


class _Catch(NamedTuple):
    """What a round gave."""

    rows: list[Row]
    hindered: set[str]
    """The tenants of whom others were quicker to take what came next."""
    last_asked: str | None
    """Where to go on when nobody was asked after this tenant."""


async def lease(
    statements: Statements, request: LeaseRequest, now: datetime, only_lane: OnlyLane
) -> list[Job]:
    """Hand out jobs. Almost always one statement: a transaction by itself.

    Only when some tenants leave over what others could use, or somebody else was quicker, further
    rounds follow. What they fail to get is no reason to keep back what the first one got.
    """
    terms = LeaseTerms(request.worker, now, now + request.lease_for)
    jobs: list[Job] = []
    damaged: list[Damage] = []
    try:
        async for rows in _rounds(statements, request, now, only_lane):
            more, more_damaged = terms.decode(rows)
            jobs += more
            damaged += more_damaged
        await set_aside(statements, damaged)
    except DRIVER_ERRORS:
        if not jobs:
            raise
    return jobs


async def _rounds(
    statements: Statements, request: LeaseRequest, now: datetime, only_lane: OnlyLane
) -> AsyncIterator[Sequence[Row]]:
    """What each round gives. Where there is one lane only, nobody has to take turns."""
    rows = await only_lane.take(statements, request, now)
    if rows is not None:
        yield rows
        return
    tenants = None if request.tenants is None else list(request.tenants)
    turn: _Round | None = _Round(request.limit, tenants, request.after_tenant, is_first=True)
    while turn is not None:
        caught = await _take(statements, request, turn, now)
        turn = _next_round(turn, caught)
        yield caught.rows


async def get_to_know(statements: Statements) -> None:
    """Ask what workers ask most, in a way that concerns no job, however many wait in line.

    A line of which nothing is due yet would be walked to its end.
    """
    await take_only_lane(statements, NOBODYS_REQUEST, 0, LONG_AGO)
    nothing = _Round(length=0, tenants=None, after_tenant="")
    await _take(statements, NOBODYS_REQUEST, nothing, LONG_AGO)
    await statements.fetch(QUERIES.complete_jobs, [], [], [], [], [], LONG_AGO)
    await statements.fetch(QUERIES.next_due, AT_LAST)


async def _take(
    statements: Statements, request: LeaseRequest, turn: _Round, now: datetime
) -> _Catch:
    """The rows of one round, after what is late has been put into the line."""

    async def ask(*, looks_for_late: bool) -> list[Row]:
        return await statements.fetch(
            QUERIES.lease,
            now,
            None if request.queues is None else list(request.queues),
            turn.tenants,
            turn.after_tenant,
            turn.length,
            now + request.lease_for,
            request.worker,
            looks_for_late,
            turn.is_hindered,
        )

    rows = await ask(looks_for_late=turn.is_first)
    if rows and rows[-1][0] is None and rows[-1][1] is None:
        await promote(statements, now)
        rows = await ask(looks_for_late=False)
    hindered: set[str] = set()
    last_asked: str | None = None
    while rows and rows[-1][0] is None:
        _, tenant, *_, is_last = rows.pop()
        if is_last:
            last_asked = tenant
        else:
            hindered.add(tenant)
    return _Catch(rows, hindered, last_asked)


def _next_round(turn: _Round, caught: _Catch) -> _Round | None:
    """For those that may have more than their part, which ``turns`` gives to each."""
    rows, hindered, last_asked = caught
    left = turn.length - len(rows)
    part = rows[-1][-1] if rows else 0
    taken = Counter(row[1] for row in rows)
    unsated = hindered | {tenant for tenant, got in taken.items() if got >= part}
    if left and last_asked is not None and turn.step_count < MOST_STEPS:
        stepped = turn._replace(length=left, after_tenant=last_asked, is_first=False)
        return stepped._replace(step_count=turn.step_count + 1)
    if not left or not unsated:
        return None
    tenants = order_turns(unsated, turn.after_tenant)
    return _Round(left, tenants, turn.after_tenant, is_hindered=bool(hindered))


async def promote(statements: Statements, now: datetime) -> None:
    """Put jobs whose time has come into the line."""
    await statements.fetch(QUERIES.promote, now, PROMOTED_AT_ONCE)


async def set_aside(statements: Statements, damaged: Sequence[Damage]) -> None:
    """Let nobody meet these again; their bytes stay as they are."""
    if damaged:
        ordered = sorted(damaged)
        await statements.fetch(
            QUERIES.set_aside, [one.job_id for one in ordered], [one.reason for one in ordered]
        )


async def extend(statements: Statements, held: Sequence[HeldLease], until: datetime) -> list[bool]:
    """Let leases last longer; False for each that is lost."""
    known = sorted(lease for lease in set(held) if normalize_job_id(lease.job_id) == lease.job_id)
    if not known:
        return [False] * len(held)
    rows = await statements.fetch(
        QUERIES.extend,
        [lease.job_id for lease in known],
        [lease.token for lease in known],
        until,
    )
    kept = {(row[0], row[1]) for row in rows}
    return [lease in kept for lease in held]


async def find_expired(
    statements: Statements, now: datetime, limit: int, after: tuple[datetime, str] | None
) -> list[Job]:
    """Jobs whose lease has run out. Those that cannot be read are set aside, and others found."""
    last_until, last_id = after or (None, None)
    while True:
        rows = await statements.fetch(QUERIES.find_expired, now, last_until, last_id, limit)
        reading = decode_jobs(rows)
        await set_aside(statements, reading.damaged)
        if not reading.damaged:
            return list(reading.jobs.values())


async def next_due_at(
    statements: Statements,
    now: datetime,
    queues: Collection[str] | None,
    tenants: Collection[str] | None,
) -> datetime | None:
    """The first instant, from now on, at which a READY job is due."""
    if queues is None and tenants is None:
        rows = await statements.fetch(QUERIES.next_due, now)
    else:
        chosen = (None if names is None else list(names) for names in (queues, tenants))
        rows = await statements.fetch(QUERIES.next_due_in, now, *chosen)
    due_at: datetime | None = rows[0][0]
    return None if due_at is None else max(in_calendar(due_at), now)
