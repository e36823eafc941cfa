"""Every query and write goes by an index, sorts nothing, and reads little more than it needs.

The commands are those that the store sends; the server explains each of them.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from pymongo import MongoClient
from tests.servers.mongo import open_mongo
from tests.unit.stores.mongo.overheard import Overheard, overhear

from rota.jobs import Discarded, JobFilter, JobStatus, Recurrence, Succeeded, decide_outcome
from rota.stores.mongo.connection import DOCUMENTS, JOBS, RESULTS, Raw
from rota.stores.mongo.store import MongoStore
from rota.stores.protocol import Cap, DocumentWrite, HeldLease, LeaseRequest
from rota.testing.builders import a_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
COUNT = 150
"""How many jobs there are in each partition of every sort that a query must not read."""
MOST_READ = 60
"""Documents and index entries that a command may look at; no call here asks for more than ten."""

BY_INDEX = frozenset({"IXSCAN", "IDHACK", "EXPRESS_IXSCAN", "COUNT_SCAN", "DISTINCT_SCAN"})
_NOT_SENT_AGAIN = frozenset(
    {
        *("lsid", "$db", "$clusterTime", "txnNumber", "startTransaction", "autocommit"),
        *("readConcern", "writeConcern", "$readPreference", "ordered", "stmtIds"),
    }
)
REQUEST = LeaseRequest(worker="worker", limit=10, lease_for=HOUR)
REQUESTS = {
    "all queues": REQUEST,
    "one queue": replace(REQUEST, queues=["q"], after_tenant="a"),
    "two queues": replace(REQUEST, queues=["q", "r"]),
    "one tenant": replace(REQUEST, tenants=["b"]),
    "counted": replace(REQUEST, caps=(Cap(queue="q", count=3),)),
    "capped": replace(REQUEST, limit=2, caps=(Cap(tenant="a", running=COUNT + 50),)),
    "aged": replace(REQUEST, limit=2, ageing={"q": HOUR}),
}


@pytest.fixture
def overheard(monkeypatch: pytest.MonkeyPatch) -> Overheard:
    return overhear(monkeypatch)


async def fill(store: MongoStore) -> None:
    """Jobs of two tenants in two queues: running, ended, due, and due later."""
    for tenant in "ab":
        for queue in "qr":
            jobs = [a_job(tenant=tenant, queue=queue, due_at=NOW) for _ in range(3 * COUNT)]
            await store.insert(jobs, NOW)
            request = replace(REQUEST, limit=2 * COUNT, tenants=[tenant], queues=[queue])
            leased = await store.lease(request, NOW)
            await store.apply([decide_outcome(job, Succeeded(), NOW) for job in leased[::2]], NOW)
            later = [a_job(tenant=tenant, queue=queue, due_at=NOW + HOUR) for _ in range(COUNT)]
            await store.insert(later, NOW)


LISTED = (
    JobFilter(),
    JobFilter(status=JobStatus.READY),
    JobFilter(status=JobStatus.READY, is_recurring=True),
    JobFilter(only_dead=True),
)


async def use(store: MongoStore) -> None:
    """Every verb whose cost must not grow with jobs that it does not concern."""
    parent, keyed = a_job(tenant="a"), a_job(tenant="a", idempotency_key="key")
    await store.insert([parent, keyed, a_job(tenant="a", dependencies=[parent.id])], NOW)
    child = a_job(tenant="a", dependencies=[keyed.id])
    await store.insert([child], NOW)
    await store.amend("a", child.id, {"dependencies": [parent.id]}, NOW)
    mine = {job.id: job for job in await store.lease(replace(REQUEST, tenants=["a"]), NOW)}
    for request in REQUESTS.values():
        mine |= {job.id: job for job in await store.lease(request, NOW)}
    await store.insert([a_job(tenant="a", due_at=NOW + MINUTE)], NOW)
    await store.lease(REQUEST, NOW + MINUTE)  # one job has become due
    some = list(mine.values())[:10]
    await store.extend([*(HeldLease(job.id, 1) for job in some), HeldLease("gone", 1)], NOW, NOW)
    async with store.listen_for_end("a", [job.id for job in some]):
        await store.apply([decide_outcome(job, Succeeded(b"7"), NOW) for job in some], NOW)
    await store.apply([decide_outcome(some[0], Succeeded(b"7"), NOW)], NOW)
    await store.results("a", [job.id for job in some])
    last = list(mine.values())[-1]
    await store.apply([decide_outcome(last, Discarded("no"), NOW)], NOW)
    await store.get("a", [parent.id])
    await store.attempts("a", last.id)
    await store.find_dependents("a", [parent.id], 10)
    await store.delete("a", child.id)
    await store.prune(NOW + HOUR, 10)
    expired = await store.find_expired(NOW + 2 * HOUR, 10)
    await store.find_expired(NOW + 2 * HOUR, 10, expired[-1])
    for queues in (None, ["q"], ["none"]):
        await store.next_due_at(NOW, queues)
    for wanted in LISTED:
        page = await store.find("a", wanted, limit=10)
        if page.next_cursor is not None:
            await store.find("a", wanted, page.next_cursor, limit=10)
    writes = [DocumentWrite("tasks", key, None, b"") for key in "abc"]
    await store.write_each(writes)
    await store.read("tasks", ["a", "b"])
    assert [page async for page in store.scan("tasks")]


async def test_no_verb_reads_what_it_does_not_need(mongo_url: str, overheard: Overheard) -> None:
    async with await open_mongo(mongo_url) as store:
        await fill(store)
        await store.insert(
            [a_job(tenant="a", recurrence=Recurrence(interval="1h", start=NOW))], NOW
        )
        overheard.clear()
        await use(store)
        commands = overheard.of(["find", "aggregate", "update", "delete"])
    with MongoClient[Raw](mongo_url) as client:
        database = client.get_default_database()
        checked = 0
        for command in commands:
            name = next(iter(command))
            if command[name] not in {JOBS, DOCUMENTS, RESULTS}:
                continue
            answer = database.command({"explain": make_explained(command)})
            stages = set(list_stages(answer))
            assert stages & BY_INDEX, (command, answer)
            assert "COLLSCAN" not in stages, (command, answer)
            is_for_odd_clocks = command.get("sort") == {"due_at": 1} and "hint" not in command
            assert "SORT" not in stages or is_for_odd_clocks, (command, answer)
            if name != "aggregate":  # the one that counts running jobs reads all of them
                assert max(list_examined(answer)) <= MOST_READ, (command, answer)
            checked += 1
    assert checked > 50


async def test_a_survey_goes_by_its_index(mongo_url: str, overheard: Overheard) -> None:
    async with await open_mongo(mongo_url) as store:
        overheard.clear()
        await store.survey(NOW)
        await store.survey(NOW, "a")
    with MongoClient[Raw](mongo_url) as client:
        for command in overheard.of(["aggregate"]):
            answer = client.get_default_database().command({"explain": make_explained(command)})
            assert {"IXSCAN"} <= set(list_stages(answer))
            assert "COLLSCAN" not in set(list_stages(answer))


def make_explained(command: Mapping[str, Any]) -> Raw:
    """The command without its session; of several writes or batches, the first."""
    kept = {name: value for name, value in command.items() if name not in _NOT_SENT_AGAIN}
    if "batchSize" in kept:
        kept["limit"] = kept.pop("batchSize")
    for name in ("updates", "deletes"):
        if name in kept:
            kept[name] = kept[name][:1]
    return kept


def list_stages(answer: Any) -> Iterator[str]:
    """The stages of the plans that won."""
    for part in walk(answer):
        for name in ("winningPlan", "queryPlan"):
            if name in part:
                yield from (str(each["stage"]) for each in walk(part[name]) if "stage" in each)


def list_examined(answer: Any) -> Iterator[int]:
    """How many documents and index entries were looked at."""
    for part in walk(answer):
        for name in ("totalKeysExamined", "totalDocsExamined"):
            if name in part:
                yield part[name]


def walk(answer: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(answer, list):
        for each in answer:
            yield from walk(each)
    if isinstance(answer, Mapping):
        yield answer
        for name, value in answer.items():
            if name not in {"rejectedPlans", "command"}:
                yield from walk(value)
