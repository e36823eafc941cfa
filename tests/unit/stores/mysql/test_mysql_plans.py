"""The server explains every statement that the verbs send: each goes by an index of its own."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.jobs import JobFilter, JobStatus, Succeeded, decide_outcome
from rota.stores.mysql.connections import Session
from rota.stores.mysql.store import MysqlStore
from rota.stores.protocol import Cap, HeldLease, KeptDocument, LeaseRequest
from rota.stores.sql.server import ServerSession
from rota.testing.builders import a_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROW_COUNT = 300
SORTED = {"job_columns", "GROUP BY", "rota_results", "survey"}


@pytest.fixture
async def sent(store: MysqlStore, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[str]]:
    """What is sent, once the table holds many jobs that have ended, wait or are due later."""
    ended = [a_job(status=JobStatus.COMPLETED, due_at=NOW) for _ in range(ROW_COUNT)]
    from rota.stores.protocol import KeptJob

    await store.load([KeptJob(job) for job in ended], NOW)
    await store.insert([a_job(due_at=NOW + timedelta(days=1)) for _ in range(ROW_COUNT)], NOW)
    await store.insert([a_job(due_at=NOW) for _ in range(ROW_COUNT)], NOW)
    texts: list[str] = []
    run = Session.run

    async def noted(self: Session, sql: str) -> list[Any]:
        texts.append(sql)
        return await run(self, sql)

    monkeypatch.setattr(Session, "run", noted)
    yield texts
    monkeypatch.undo()


async def explain(connection: Any, sql: str) -> list[dict[str, Any]]:
    async with connection.cursor() as cursor:
        await cursor.execute(f"EXPLAIN {sql}")
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in await cursor.fetchall()]


async def use_every_hot_verb(store: MysqlStore) -> None:
    def request(**more: Any) -> LeaseRequest:
        return LeaseRequest(worker="w", limit=10, lease_for=timedelta(minutes=1), **more)

    jobs = await store.lease(request(), NOW)
    await store.lease(request(kinds=["other"]), NOW)
    await store.lease(request(caps=(Cap(running=100),), ageing={"default": timedelta(1)}), NOW)
    await store.extend([HeldLease(job.id, job.last_token) for job in jobs], NOW, NOW)
    await store.apply([decide_outcome(job, Succeeded(), NOW) for job in jobs[:5]], NOW)
    store.uses_native_paths = False
    await store.apply([decide_outcome(job, Succeeded(), NOW) for job in jobs[5:]], NOW)
    await store.insert([a_job(dependencies=(jobs[0].id,), idempotency_key="k")], NOW)
    await store.next_due_at(NOW, ["default"], ["default"])
    await store.next_due_at(NOW - timedelta(days=1))
    await store.find_expired(NOW + timedelta(hours=1), 10)
    await store.get("default", [jobs[0].id])
    for status in (None, *JobStatus):
        await store.find("default", JobFilter(status=status))
        await store.count("default", JobFilter(status=status), limit=10)
    await store.find("default", JobFilter(status=JobStatus.READY, is_recurring=True))
    await store.find("default", JobFilter(only_dead=True))
    await store.prune(NOW + timedelta(hours=1), 10)


async def test_no_statement_of_the_verbs_reads_a_whole_table_or_sorts_what_it_locks(
    store: MysqlStore, sent: list[str], connection: Any
) -> None:
    await use_every_hot_verb(store)
    statements = [
        text for text in sent if text.lstrip("( ").startswith(("SELECT", "UPDATE", "DELETE"))
    ]
    assert len(statements) > 40
    for text in statements:
        for step in await explain(connection, text):
            table, extra = str(step["table"]), str(step["Extra"])
            shown = f"{step}\n{text}"
            if table.startswith("rota_jobs") or table == "job":
                assert step["type"] != "ALL", shown
                assert step["key"] is not None or "no matching row" in extra, shown
            if "SKIP LOCKED" in text or "LIMIT" in text:
                is_locking = "FOR UPDATE" in text and table == "rota_jobs"
                assert not (is_locking and "filesort" in extra), shown


async def test_pages_and_leases_are_read_in_the_order_of_their_index(
    store: MysqlStore, sent: list[str], connection: Any
) -> None:
    await use_every_hot_verb(store)
    pages = [text for text in sent if "LIMIT" in text and "rota_jobs" in text]
    assert len(pages) > 20
    for text in pages:
        for step in await explain(connection, text):
            if step["table"] == "rota_jobs":
                assert "filesort" not in str(step["Extra"]), f"{step}\n{text}"


async def test_queues_that_a_worker_does_not_serve_cost_no_question_each(
    store: MysqlStore, sent: list[str]
) -> None:
    await store.insert([a_job(due_at=NOW, queue=f"q{number:03}") for number in range(100)], NOW)
    sent.clear()
    request = LeaseRequest(
        worker="w", limit=10, lease_for=timedelta(minutes=1), queues=["q050", "q051", "zz"]
    )
    assert {job.queue for job in await store.lease(request, NOW)} == {"q050", "q051"}
    assert len(sent) < 15


async def test_a_dump_reads_bodies_only_of_what_it_returns(store: MysqlStore) -> None:
    """A temporary table with bodies is on the disk, and a portion takes ten times as long."""
    payload = {"text": "x" * 60_000}
    await store.insert([a_job(due_at=NOW, payload=payload) for _ in range(100)], NOW)
    documents = [KeptDocument("c", f"{number}", 1, bytes(60_000)) for number in range(100)]
    await store.load(documents, NOW)

    read = store._records

    async def count_tables(session: ServerSession) -> int:
        rows = await session.run("SHOW SESSION STATUS LIKE 'Created_tmp_disk_tables'")
        return int(rows[0][1])

    async def dump(session: ServerSession) -> tuple[int, int, int]:
        before = await count_tables(session)
        jobs = await read.read_job_portion(session, "", 1000)
        found = await read.read_document_portion(session, "", "", 1000)
        return len(jobs.records), len(found), await count_tables(session) - before

    assert await store._database.run(dump) == (70, 70, 0)
