"""Lays in the jobs among which is searched."""

import asyncio
from datetime import UTC, datetime, timedelta

import psycopg
from bench.api_contest.bare import FILL, TABLE

from rota.auth.caller import Scope
from rota.auth.tokens import TokenBook
from rota.clock.system import SystemClock
from rota.jobs import Job
from rota.runtime.wiring import open_store
from rota.testing import a_job

BATCH = 2_000
TEXT = {"text": "x" * 85}


def fill(url: str, count: int) -> str:
    """Both tables, each with so many jobs; a token for the service."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(TABLE.encode())
        connection.execute((FILL % count).encode())
    token = asyncio.run(_fill_rota(url, count))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(b"VACUUM ANALYZE")
        connection.execute(b"CHECKPOINT")
    return token


async def _fill_rota(url: str, count: int) -> str:
    clock = SystemClock()
    now = clock.now().astimezone(UTC)
    async with await open_store(url) as store:
        for begin in range(0, count, BATCH):
            numbers = range(begin, min(begin + BATCH, count))
            await store.insert([_job(number, now) for number in numbers], now)
        scopes = [Scope.READ, Scope.WRITE]
        issued = await TokenBook(store, clock).issue("default", scopes, "bench")
    return issued.secret.reveal()


def _job(number: int, now: datetime) -> Job:
    return a_job(
        tenant="default",
        kind="bench",
        queue=f"queue_{number % 10}",
        payload=TEXT,
        created_at=now - timedelta(seconds=number + 1),
        due_at=now + timedelta(days=365),
    )
