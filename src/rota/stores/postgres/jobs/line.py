"""The line of jobs that are due: who comes into it, and leasing from it while it is simple."""

from collections.abc import Sequence
from datetime import datetime

from rota.stores.jobs.requests import LeaseRequest
from rota.stores.postgres.jobs.queries import QUERIES
from rota.stores.postgres.jobs.rows import Row
from rota.stores.postgres.jobs.statements import Statements

PROMOTED_AT_ONCE = 10_000
"""So many jobs whose time has come are put into the line by one lease, the longest due first.

Only when more than that have become due since the last lease is their order not that of all."""

LEFT_OUT = 100
"""So many leases take it for granted that there are several lanes, after one that met them."""

JOBS_TO_PROMOTE, SEVERAL_LANES = range(2)
"""Why ``lease_only_lane`` may lease nothing."""

_LAST_QUEUE = chr(0x10FFFF)
"""No queue is called anything that comes after it."""


async def promote(statements: Statements, now: datetime) -> None:
    """Put jobs whose time has come into the line."""
    await statements.fetch(QUERIES.promote, now, PROMOTED_AT_ONCE)


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
        if request.tenants is not None or (request.queues is not None and len(request.queues) > 1):
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
