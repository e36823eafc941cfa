"""What all stores share in being taken elsewhere."""

import json
from datetime import UTC, datetime

import pytest
from tests.unit.stores.kernel.stored import StoredJobs

from rota.errors import InvalidCursorError, InvalidInputError, InvalidJobError
from rota.jobs import PAUSED_UNTIL, JobStatus
from rota.stores.kernel.records import (
    PORTION_SIZE,
    JobPortion,
    check_job_ids,
    check_portion,
    cut_at_size,
    describe_unreadable,
    load_jobs,
    make_stand_in,
    seal,
    unseal,
    walk,
)
from rota.stores.protocol import KeptDocument, KeptJob, UnreadableJob
from rota.testing import a_job


def test_an_id_that_no_server_can_keep_is_named() -> None:
    good = KeptJob(a_job())
    check_job_ids([good, KeptDocument("tasks", "any key", 1, b"")])
    strange = UnreadableJob("not-a-uuid", "default", "default", (), b"{}")
    for bad in (KeptJob(a_job(id=a_job().id.upper())), strange):
        with pytest.raises(InvalidJobError, match="must be a UUID in lower case, got"):
            check_job_ids([good, bad])
    long = UnreadableJob("x" * 41, "default", "default", (), b"{}")
    with pytest.raises(InvalidJobError, match=f'got "{"x" * 40}"$') as refusal:
        check_job_ids([long])
    assert refusal.value.details["field"] == "id"


def test_the_stand_in_for_an_unreadable_job_is_never_due_and_never_ends() -> None:
    parent = a_job()
    job = make_stand_in(UnreadableJob(a_job().id, "acme", "mail", (parent.id,), b"{}"))
    assert (job.status, job.due_at) == (JobStatus.READY, PAUSED_UNTIL)
    assert (job.tenant, job.queue, job.dependencies) == ("acme", "mail", (parent.id,))


def test_a_portion_ends_with_the_item_that_fills_it() -> None:
    half = PORTION_SIZE // 2
    assert list(cut_at_size([1, 2, 3, 4], lambda _: half)) == [1, 2]
    assert list(cut_at_size([1, 2], lambda _: PORTION_SIZE)) == [1]
    assert list(cut_at_size([1, 2, 3], lambda _: 1)) == [1, 2, 3]


NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def test_a_copy_goes_on_after_the_last_document_then_after_the_last_job() -> None:
    document, job = KeptDocument("tasks", "a", 1, b""), KeptJob(a_job())
    documents = {("", ""): [document], ("tasks", "a"): []}
    jobs = {"": JobPortion([job], "x"), "x": JobPortion([], None)}

    async def read_documents(collection: str, key: str) -> list[KeptDocument]:
        return documents[collection, key]

    async def read_jobs(place: str) -> JobPortion:
        return jobs[place]

    found = []
    cursor = None
    while True:
        portion = await walk(cursor, read_documents, read_jobs)
        found.append(list(portion.records))
        cursor = portion.cursor
        if cursor is None:
            break
    assert found == [[document], [job], []]


@pytest.mark.parametrize(
    "cursor",
    [
        *("", "{}", "[]", "[1]", '["documents"]', '["documents", "a"]'),
        *('["documents", "a", "b", "c"]', '["jobs"]', '["jobs", "a", "b"]', '["others", "a"]'),
    ],
)
async def test_a_cursor_of_another_sort_is_refused(cursor: str) -> None:
    async def read(*place: str) -> JobPortion:
        raise AssertionError(place)

    with pytest.raises(InvalidCursorError, match="is not from this store"):
        await walk(cursor, read, read)  # type: ignore[arg-type] # neither is called


def test_a_portion_has_at_least_one_record() -> None:
    assert check_portion(1) == 1
    with pytest.raises(InvalidInputError, match="limit must be at least 1, got 0") as refusal:
        check_portion(0)
    assert refusal.value.details["field"] == "limit"


def test_a_loaded_job_whose_id_or_key_exists_is_left_out() -> None:
    old = a_job(idempotency_key="key")
    twin, new = a_job(idempotency_key="key"), a_job(idempotency_key="other")
    records = [KeptJob(old), KeptJob(twin), KeptJob(new), KeptJob(new)]
    writes, count = StoredJobs(old).decide(load_jobs(records, NOW))
    assert count == 1
    assert set(writes.new) == {new.id}
    keyless = StoredJobs(a_job()).decide(load_jobs([KeptJob(a_job()), KeptJob(a_job())], NOW))
    assert keyless.answer == 2


def test_a_load_wakes_no_listener() -> None:
    ready, ended = a_job(), a_job(status=JobStatus.COMPLETED)
    writes, _ = StoredJobs().decide(load_jobs([KeptJob(ready), KeptJob(ended)], NOW))
    assert len(writes.new) == 2
    assert (writes.ready_partitions(), writes.ended_jobs()) == (set(), set())


def test_a_loaded_job_counts_what_it_waits_for_and_who_waits_for_it() -> None:
    done, waiting = a_job(status=JobStatus.COMPLETED), a_job()
    child = a_job(dependencies=[done.id, waiting.id])
    outside = a_job()
    last = a_job(dependencies=[child.id, outside.id])
    records = [KeptJob(each) for each in (last, child, waiting)]
    writes, count = StoredJobs(done, outside).decide(load_jobs(records, NOW))
    assert count == 3
    assert {each: (new.open_count, new.is_awaited) for each, new in writes.new.items()} == {
        last.id: (2, False),
        child.id: (1, True),
        waiting.id: (0, True),
    }
    assert writes.awaited == {done.id, outside.id}


def test_a_job_that_waits_already_counts_a_parent_that_is_loaded_as_ended() -> None:
    first, second = a_job(), a_job()
    child = a_job(dependencies=[first.id, second.id])
    done = a_job(id=first.id, status=JobStatus.COMPLETED)
    early = StoredJobs(first, second, child)

    class WithoutParents(StoredJobs):
        """The child came before its parents."""

        def answer(self, query: object) -> object:
            found = early.answer(query)
            if isinstance(found, dict):
                gone = {first.id, second.id} if type(query).__name__ == "ReadStatuses" else set()
                return {each: value for each, value in found.items() if each not in gone}
            return found

    writes, count = WithoutParents().decide(load_jobs([KeptJob(done), KeptJob(second)], NOW))
    assert count == 2
    (placed,) = writes.placed.values()
    assert (placed.waiting.job_id, placed.status, placed.open_count) == (
        child.id,
        JobStatus.PENDING,
        1,
    )
    assert {each: new.is_awaited for each, new in writes.new.items()} == {
        first.id: True,
        second.id: True,
    }


def test_an_unreadable_job_says_where_it_came_from_and_why_it_cannot_be_read() -> None:
    content = describe_unreadable("redis", "no kind", {"id": "1"})
    assert json.loads(content) == {"store": "redis", "reason": "no kind", "kept": {"id": "1"}}
    assert unseal(seal(content)) == content
    assert unseal(content) is None
