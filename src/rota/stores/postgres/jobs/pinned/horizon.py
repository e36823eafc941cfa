"""Whether the server can clear away what is gone, or something keeps its horizon where it is.

A transaction that lasts, in whatever program, a prepared one that was forgotten, a replica that
reads for long: as long as they might look at old versions of rows, none is cleared away.
"""

from asyncio import get_running_loop
from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

import asyncpg

from rota.stores.postgres.jobs.connections.statements import Statements
from rota.stores.postgres.jobs.pinned.queries import QUERIES

LOOKED_AT_EVERY = 5.0
"""Seconds. A horizon that has not moved in the meantime is pinned."""

FEWEST_BEHIND = 100
"""While fewer transactions have begun since, there cannot be much to clear away."""

LONG_FOR = timedelta(minutes=5)
MANY_BEHIND = 100_000
"""What has kept the horizon behind for so long, or where nobody says how long for so many
transactions, is somebody's to look at."""


def loop_time() -> float:
    """Seconds that no clock can be set back by."""
    return get_running_loop().time()


class Hold(NamedTuple):
    """What keeps the horizon furthest behind."""

    behind_count: int
    """How many transactions have begun since."""
    transaction: str
    holder: str
    """Who it is, for people."""
    lasting_for: timedelta | None
    """For how long; None when the server does not say."""


async def read_hold(statements: Statements) -> Hold | None:
    """What keeps the horizon behind; None when nothing does, or the server will not say."""
    try:
        rows = await statements.fetch(QUERIES.read_horizon)
    except asyncpg.PostgresError:  # then jobs are leased as ever
        return None
    for behind_count, transaction, holder, seconds in rows:
        lasting_for = None if seconds is None else timedelta(seconds=seconds)
        return Hold(behind_count, transaction, holder, lasting_for)
    return None


def describe_hold(hold: Hold | None) -> str | None:
    """Who has kept the horizon behind for so long that somebody should know; None if nobody has."""
    if hold is None or hold.behind_count < FEWEST_BEHIND:
        return None
    if hold.lasting_for is None:
        is_long, since = hold.behind_count >= MANY_BEHIND, ""
    else:
        is_long = hold.lasting_for >= LONG_FOR
        since = f" for {hold.lasting_for // timedelta(minutes=1)} minutes and"
    return f"{hold.holder},{since} for {hold.behind_count} transactions" if is_long else None


class Horizon:
    """Looks at the horizon now and then, while somebody asks."""

    def __init__(
        self,
        looked_at_every: float = LOOKED_AT_EVERY,
        fewest_behind: int = FEWEST_BEHIND,
        time: Callable[[], float] = loop_time,
    ) -> None:
        self._looked_at_every = looked_at_every
        self._fewest_behind = fewest_behind
        self._time = time
        self._looked_at: float | None = None
        self._last: str | None = None
        self._is_pinned = False

    async def is_pinned(self, statements: Statements) -> bool:
        """Whether the horizon stands still; as of the last look, which is some seconds ago."""
        now = self._time()
        if self._looked_at is None:  # whoever has just begun has left nothing behind
            self._looked_at = now
        elif now - self._looked_at >= self._looked_at_every:
            self._looked_at = now
            await self._look(statements)
        return self._is_pinned

    async def _look(self, statements: Statements) -> None:
        hold = await read_hold(statements)
        needed = None if hold is None else hold.transaction
        is_old = hold is not None and hold.behind_count >= self._fewest_behind
        self._is_pinned = is_old and needed == self._last
        self._last = needed
