"""A process dies between any two of its writes: what it was about is completed, or never was.

Each act runs against a server whose connection breaks for good before the first write, before the
second, and so on. What it has left behind is then met by another process: one that sweeps, or one
that simply does the same again.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from secrets import token_hex
from typing import Any, NamedTuple

import pytest
from pymongo import AsyncMongoClient
from tests.unit.stores.mongo.mortal import DiedError, ImpatientGateway, MortalGateway

from rota.errors import RotaError
from rota.jobs import Discarded, Job, Recurrence, Succeeded, decide_outcome
from rota.stores.mongo.documents.verbs import write_all, write_each
from rota.stores.mongo.gateway import AsyncGateway, Gateway, Query, Raw
from rota.stores.mongo.jobs.editing import Amendment, amend, delete, prune
from rota.stores.mongo.jobs.insertion import insert_together
from rota.stores.mongo.jobs.leasing.leases import lease_next
from rota.stores.mongo.jobs.leasing.limited import lease_limited
from rota.stores.mongo.jobs.settling import apply_together
from rota.stores.mongo.steps.names import DOCUMENTS, INTENTS, JOBS, LOCK, VERSION
from rota.stores.mongo.steps.recovery import Sweeper
from rota.stores.protocol import Cap, DocumentWrite, LeaseRequest
from rota.testing.builders import a_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Scene(NamedTuple):
    """Jobs that wait for each other, the first of them leased."""

    parent: Job
    child: Job
    grandchild: Job
    others: tuple[Job, ...]


Act = Callable[[Gateway, Scene], Awaitable[object]]


async def _set_the_scene(gateway: Gateway, series: Recurrence | None = None) -> Scene:
    parent = a_job(name="parent", recurrence=series, occurrence_at=series and NOW)
    child = a_job(name="child", dependencies=[parent.id])
    grandchild = a_job(name="grandchild", dependencies=[child.id])
    others = (a_job(name="one", queue="other"), a_job(name="two", queue="other"))
    await insert_together(gateway, [parent, child, grandchild, *others], NOW)
    (leased,) = await lease_next(gateway, _a_request(queues=["default"], limit=1), NOW)
    await write_each(gateway, [_document("a", None), _document("b", None), _document("c", None)])
    return Scene(leased, child, grandchild, others)


def _a_request(**fields: Any) -> LeaseRequest:
    return LeaseRequest(**{"worker": "worker", "limit": 10, "lease_for": MINUTE, **fields})


async def _complete(gateway: Gateway, scene: Scene) -> None:
    await apply_together(gateway, [decide_outcome(scene.parent, Succeeded(), NOW)], NOW)


async def _fail(gateway: Gateway, scene: Scene) -> None:
    await apply_together(gateway, [decide_outcome(scene.parent, Discarded("no"), NOW)], NOW)


async def _insert(gateway: Gateway, scene: Scene) -> None:
    new = a_job(dependencies=[scene.parent.id], idempotency_key="key")
    await insert_together(gateway, [new], NOW)


async def _delete(gateway: Gateway, scene: Scene) -> None:
    await delete(gateway, "default", scene.grandchild.id)


async def _amend(gateway: Gateway, scene: Scene) -> None:
    fields = {"dependencies": [scene.parent.id, scene.others[0].id]}
    await amend(gateway, Amendment("default", scene.grandchild.id, fields, NOW))


async def _lease_under_caps(gateway: Gateway, scene: Scene) -> None:
    caps = (Cap(queue=scene.others[0].queue, running=2),)
    await lease_limited(gateway, _a_request(caps=caps), NOW)


async def _prune(gateway: Gateway, scene: Scene) -> None:
    await _fail(gateway, scene)
    await prune(gateway, NOW + MINUTE, 10)


async def _write_documents(gateway: Gateway, _: Scene) -> None:
    removed = DocumentWrite("tasks", "b", 1, None)
    await write_all(gateway, [_document("a", 1), removed, _document("d", None)])


def _document(key: str, expected: int | None) -> DocumentWrite:
    return DocumentWrite("tasks", key, expected, key.encode())


HOURLY = Recurrence(interval="1h", start=NOW)
ACTS: dict[str, tuple[Act, Recurrence | None]] = {
    "release": (_complete, None),
    "cascade": (_fail, None),
    "next occurrence": (_complete, HOURLY),
    "insert": (_insert, None),
    "delete": (_delete, None),
    "amend": (_amend, None),
    "lease under caps": (_lease_under_caps, None),
    "prune": (_prune, None),
    "documents": (_write_documents, None),
}


@pytest.fixture
async def client(mongo_url: str) -> AsyncIterator["AsyncMongoClient[Raw]"]:
    async with AsyncMongoClient[Raw](mongo_url) as client:
        yield client


@pytest.mark.parametrize("name", ACTS)
async def test_whatever_a_process_leaves_behind_is_completed_or_never_was(
    name: str, client: "AsyncMongoClient[Raw]"
) -> None:
    act, series = ACTS[name]
    states: set[str] = set()
    whole, scene, before = await _begin(client, series)
    mortal = MortalGateway(whole, 10_000)
    await act(mortal, scene)
    after = await _look(whole, scene)
    assert mortal.write_count > 1
    assert after != before
    for lives in range(mortal.write_count):
        gateway, scene, before = await _begin(client, series)
        with pytest.raises(DiedError):
            await act(MortalGateway(gateway, lives), scene)
        if lives % 2:  # every other time nobody sweeps before the same is asked again
            await _sweep(gateway)
            found = await _look(gateway, scene)
            await _expect_clean(gateway)
            if len(ACTS_OF_SEVERAL_STEPS & {name}) == 0:
                assert found in (before, after), lives
                states.add("before" if found == before else "after")
        await _do_again(act, gateway, scene)
        await _sweep(gateway)
        assert _without_versions(await _look(gateway, scene)) == _without_versions(after), lives
        await _expect_clean(gateway)
    if states:
        assert states == {"before", "after"}


ACTS_OF_SEVERAL_STEPS = {"prune"}


async def _begin(
    client: "AsyncMongoClient[Raw]", series: Recurrence | None
) -> tuple[AsyncGateway, Scene, Any]:
    """A database of its own."""
    database = client[f"{client.get_default_database().name}_{token_hex(4)}"]
    await database[JOBS].create_index([("keys", 1)], unique=True, sparse=True)
    gateway = ImpatientGateway(database, "test")
    scene = await _set_the_scene(gateway, series)
    return gateway, scene, await _look(gateway, scene)


async def _look(gateway: AsyncGateway, scene: Scene) -> Any:
    """All that is kept, with the names of jobs in the place of their ids."""
    names = {job.id: job.name for job in (scene.parent, scene.child, scene.grandchild)}
    names |= {job.id: job.name for job in scene.others}
    found = [*await gateway.find(Query(JOBS, {})), *await gateway.find(Query(DOCUMENTS, {}))]
    return sorted((_named(raw, names) for raw in found), key=lambda raw: str(raw["_id"]))


def _named(raw: Raw, names: Mapping[str, str]) -> Raw:
    shown = {
        "_id": names.get(raw["_id"], raw["_id"] if ":" in raw["_id"] else "new"),
        "status": raw.get("status"),
        "lane": raw.get("lane"),
        "version": raw.get(VERSION),
        "is_awaited": raw.get("is_awaited"),
        "ended_at": raw.get("ended_at"),
        "keys": raw.get("keys"),
        "last_token": raw.get("last_token"),
        "attempt_count": len(raw.get("attempts", ())),
        "dependencies": [names.get(each) for each in raw.get("dependencies", ())],
        "body": bytes(raw["body"]) if ":" in raw["_id"] else None,
    }
    return {name: value for name, value in shown.items() if value is not None}


def _without_versions(shown: Any) -> Any:
    """What is done twice may be written twice, as long as it comes to the same."""
    return [{name: raw[name] for name in raw if name != "version"} for raw in shown]


async def _sweep(gateway: AsyncGateway) -> None:
    """Twice: whatever is under way the first time is left alone."""
    sweeper = Sweeper(gateway)
    await sweeper.sweep()
    await sweeper.sweep()


async def _do_again(act: Act, gateway: Gateway, scene: Scene) -> None:
    """As whoever did not hear what became of it; it may be done already."""
    try:
        await act(gateway, scene)
    except RotaError:
        return


async def _expect_clean(gateway: AsyncGateway) -> None:
    assert await gateway.find(Query(INTENTS, {})) == []
    for collection in (JOBS, DOCUMENTS):
        assert await gateway.find(Query(collection, {LOCK: {"$exists": True}})) == []
        assert await gateway.find(Query(collection, {VERSION: {"$exists": False}})) == []
