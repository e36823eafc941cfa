"""``within=``: jobs that commit and roll back with a transaction of SQLAlchemy."""

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from rota import Rota
from rota.errors import AppUseError, UnsupportedConnectionError
from rota.session import Session as RotaSession

pytestmark = pytest.mark.process


@pytest.fixture
def app(database_url: str) -> Rota:
    app = Rota(database_url)
    app.task(name="confirm")(confirm)
    return app


async def confirm(order: int) -> None: ...


async def list_orders(app: Rota) -> list[int]:
    async def read(session: RotaSession) -> list[int]:
        page = await session.store.find("default", limit=100)
        return sorted(job.payload["order"] for job in page.items)

    return await app.sessions.run(read)


def with_driver(url: str, driver: str) -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://", 1)


@pytest.fixture
async def async_session(database_url: str) -> AsyncIterator[AsyncSession]:
    engine = create_async_engine(with_driver(database_url, "asyncpg"))
    async with AsyncSession(engine) as session:
        yield session
    await engine.dispose()


async def test_a_job_commits_with_an_async_session(app: Rota, async_session: AsyncSession) -> None:
    task = app.tasks["confirm"]
    async with app:
        await task.using(within=async_session).enqueue(order=1)
        assert await list_orders(app) == []
        await async_session.commit()
        assert await list_orders(app) == [1]
        await task.using(within=async_session).enqueue(order=2)
        await async_session.rollback()
        assert await list_orders(app) == [1]


async def test_a_job_commits_with_an_async_connection(app: Rota, database_url: str) -> None:
    engine = create_async_engine(with_driver(database_url, "asyncpg"))
    async with app:
        async with engine.begin() as connection:
            await connection.execute(text("CREATE TABLE orders (number int)"))
            await app.tasks["confirm"].using(within=connection).enqueue(order=3)
        assert await list_orders(app) == [3]
    await engine.dispose()


@pytest.mark.parametrize("is_session", [True, False], ids=["session", "connection"])
async def test_a_job_commits_with_a_plain_transaction(
    app: Rota, database_url: str, is_session: bool
) -> None:
    engine = create_engine(with_driver(database_url, "psycopg"))
    task = app.tasks["confirm"]
    with Session(engine) if is_session else engine.connect() as transaction:
        task.using(within=transaction).enqueue_sync(order=4)
        assert await list_orders(app) == []
        transaction.commit()
        task.using(within=transaction).enqueue_sync(order=5)
        transaction.rollback()
    assert await list_orders(app) == [4]
    app.sessions.close_bridge()
    engine.dispose()


@pytest.mark.parametrize("is_flow", [False, True], ids=["enqueue", "flow"])
async def test_a_job_commits_with_the_scoped_session_of_its_thread(
    app: Rota, database_url: str, is_flow: bool
) -> None:
    engine = create_engine(with_driver(database_url, "psycopg"))
    session, task = scoped_session(sessionmaker(engine)), app.tasks["confirm"]
    for order, end in ((7, session.commit), (8, session.rollback)):
        if is_flow:
            with app.flow(within=session) as flow:
                flow.add(task, order=order)
        else:
            task.using(within=session).enqueue_sync(order=order)
        assert order not in await list_orders(app)
        end()
    assert await list_orders(app) == [7]
    session.remove()
    app.sessions.close_bridge()
    engine.dispose()


async def test_a_transaction_needs_the_app_in_its_event_loop(
    app: Rota, async_session: AsyncSession
) -> None:
    with pytest.raises(AppUseError, match="async with app"):
        await app.tasks["confirm"].using(within=async_session).enqueue(order=6)


async def test_another_database_is_refused(app: Rota) -> None:
    engine = create_engine("sqlite://")
    async with app:
        with Session(engine) as session, pytest.raises(UnsupportedConnectionError):
            await app.tasks["confirm"].using(within=session).enqueue(order=7)
    engine.dispose()
