"""Connections are reused, and closed when their state is unknown."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from rota.errors import StoreUnavailableError
from rota.stores.postgres.address import PostgresSettings
from rota.stores.postgres.connections import Database, Session
from rota.stores.postgres.schema import open_database


@pytest.fixture
async def database(postgres_settings: PostgresSettings) -> AsyncIterator[Database]:
    database = await open_database(postgres_settings)
    yield database
    await database.close()


async def name_of(session: Session) -> int:
    """Which process of the server has the connection."""
    ((process_id,),) = await session.fetch("SELECT pg_backend_pid()")
    return int(process_id)


async def test_calls_after_each_other_share_a_connection(database: Database) -> None:
    assert len({await database.run(name_of) for _ in range(5)}) == 1


async def test_calls_at_the_same_time_have_connections_of_their_own(
    database: Database, postgres_settings: PostgresSettings
) -> None:
    async def meet(session: Session) -> int:
        async with asyncio.timeout(10):
            await meeting.wait()
        return await name_of(session)

    meeting = asyncio.Barrier(postgres_settings.connection_count)
    calls = (database.run(meet) for _ in range(2 * postgres_settings.connection_count))
    assert len(set(await asyncio.gather(*calls))) == postgres_settings.connection_count


async def test_a_connection_whose_transaction_did_not_end_is_not_used_again(
    database: Database,
) -> None:
    async def leave_open(session: Session) -> int:
        await session.run_script("BEGIN")
        return await name_of(session)

    assert await database.run(leave_open) != await database.run(name_of)


async def test_a_connection_that_was_cut_is_made_anew(database: Database) -> None:
    async def cut(session: Session) -> None:
        await session.fetch("SELECT pg_terminate_backend(pg_backend_pid())")

    with pytest.raises(StoreUnavailableError):
        await database.run(cut)
    assert await database.run(name_of)


async def test_a_call_that_is_broken_off_with_its_loop_leaves_no_connection(
    database: Database,
) -> None:
    async def sleep(session: Session) -> None:
        begun.set()
        await session.fetch("SELECT pg_sleep(20)")

    begun = asyncio.Event()
    waiting = asyncio.create_task(database.run(sleep))
    await begun.wait()
    for task in database.calls._running:
        task.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    assert database._idle == []


async def test_closing_lets_every_connection_go(database: Database) -> None:
    await database.run(name_of)
    (connection,) = database._idle
    await database.close()
    assert connection.is_closed()
    assert database._idle == []
