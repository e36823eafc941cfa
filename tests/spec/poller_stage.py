"""Jobs for a poller, put on whatever storage a store has for them, and looked at."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, NamedTuple, Protocol

from asyncpg import Pool
from pymongo.asynchronous.collection import AsyncCollection
from tests.unit.poller.polling import Stage

from rota.clock import in_flight
from rota.jobs import JobStatus
from rota.poller import PolledJobs
from rota.poller.jobs import wakes_at
from rota.poller.mongo import FieldPaths
from rota.poller.sql import ColumnNames


class Seen(NamedTuple):
    """What is kept of a job, whatever keeps it."""

    sleep_until: datetime | None
    payload: Mapping[str, Any]


class Storage(Protocol):
    """Where jobs are put, and looked at."""

    async def add(
        self,
        name: str,
        *,
        sleep_until: datetime,
        interval: str | None = None,
        repeat_until: datetime | None = None,
        auto_remove: bool = False,
    ) -> Any:
        """Keep a job whose payload has that name; its id."""
        ...

    async def look(self, job_id: Any) -> Seen | None:
        """The job as it is kept; None when it is gone."""
        ...


class RecordStorage:
    """Jobs of a store."""

    def __init__(self, jobs: PolledJobs) -> None:
        self.jobs = jobs

    async def add(self, name: str, **fields: Any) -> Any:
        return await self.jobs.add({"name": name}, **fields)

    async def look(self, job_id: Any) -> Seen | None:
        job = await self.jobs.get(job_id)
        if job is None:
            return None
        return Seen(None if job.status is JobStatus.COMPLETED else wakes_at(job), job.payload)


class CollectionStorage:
    """Documents of a collection, whose fields for the poller lie inside another."""

    PATHS: ClassVar[FieldPaths] = {
        "sleep_until_field": "cron.sleepUntil",
        "interval_field": "cron.interval",
        "repeat_until_field": "cron.repeatUntil",
        "auto_remove_field": "cron.autoRemove",
    }

    def __init__(self, collection: "AsyncCollection[Any]") -> None:
        self.collection = collection

    async def add(
        self,
        name: str,
        *,
        sleep_until: datetime,
        interval: str | None = None,
        repeat_until: datetime | None = None,
        auto_remove: bool = False,
    ) -> Any:
        cron: dict[str, Any] = {"sleepUntil": sleep_until}
        if interval is not None:
            cron["interval"] = interval
        if repeat_until is not None:
            cron["repeatUntil"] = repeat_until
        if auto_remove:
            cron["autoRemove"] = True
        kept = await self.collection.insert_one({"name": name, "cron": cron})
        return kept.inserted_id

    async def look(self, job_id: Any) -> Seen | None:
        with in_flight():
            document = await self.collection.find_one({"_id": job_id})
        if document is None:
            return None
        at = document["cron"]["sleepUntil"]
        return Seen(None if at is None else at.replace(tzinfo=UTC), document)


class TableStorage:
    """Rows of a table on PostgreSQL, whose columns have names of the user's own."""

    COLUMNS: ClassVar[ColumnNames] = {
        "sleep_until_column": "wake at",
        "interval_column": "every",
        "repeat_until_column": "last",
        "auto_remove_column": "once",
    }

    def __init__(self, pool: "Pool[Any]", table: str) -> None:
        self.pool = pool
        self.table = table

    async def create(self) -> None:
        await self.pool.execute(
            f"""
            CREATE SCHEMA {self.table.partition(".")[0]};
            CREATE TABLE {self.table} (
                id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text,
                "wake at" timestamptz, every text, last timestamptz, once boolean
            )
            """
        )

    async def add(
        self,
        name: str,
        *,
        sleep_until: datetime,
        interval: str | None = None,
        repeat_until: datetime | None = None,
        auto_remove: bool = False,
    ) -> Any:
        values = (name, sleep_until, interval, repeat_until, auto_remove)
        with in_flight():
            return await self.pool.fetchval(
                f"""INSERT INTO {self.table} (name, "wake at", every, last, once)
                VALUES ($1, $2, $3, $4, $5) RETURNING id""",  # noqa: S608 - the name is the test's own
                *values,
            )

    async def look(self, job_id: Any) -> Seen | None:
        with in_flight():
            statement = f"SELECT * FROM {self.table} WHERE id = $1"  # noqa: S608 - as above
            row = await self.pool.fetchrow(statement, job_id)
        return None if row is None else Seen(row["wake at"], row)


class SpecStage(Stage):
    """A stage that also has a place for jobs."""

    storage: Storage

    @property
    def names(self) -> list[str]:
        """The names of the jobs that were processed, in order."""
        return [job.payload["name"] for job in self.jobs]
