"""Changes that are handed in together: each is whole wherever a process dies on the way.

What is plain is one command; all that concerns others is one step. Handing in all of them again,
as whoever did not hear what became of them does, comes to the same as if nobody had died.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest
from tests.servers.mongo import open_mongo
from tests.servers.shared import in_database
from tests.unit.stores.mongo.mortal import DiedError, MortalGateway

from rota.jobs import (
    Change,
    Interrupted,
    Job,
    JobId,
    JobStatus,
    Recurrence,
    Succeeded,
    decide_outcome,
)
from rota.stores.mongo.gateway import AsyncGateway, Operation, Written
from rota.stores.mongo.store import MongoStore
from rota.stores.protocol import Applied, LeaseRequest
from rota.testing.builders import a_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
REQUEST = LeaseRequest(worker="worker", limit=10, lease_for=timedelta(hours=1))
STATUSES = dict[str, JobStatus | None]
BEFORE: STATUSES = {
    **dict.fromkeys(("parent", "series", "one", "two", "brief", "short"), JobStatus.RUNNING),
    "child": JobStatus.PENDING,
    "next": None,
}
PLAIN: STATUSES = {**BEFORE, "one": JobStatus.COMPLETED, "two": JobStatus.COMPLETED}
AFTER: STATUSES = {
    **PLAIN,
    **dict.fromkeys(("parent", "series"), JobStatus.COMPLETED),
    **dict.fromkeys(("child", "next"), JobStatus.READY),
    **dict.fromkeys(("brief", "short"), None),
}


async def _begin(store: MongoStore) -> tuple[dict[JobId, str], list[Change]]:
    """The names of jobs, and what was decided about those of them that run."""
    hourly = Recurrence(interval="1h", start=NOW)
    parent = a_job(name="parent")
    jobs = [
        parent,
        a_job(name="child", dependencies=[parent.id]),
        a_job(name="series", recurrence=hourly, occurrence_at=NOW),
        *(a_job(name=name) for name in ("one", "two")),
        *(a_job(name=name, auto_remove=True) for name in ("brief", "short")),
    ]
    await store.insert(jobs, NOW)
    leased = sorted(await store.lease(REQUEST, NOW), key=lambda job: job.name)
    return {job.id: job.name for job in jobs}, [
        decide_outcome(job, Succeeded(), NOW) for job in leased
    ]


async def _look(store: MongoStore, names: dict[JobId, str]) -> STATUSES:
    found = {_name(job, names): job.status for job in (await store.find("default")).items}
    return {name: found.get(name) for name in BEFORE}


def _name(job: Job, names: dict[JobId, str]) -> str:
    return names.get(job.id, "next")


def _mortal(store: MongoStore, lives: int) -> MortalGateway:
    mortal = MortalGateway(store._gateway, lives)
    store._gateway = cast(AsyncGateway, mortal)
    return mortal


async def test_changes_handed_in_again_come_to_the_same_wherever_a_process_died(
    mongo_url: str,
) -> None:
    seen: list[STATUSES] = []
    async with await open_mongo(mongo_url) as store:
        names, changes = await _begin(store)
        mortal = _mortal(store, 1_000)
        answers = {each.job.name: each for each in await store.apply(changes, NOW) if each.job}
        assert len(answers) == len(changes)
        assert answers["brief"].is_removed
        assert answers["series"].successor
        assert await _look(store, names) == AFTER
    assert mortal.write_count == 6, "one command, and a step of five"
    deaths = range(mortal.write_count)
    for lives in deaths:
        url = in_database(mongo_url, f"{mongo_url.rsplit('/', 1)[1].partition('?')[0]}_{lives}")
        async with await open_mongo(url) as store, await open_mongo(url) as other:
            names, changes = await _begin(store)
            _mortal(store, lives)
            with pytest.raises(DiedError):
                await store.apply(changes, NOW)
            found = await _look(other, names)
            assert found in (BEFORE, PLAIN, AFTER), lives
            seen.append(found)
            again = await other.apply(changes, NOW)
            assert [each.is_stale for each in again] == _expect_stale(found, changes)
            assert await _look(other, names) == AFTER
            assert all(each.is_stale for each in await other.apply(changes, NOW))
    expected = [BEFORE, PLAIN, PLAIN, PLAIN, AFTER, AFTER]
    assert seen == [expected[lives] for lives in deaths]


def _expect_stale(found: STATUSES, changes: list[Change]) -> list[bool]:
    return [found[change.job.name] is not JobStatus.RUNNING for change in changes]


async def test_each_change_sees_those_before_it(mongo_url: str) -> None:
    parent = a_job()
    child = a_job(dependencies=[parent.id])
    async with await open_mongo(mongo_url) as store:
        await store.insert([parent, child], NOW)
        (leased,) = await store.lease(REQUEST, NOW)
        done = decide_outcome(leased, Succeeded(), NOW)
        answers: list[Applied] = await store.apply([done, done], NOW)
        assert [each.is_stale for each in answers] == [False, True]
        assert [each.released for each in answers] == [(child.id,), ()]


class MeddledGateway(MortalGateway):
    """Something happens right after the first write, before this process looks what it did."""

    def __init__(self, inner: AsyncGateway, meddle: Callable[[], Awaitable[object]]) -> None:
        super().__init__(inner, 1_000)
        self._meddle = meddle

    async def write(self, collection: str, operations: Sequence[Operation]) -> Written:
        written = await super().write(collection, operations)
        if self.write_count == 1:
            await self._meddle()
        return written


async def test_a_change_that_was_written_is_not_stale_because_the_job_was_leased_again(
    mongo_url: str,
) -> None:
    parent, retried = a_job(), a_job()
    child = a_job(dependencies=[parent.id])
    async with await open_mongo(mongo_url) as store, await open_mongo(mongo_url) as other:
        await store.insert([parent, child, retried], NOW)
        by_id = {job.id: job for job in await store.lease(REQUEST, NOW)}
        done = decide_outcome(by_id[parent.id], Succeeded(), NOW)
        handed_back = decide_outcome(by_id[retried.id], Interrupted(), NOW)

        async def lease_again() -> None:
            (again,) = await other.lease(REQUEST, NOW)
            assert (again.id, again.last_token) == (retried.id, 2)

        store._gateway = cast(AsyncGateway, MeddledGateway(store._gateway, lease_again))
        answers = await store.apply([done, handed_back], NOW)
        assert [each.is_stale for each in answers] == [False, False]


async def test_a_job_is_this_workers_though_another_came_to_depend_on_it_meanwhile(
    mongo_url: str,
) -> None:
    parent = a_job()
    async with await open_mongo(mongo_url) as store, await open_mongo(mongo_url) as other:
        await store.insert([parent], NOW)

        async def depend() -> None:
            await other.insert([a_job(dependencies=[parent.id])], NOW)

        store._gateway = cast(AsyncGateway, MeddledGateway(store._gateway, depend))
        assert [job.id for job in await store.lease(REQUEST, NOW)] == [parent.id]
