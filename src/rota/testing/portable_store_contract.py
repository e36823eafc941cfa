"""``dump`` and ``load``: the content of a store can move to another, which continues with it."""

from collections.abc import AsyncIterator, Sequence
from typing import cast

import pytest
from msgspec.structs import replace

from rota.errors import InvalidCursorError, InvalidInputError
from rota.jobs import (
    Attempt,
    Deferral,
    Discarded,
    Ending,
    Job,
    JobStatus,
    Outcome,
    Recurrence,
    Succeeded,
    decide_outcome,
    make_job_ids,
)
from rota.stores.opened import OpenStore
from rota.stores.protocol import (
    DocumentWrite,
    HeldLease,
    KeptDocument,
    KeptJob,
    PortableStore,
    Record,
    UnreadableJob,
)
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import MINUTE, NOW, end, take
from rota.testing.store_contract import StoreFactory, expect

LARGE = 1 << 20


class PortableStoreFixture:
    """Opens a store of documents and jobs before each test and closes it afterwards."""

    @pytest.fixture
    async def portable(self, store_factory: StoreFactory) -> AsyncIterator[OpenStore]:
        """An empty store."""
        store = cast(OpenStore, await store_factory())
        yield store
        await store.close()


class RecordsContract(PortableStoreFixture):
    """What comes out is what went in."""

    async def test_erased_jobs_are_gone_unless_a_job_that_stays_needs_them(
        self, portable: OpenStore
    ) -> None:
        """See ``OpenStore.erase``."""
        parent, needed, alone, stranger = a_job(), a_job(), a_job(), a_job(tenant="other")
        child, last = a_job(dependencies=[parent.id]), a_job(dependencies=[needed.id])
        jobs = [parent, needed, alone, child, last]
        await portable.insert(jobs, NOW)
        await portable.insert([stranger], NOW)
        asked = [parent.id, child.id, needed.id, alone.id, stranger.id, make_job_ids(NOW, 1, 1)[0]]
        stayed = await portable.erase(parent.tenant, asked, NOW)
        expect(stayed, [needed.id])
        left = await portable.get(parent.tenant, [job.id for job in jobs])
        expect(set(left), {needed.id, last.id})
        expect(await portable.count("other"), 1)
        expect(await portable.erase(parent.tenant, [], NOW), [])

    @pytest.mark.parametrize("limit", [1, 3, 1000])
    async def test_loaded_records_are_dumped_unchanged(
        self, portable: OpenStore, limit: int
    ) -> None:
        records = records_of_every_sort()
        expect(await portable.load(records, NOW), len(records))
        expect_same(await dump_all(portable, limit), records)

    async def test_records_may_come_in_any_order_and_one_by_one(self, portable: OpenStore) -> None:
        records = records_of_every_sort()
        for record in reversed(records):
            expect(await portable.load([record], NOW), 1)
        expect_same(await dump_all(portable), records)

    async def test_loading_again_changes_nothing(self, portable: OpenStore) -> None:
        records = records_of_every_sort()
        await portable.load(records, NOW)
        (changed,) = await portable.write_each([DocumentWrite("tasks", "a", 7, b"moved on")])
        expect(changed, 8)
        before = await dump_all(portable)
        expect(await portable.load(records, NOW), 0)
        expect_same(await dump_all(portable), before)

    async def test_an_empty_store_has_nothing_to_dump(self, portable: OpenStore) -> None:
        expect(await dump_all(portable), [])
        expect(await portable.load([], NOW), 0)

    async def test_inserted_jobs_and_written_documents_are_dumped(
        self, portable: OpenStore
    ) -> None:
        parent = a_job(name="parent")
        child = a_job(name="child", dependencies=[parent.id])
        await portable.insert([parent, child], NOW)
        await portable.write_each([DocumentWrite("tasks", "a", None, b"body")])
        expected: list[Record] = [KeptJob(parent), KeptJob(child)]
        expected.append(KeptDocument("tasks", "a", 1, b"body"))
        expect_same(await dump_all(portable), expected)

    async def test_a_portion_is_small_with_large_records(self, portable: OpenStore) -> None:
        large = [KeptDocument("large", f"{each}", 1, bytes(LARGE)) for each in range(12)]
        await portable.load(large[:6], NOW)
        await portable.load(large[6:], NOW)
        portion = await portable.dump()
        expect(0 < len(portion.records) < len(large), expected=True)
        expect(len(await dump_all(portable)), len(large))

    async def test_an_invalid_cursor_or_limit_is_refused(self, portable: OpenStore) -> None:
        for cursor in ("", "?", "[]", '["jobs"]', '["others","a","b"]'):
            with pytest.raises(InvalidCursorError):
                await portable.dump(cursor)
        with pytest.raises(InvalidInputError):
            await portable.dump(limit=0)


class GoingOnContract(PortableStoreFixture):
    """A store that was filled goes on where the other one was."""

    async def test_versions_continue_after_a_load(self, portable: OpenStore) -> None:
        await portable.load([KeptDocument("tasks", "a", 7, b"")], NOW)
        writes = [DocumentWrite("tasks", "a", each, b"next") for each in (1, 7)]
        expect(await portable.write_each(writes), [None, 8])

    async def test_tokens_continue_after_a_load(self, portable: OpenStore) -> None:
        await portable.load([KeptJob(a_job(name="tried before", last_token=41))], NOW)
        (leased,) = await take(portable)
        expect(leased.last_token, 42)

    async def test_a_valid_lease_stays_with_its_holder(self, portable: OpenStore) -> None:
        running = _running()
        await portable.load([KeptJob(running)], NOW)
        expect(await take(portable), [])
        held = [HeldLease(running.id, 5), HeldLease(running.id, 4)]
        expect(await portable.extend(held, NOW + MINUTE, NOW), [True, False])
        ended = (await end(portable, running)).job
        expect(ended and ended.status, JobStatus.COMPLETED)

    async def test_an_expired_lease_is_found(self, portable: OpenStore) -> None:
        running = _running()
        await portable.load([KeptJob(running)], NOW)
        expect(await portable.find_expired(NOW, 10), [])
        expect(await portable.find_expired(NOW + MINUTE, 10), [running])

    @pytest.mark.parametrize("comes_first", ["parents", "child"])
    async def test_a_dependent_is_released_once_by_its_last_dependency(
        self, portable: OpenStore, comes_first: str
    ) -> None:
        done = a_job(name="done", status=JobStatus.COMPLETED)
        first, second = a_job(name="first"), a_job(name="second")
        child = a_job(name="child", dependencies=[done.id, first.id, second.id])
        parents = [KeptJob(each) for each in (done, first, second)]
        for batch in _turned([parents, [KeptJob(child)]], comes_first == "child"):
            await portable.load(batch, NOW)
        leased = await take(portable)
        expect({job.name for job in leased}, {"first", "second"})
        answers = [await end(portable, job) for job in leased]
        expect([answer.released for answer in answers], [(), (child.id,)])
        expect([job.name for job in await take(portable)], ["child"])

    async def test_a_job_with_a_lost_dependency_keeps_waiting(self, portable: OpenStore) -> None:
        parent, lost = a_job(name="parent"), a_job(name="lost")
        child = a_job(name="child", dependencies=[parent.id, lost.id])
        await portable.load([KeptJob(child), KeptJob(parent)], NOW)
        (leased,) = await take(portable)
        expect((await end(portable, leased)).released, ())
        expect(await take(portable), [])

    @pytest.mark.parametrize("comes_first", ["parent", "child"])
    async def test_a_job_others_depend_on_is_not_pruned(
        self, portable: OpenStore, comes_first: str
    ) -> None:
        parent = a_job(name="parent", status=JobStatus.COMPLETED)
        child = a_job(name="child", dependencies=[parent.id], status=JobStatus.READY)
        for batch in _turned([[KeptJob(parent)], [KeptJob(child)]], comes_first == "child"):
            await portable.load(batch, NOW)
        expect((await portable.prune(NOW, 10)).removed, 0)
        (leased,) = await take(portable)
        await end(portable, leased)
        expect((await portable.prune(NOW + MINUTE, 10)).removed, 2)

    async def test_the_same_key_is_the_same_job_as_before(self, portable: OpenStore) -> None:
        kept = a_job(name="report", idempotency_key="today", payload={"a": 1})
        await portable.load([KeptJob(kept)], NOW)
        (answer,) = await portable.insert([replace(kept, id=a_job().id)], NOW)
        expect((answer.is_existing, answer.job), (True, kept))

    async def test_a_job_that_is_due_later_is_leased_later(self, portable: OpenStore) -> None:
        later = a_job(name="later", due_at=NOW + MINUTE)
        await portable.load([KeptJob(later)], NOW)
        expect(await take(portable), [])
        expect(await portable.next_due_at(NOW), later.due_at)
        expect([job.id for job in await take(portable, NOW + MINUTE)], [later.id])

    async def test_an_unreadable_job_is_kept_and_never_leased(self, portable: OpenStore) -> None:
        parent = a_job(name="ended", status=JobStatus.COMPLETED)
        unreadable = _unreadable(parent)
        child = a_job(name="child", dependencies=[unreadable.job_id])
        records: list[Record] = [unreadable, KeptJob(child), KeptJob(parent)]
        await portable.load(records, NOW)
        expect(await take(portable, NOW + MINUTE), [])
        expect((await portable.prune(NOW + MINUTE, 10)).removed, 0)
        expect_same(await dump_all(portable), records)

    @pytest.mark.parametrize("outcome", [Succeeded(), Discarded("it is of no use")])
    async def test_an_unreadable_job_stays_when_its_dependencies_end(
        self, portable: OpenStore, outcome: Outcome
    ) -> None:
        parent = a_job(name="parent")
        unreadable = _unreadable(parent)
        child = a_job(name="child", dependencies=[unreadable.job_id])
        await portable.load([unreadable, KeptJob(parent), KeptJob(child)], NOW)
        (leased,) = await take(portable)
        await portable.apply([decide_outcome(leased, outcome, NOW)], NOW)
        expect(await take(portable, NOW + MINUTE), [])
        expect((await portable.prune(NOW + MINUTE, 10)).removed, 0)
        kept = [each for each in await dump_all(portable) if isinstance(each, UnreadableJob)]
        expect(kept, [unreadable])
        waiting = await portable.get(child.tenant, [child.id])
        expect(waiting[child.id].status, JobStatus.PENDING)


class PortableStoreContract(RecordsContract, GoingOnContract):
    """Every promise of ``PortableStore``; ``store_factory`` gives stores of documents and jobs."""


async def dump_all(store: PortableStore, limit: int = 1000) -> list[Record]:
    """Everything a store keeps."""
    portion = await store.dump(limit=limit)
    records = list(portion.records)
    while portion.cursor is not None:
        portion = await store.dump(portion.cursor, limit)
        records += portion.records
    return records


def expect_same(actual: Sequence[Record], expected: Sequence[Record]) -> None:
    """Fail when not all is the same, and name what is not."""
    found, wanted = in_order(actual), in_order(expected)
    expect([_name_of(each) for each in found], [_name_of(each) for each in wanted])
    for one, other in zip(found, wanted, strict=True):
        expect(one, other)


def in_order(records: Sequence[Record]) -> list[Record]:
    """The same in an order that does not depend on the store."""
    return sorted(records, key=_name_of)


def _name_of(record: Record) -> tuple[str, ...]:
    if isinstance(record, KeptDocument):
        return "document", record.collection, record.key
    return "job", record.job.id if isinstance(record, KeptJob) else record.job_id


def records_of_every_sort() -> list[Record]:
    """Jobs at every stage with all that a job may have, documents, and a job beyond reading."""
    ready = a_job(
        name="ready",
        tenant="tëst",
        payload={"z": [1, 2.5, None, True], "a": {"😀": "\0"}},
        idempotency_key="key",
        occurrence="3",
        trace="00-1-2-03",
        last_token=3,
        attempt_count=1,
        last_error="it broke\nin two lines",
    )
    failed = a_job(name="failed", status=JobStatus.FAILED, ending=Ending.EXHAUSTED, last_token=2)
    completed = a_job(name="completed", status=JobStatus.COMPLETED, last_token=1)
    jobs = [
        KeptJob(ready, (_attempt(ready, 1, 3),)),
        KeptJob(failed, (_attempt(failed, 1, 1), _attempt(failed, 2, 2))),
        KeptJob(completed),
        KeptJob(_series()),
        KeptJob(_running(), (_attempt(_running(), 1, 4),)),
        KeptJob(a_job(name="waits", dependencies=[completed.id, ready.id], auto_remove=True)),
        KeptJob(a_job(name="blocked", dependencies=[failed.id], status=JobStatus.BLOCKED)),
    ]
    documents = [
        KeptDocument("tasks", "a", 7, b""),
        KeptDocument("tasks", "b/ä", 1, bytes(range(256))),
        KeptDocument("tâches", "a", 1 << 40, b"{}"),
    ]
    return [*jobs, *documents, _unreadable(completed)]


def _series() -> Job:
    return a_job(
        name="series",
        priority=9,
        due_at=NOW + MINUTE,
        recurrence=Recurrence(
            interval="24h", start=NOW, count=3, overlap="queue", catch_up="all", jitter="5m"
        ),
        occurrence_at=NOW,
        origin=a_job().id,
        missed_count=2,
        is_paused=True,
        deferral=Deferral(until=NOW + MINUTE, reason="quiet hours", count=2),
        replaces=a_job().id,
    )


def _running() -> Job:
    (job_id,) = make_job_ids(NOW, random_bits=99, count=1)
    running = a_job(name="running", id=job_id, status=JobStatus.RUNNING, loss_count=1)
    if running.lease is None:
        raise AssertionError("a job that runs has a lease")
    lease = replace(running.lease, token=5, taken_at=NOW - MINUTE, until=NOW + MINUTE / 2)
    return replace(running, lease=lease, last_token=5)


def _attempt(job: Job, number: int, token: int) -> Attempt:
    return Attempt(
        job_id=job.id,
        number=number,
        token=token,
        worker="a worker",
        started_at=NOW - MINUTE,
        ended_at=NOW,
        outcome="failed",
        error="Traceback: it broke",
    )


def _unreadable(parent: Job) -> UnreadableJob:
    content = b'{"store":"other","reason":"it is not JSON","kept":{"body":"AP8="}}'
    return UnreadableJob(a_job().id, "default", "default", (parent.id,), content)


def _turned(batches: Sequence[Sequence[Record]], is_turned: bool) -> Sequence[Sequence[Record]]:  # noqa: FBT001 - a condition of the caller's
    return batches[::-1] if is_turned else batches
