"""The connection behind a transaction of the caller: what ``within=`` accepts.

Besides the connections that stores know (asyncpg, psycopg 3, asyncmy, apsw), these are SQLAlchemy's
sessions and connections, sync and async, and Django's connections. Neither needs to be installed: a
caller that has one of these objects has loaded its package.
"""

import sys
from typing import Any

BEGIN = "SELECT 1"
"""SQLAlchemy begins a transaction with its first statement."""

_SCOPED = {"sqlalchemy.orm": "scoped_session", "sqlalchemy.ext.asyncio": "async_scoped_session"}


def take_own(within: Any) -> Any:
    """What belongs to the caller's thread, taken there: the store may run in another.

    These are Django's connections and SQLAlchemy's scoped sessions.
    """
    if within is None:
        return None
    if type(within).__module__.partition(".")[0] == "django":
        within.ensure_connection()
        return within.connection
    for module, name in _SCOPED.items():
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and isinstance(within, kind):
            return within()
    return within


async def find_connection(within: Any) -> Any:
    """The driver's connection of the transaction; other objects are returned as they are."""
    if within is not None and "sqlalchemy" in sys.modules:
        return await _find_in_sqlalchemy(within)
    return within


async def _find_in_sqlalchemy(within: Any) -> Any:
    asyncio_part: Any = sys.modules.get("sqlalchemy.ext.asyncio")
    if asyncio_part is not None:
        if isinstance(within, asyncio_part.AsyncSession):
            within = await within.connection()
        if isinstance(within, asyncio_part.AsyncConnection):
            await within.exec_driver_sql(BEGIN)
            raw = await within.get_raw_connection()
            return raw.driver_connection
    return _find_in_sync_sqlalchemy(within)


def _find_in_sync_sqlalchemy(within: Any) -> Any:
    orm: Any = sys.modules.get("sqlalchemy.orm")
    if orm is not None and isinstance(within, orm.Session):
        within = within.connection()
    if isinstance(within, sys.modules["sqlalchemy"].Connection):
        within.exec_driver_sql(BEGIN)
        return within.connection.driver_connection
    return within
