"""What an operator should know about a pooler between the store and the server."""

from collections.abc import AsyncIterator
from dataclasses import replace

from asyncpg import Connection, Record

from rota.stores.postgres.address import Pooling, PostgresSettings, masked
from rota.stores.postgres.connections import DRIVER_ERRORS, translate
from rota.stores.postgres.dialling import connect, find_lacking, is_own_session
from rota.stores.postgres.wakeups import settings_to_listen

_POLLING = (
    "A pooler is between Rota and the server, so no process hears of jobs that another one adds: "
    "workers find them when they poll, by default within a second. Add the server's own address "
    "as listen= to wake them at once."
)


async def describe_pooler(
    connection: "Connection[Record]", settings: PostgresSettings
) -> list[str]:
    """Sentences about the pooler; none if the connection leads straight to the server."""
    is_pooled = settings.pooling is Pooling.TRANSACTION or not await is_own_session(connection)
    if settings.pooling is Pooling.NONE or not is_pooled:
        return []
    return [note async for note in _describe(connection, settings)]


async def _describe(
    connection: "Connection[Record]", settings: PostgresSettings
) -> AsyncIterator[str]:
    yield await _describe_wakeups(replace(settings, pooling=Pooling.TRANSACTION))
    lacking = await find_lacking(connection)
    if lacking:
        yield (
            f"The pooler's connections to the server lack {', '.join(lacking)}, so every statement "
            "takes a transaction of three messages. Make these settings for the store's user with "
            "ALTER ROLE, as the reference of stores shows, and it takes one."
        )


async def _describe_wakeups(settings: PostgresSettings) -> str:
    direct = settings_to_listen(settings)
    if direct is None:
        return _POLLING
    label = masked(direct.url)
    try:
        (await connect(direct)).terminate()
    except DRIVER_ERRORS as error:
        reason = translate(error, label).details["reason"]
        return (
            f"A pooler is between Rota and the server. Wake-ups should come from {label}, but "
            f"{reason}: until it can be reached, workers find new jobs when they poll."
        )
    return f"A pooler is between Rota and the server. Wake-ups come from {label}."
