"""What cannot be copied is refused before anything is written, with what to do about it."""

from dataclasses import replace

import msgspec
import pytest

from rota.errors import (
    CopyRefusedError,
    InvalidInputError,
    SchemaOutdatedError,
    StoreUnavailableError,
)
from rota.fleet.presence import WORKERS, WorkerPresence
from rota.ops.store_comparison import PROBE, UNFINISHED
from rota.ops.store_copy import check_idle, plan_copy
from rota.stores.inspection import StoreInspection
from rota.stores.memory import MemoryStore
from rota.stores.migrations import AppliedMigration
from rota.stores.protocol import DocumentWrite
from rota.testing import a_job
from rota.testing.job_store_fixture import MINUTE, NOW, take

MARK = AppliedMigration(2, "jobs", is_compatible=True, checksum="")
SOURCE = StoreInspection(
    "sqlite:///a.db", "SQLite", document_counts={"tasks": 3}, job_counts={"READY": 4}
)
TARGET = StoreInspection("postgresql://db/rota", "PostgreSQL", job_counts={})


def test_a_plan_knows_how_much_there_is_and_whether_it_was_begun() -> None:
    plan = plan_copy(SOURCE, TARGET)
    assert (plan.record_count, plan.is_resumption) == (7, False)
    begun = replace(TARGET, document_counts={UNFINISHED: 1, "tasks": 2}, job_counts={"READY": 1})
    assert plan_copy(SOURCE, begun).is_resumption


def test_a_target_that_is_not_there_yet_is_fine() -> None:
    plan = plan_copy(SOURCE, replace(TARGET, exists=False, pending=(MARK,)))
    assert (plan.is_resumption, plan.is_repetition) == (False, False)


def test_a_target_that_holds_as_much_may_be_a_finished_copy() -> None:
    whole = replace(TARGET, document_counts=SOURCE.document_counts, job_counts={"FAILED": 4})
    plan = plan_copy(SOURCE, whole)
    assert (plan.is_repetition, plan.is_resumption) == (True, False)
    assert not plan_copy(SOURCE, TARGET).is_repetition
    assert not plan_copy(SOURCE, replace(TARGET, document_counts={PROBE: 1})).is_repetition
    # Stores count what cannot be read among the jobs, or do not.
    apart = replace(whole, job_counts={"FAILED": 3}, set_aside_job_count=1)
    assert plan_copy(SOURCE, apart).is_repetition
    for other in ({"tasks": 2}, {"tasks": 3, "workers": 1}):
        with pytest.raises(CopyRefusedError, match="is not empty"):
            plan_copy(SOURCE, replace(whole, document_counts=other))


@pytest.mark.parametrize("which", [0, 1])
def test_memory_is_refused(which: int) -> None:
    stores = [SOURCE, TARGET]
    stores[which] = StoreInspection("memory://", "memory")
    with pytest.raises(InvalidInputError, match="gone when its process ends"):
        plan_copy(*stores)


def test_the_same_store_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"are the same store, sqlite:///a\.db"):
        plan_copy(SOURCE, SOURCE)


def test_a_source_that_is_not_there_is_refused() -> None:
    with pytest.raises(StoreUnavailableError, match=r"There is no store at sqlite:///a\.db"):
        plan_copy(replace(SOURCE, exists=False, pending=(MARK,)), TARGET)


@pytest.mark.parametrize("which", [0, 1])
def test_a_schema_that_does_not_fit_is_refused(which: int) -> None:
    for fault, said in (({"pending": (MARK,)}, "store migrate"), ({"problem": "newer"}, "newer")):
        stores = [SOURCE, TARGET]
        stores[which] = replace(stores[which], **fault)
        with pytest.raises(SchemaOutdatedError, match=said):
            plan_copy(*stores)


def test_a_target_that_is_not_empty_is_refused_by_what_it_holds() -> None:
    with pytest.raises(CopyRefusedError, match=r"it holds 5 jobs and documents \(2 of tasks\)"):
        plan_copy(SOURCE, replace(TARGET, document_counts={"tasks": 2}, job_counts={"READY": 5}))
    with pytest.raises(CopyRefusedError, match=r"it holds 1 jobs\."):
        plan_copy(SOURCE, replace(TARGET, set_aside_job_count=1))


async def test_an_unused_store_is_idle() -> None:
    store = MemoryStore()
    await store.insert([a_job()], NOW)
    await check_idle(store, NOW)


async def test_a_store_with_leases_in_force_is_in_use_until_they_run_out() -> None:
    store = MemoryStore()
    await store.insert([a_job(), a_job()], NOW)
    await take(store)
    with pytest.raises(CopyRefusedError, match="in use: 2 jobs are leased"):
        await check_idle(store, NOW)
    await check_idle(store, NOW + 2 * MINUTE)


async def test_a_store_with_workers_is_in_use_until_they_are_gone() -> None:
    store = MemoryStore()
    for name in "abcd":
        shown = WorkerPresence(
            id=f"worker-{name}",
            host="here",
            pid=1,
            queues=None,
            tenants=None,
            kinds=(),
            concurrency=1,
            version="1",
            started_at=NOW,
            seen_at=NOW,
        )
        body = msgspec.json.encode(shown)
        await store.write_each([DocumentWrite(WORKERS, shown.id, None, body)])
    with pytest.raises(
        CopyRefusedError,
        match=r"4 workers are running \(worker-a, worker-b, worker-c, …\)\. .*--force",
    ):
        await check_idle(store, NOW)
    await check_idle(store, NOW + MINUTE)
