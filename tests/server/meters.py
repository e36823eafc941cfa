"""How much a store reads, counted by the store itself: never a time, so always the same."""

import ast
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from types import FrameType
from typing import Any

import apsw
import psycopg
import pytest
import redis.asyncio
from pymongo import AsyncMongoClient
from tests.servers.mariadb import connect_to
from tests.unit.stores.mongo.overheard import overhear

from rota import open_store
from rota.clock.system import SystemClock
from rota.stores.opened import OpenStore
from rota.stores.postgres.address import read_address

Look = Callable[[OpenStore], Awaitable[None]]
Meter = Callable[[str, Look], Awaitable[int]]
"""Opens a store, looks at it, and returns how much that was."""


async def count_lines(store: OpenStore, look: Look) -> int:
    """Lines of Python that ran for a store in memory, which has no other counter."""
    count = 0

    def trace(frame: FrameType, _: str, __: Any) -> Any:
        nonlocal count
        if not frame.f_globals.get("__name__", "").startswith(("rota.stores", "rota.jobs")):
            return None
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        await look(store)
    finally:
        sys.settrace(before)
    return count


async def count_steps(address: str, look: Look) -> int:
    """Instructions of SQLite's virtual machine."""
    steps: list[int] = []

    def note(event: dict[str, Any]) -> None:
        steps.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])

    def watch(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, note)

    apsw.connection_hooks.append(watch)
    try:
        async with await open_store(address) as store:
            steps.clear()
            await look(store)
            return sum(steps)
    finally:
        apsw.connection_hooks.remove(watch)


_ROWS_READ = """
SELECT
    (SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE schemaname = %(schema)s)
    + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = %(schema)s)
"""
_SESSIONS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'rota'
"""


async def count_rows(address: str, look: Look) -> int:
    """Rows of tables and entries of indexes that PostgreSQL read.

    A session reports what it read when it ends, so no other store may be open.
    """
    place = read_address(address)
    async with await psycopg.AsyncConnection.connect(place.url, autocommit=True) as watch:

        async def read() -> int:
            await watch.execute("SELECT pg_stat_clear_snapshot()")
            while (await ask(_SESSIONS, {}))[0]:
                await SystemClock().sleep(timedelta(milliseconds=10))
                await watch.execute("SELECT pg_stat_clear_snapshot()")
            return int((await ask(_ROWS_READ, {"schema": place.schema}))[0])

        async def ask(query: str, values: Any) -> Any:
            return await (await watch.execute(query.encode(), values)).fetchone()

        await watch.execute(f'ANALYZE "{place.schema}".jobs'.encode())
        before = await read()
        async with await open_store(address) as store:
            await look(store)
        return await read() - before


async def count_elements(address: str, look: Look) -> int:
    """Elements that the commands of all scripts read, on a Redis server with no other client."""
    client: Any
    async with redis.asyncio.Redis.from_url(address.partition("?")[0]) as client:
        commands: list[list[bytes]] = []
        async with await open_store(address) as store, monitored(client, commands):
            await look(store)
        flags = await client.command()
        reading = {name.upper() for name, about in flags.items() if "readonly" in about["flags"]}
        count = 0
        for name, *values in commands:
            if name.decode().upper() in reading:
                reply = await client.execute_command(name.decode(), *values)
                count += max(1, len(reply)) if isinstance(reply, list | dict) else 1
        return count


_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"')


@asynccontextmanager
async def monitored(client: Any, commands: list[list[bytes]]) -> AsyncIterator[None]:
    """Note every command, also those that scripts call."""
    connection = await client.connection_pool.get_connection()
    await connection.send_command("MONITOR")
    assert await connection.read_response() == b"OK"
    try:
        yield
        await client.echo("the end")
        while True:
            line = await connection.read_response(disable_decoding=True)
            parts = [ast.literal_eval(f"b{it.decode('ascii')}") for it in _TEXT.findall(line)]
            if parts == [b"ECHO", b"the end"]:
                return
            commands.append(parts)
    finally:
        await connection.disconnect()


_READS = frozenset({"find", "aggregate", "count", "distinct"})
_ASKED = frozenset({"filter", "sort", "limit", "hint", "projection", "pipeline", "query", "key"})


async def count_examined(address: str, look: Look) -> int:
    """Documents and entries of indexes that MongoDB examines for what it was asked."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        overheard = overhear(monkeypatch)
        async with await open_store(address) as store:
            overheard.clear()
            await look(store)
    count = 0
    async with AsyncMongoClient[dict[str, Any]](address) as client:
        database = client.get_default_database()
        for command in overheard.of(_READS):
            name = next(iter(command))
            asked = {it: command[it] for it in (name, *_ASKED & command.keys())}
            asked |= {"cursor": {}} if name == "aggregate" else {}
            plan = await database.command("explain", asked, verbosity="executionStats")
            count += 1 + sum(_examined(plan))
    return count


def _examined(plan: Any) -> Iterator[int]:
    """The numbers in a plan, wherever they are."""
    parts = plan.values() if isinstance(plan, dict) else plan if isinstance(plan, list) else ()
    if isinstance(plan, dict) and "totalDocsExamined" in plan:
        yield plan["totalDocsExamined"] + plan["totalKeysExamined"]
        return
    for part in parts:
        yield from _examined(part)


async def count_reads(address: str, look: Look) -> int:
    """Rows and entries of indexes that a MariaDB server with no other client read."""

    async def read() -> int:
        connection = await connect_to(address)
        async with connection.cursor() as cursor:
            await cursor.execute("SHOW GLOBAL STATUS LIKE 'Handler\\_read\\_%'")
            rows = await cursor.fetchall()
        connection.close()
        return sum(int(value) for _, value in rows)

    before = await read()
    async with await open_store(address) as store:
        await look(store)
    return await read() - before


METERS: dict[str, Meter] = {
    "mysql": count_reads,
    "sqlite": count_steps,
    "postgres": count_rows,
    "redis": count_elements,
    "mongo": count_examined,
}
