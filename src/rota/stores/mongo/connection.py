"""The connections to one database, and the calls that are under way on them."""

import asyncio
from asyncio import Task
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Self, TypeVar

from pymongo import AsyncMongoClient, MongoClient
from pymongo.asynchronous.database import AsyncDatabase

from rota.clock.idle import in_flight
from rota.errors import StoreError
from rota.stores.mongo.address import MongoSettings
from rota.stores.mongo.gateway import AsyncGateway, Raw, ThreadGateway
from rota.stores.mongo.steps.recovery import Sweeper
from rota.stores.mongo.translation import translated

Result = TypeVar("Result")

_MILLISECOND = timedelta(milliseconds=1)


class Connection:
    """Carries out calls; one that has begun is carried out, whether or not anyone still waits.

    Steps of one process follow each other: they would only get in each other's way.
    """

    def __init__(self, client: "AsyncMongoClient[Raw]", settings: MongoSettings) -> None:
        self._client = client
        self.database: AsyncDatabase[Raw] = client[settings.database]
        self.gateway = AsyncGateway(self.database, settings.label)
        self.sweeper = Sweeper(self.gateway)
        self._turn = asyncio.Lock()
        self._is_untidy = False
        self._under_way: set[Task[Any]] = set()

    @classmethod
    async def open(cls, settings: MongoSettings) -> Self:
        """The database at an address. Nothing is asked of the server before the first call."""
        with translated(settings.label):
            return cls(AsyncMongoClient(settings.url, **options(settings)), settings)

    async def run(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """Do ``work`` and give its result; cancelling stops only the waiting."""
        return await asyncio.shield(self._start(work))

    async def run_alone(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """As ``run``, for work that may take a step: one at a time.

        What was cut off before is completed first.
        """

        async def in_turn() -> Result:
            async with self._turn:
                await self.tidy_up()
                return await work()

        return await self.run(in_turn)

    async def tidy_up(self) -> None:
        """Complete what an error has cut off, if there was one."""
        if self._is_untidy:
            await self.sweeper.sweep()
            self._is_untidy = False

    async def read_clock(self) -> datetime:
        """The server's clock, to the millisecond."""
        with translated(self.gateway.label), in_flight():
            answer = await self._client.admin.command("hello")
        instant: datetime = answer["localTime"]
        return instant.replace(tzinfo=UTC)

    async def read_server_version(self) -> str:
        """The version that the server says it is of."""
        with translated(self.gateway.label), in_flight():
            answer = await self._client.admin.command("buildInfo")
        return str(answer["version"])

    async def close(self) -> None:
        """Complete what is under way, then let the connections go."""
        with in_flight():
            if self._under_way:
                await asyncio.wait(self._under_way)
            await self._client.close()

    def _start(self, work: Callable[[], Awaitable[Result]]) -> "Task[Result]":
        task = asyncio.create_task(self._carry_out(work))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task

    async def _carry_out(self, work: Callable[[], Awaitable[Result]]) -> Result:
        with in_flight():
            try:
                return await work()
            except StoreError:
                self._is_untidy = True
                raise


def open_thread_gateway(
    settings: MongoSettings,
) -> "tuple[MongoClient[Raw], ThreadGateway]":
    """Connections for a thread that has no event loop."""
    with translated(settings.label):
        client: MongoClient[Raw] = MongoClient(settings.url, **options(settings))
    return client, ThreadGateway(client[settings.database], settings.label)


def options(settings: MongoSettings) -> dict[str, Any]:
    """How the driver is to treat the server, whatever the address says.

    What is acknowledged is on the disks of a majority. Reads are the primary's.
    """
    return {
        "appname": "rota",
        "w": "majority",
        "journal": True,
        "retryWrites": True,
        "retryReads": True,
        "readPreference": "primary",
        "serverSelectionTimeoutMS": settings.connect_for // _MILLISECOND,
        "connectTimeoutMS": settings.connect_for // _MILLISECOND,
        "socketTimeoutMS": settings.answer_for // _MILLISECOND,
        "tz_aware": False,
    }
