"""What every store on a server checks, and what it passes on to its backend."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.unit.stores.kernel.stored import StoredJobs

from rota.errors import DuplicateJobError, InvalidInputError, InvalidJobError
from rota.jobs import JobFilter, JobStatus, Page, decide_fail
from rota.stores.kernel.records import JobPortion
from rota.stores.kernel.unit import Plan
from rota.stores.kernel.verbs import PAGE_LENGTH, SqlVerbs, Work, narrow
from rota.stores.protocol import (
    Document,
    DocumentWrite,
    KeptDocument,
    KeptJob,
    QueueDepth,
    expiry_key,
)
from rota.testing import a_job

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001 - it is refused
JOB = a_job(status=JobStatus.RUNNING)
ATTEMPT = decide_fail(JOB, "boom", NOW).attempt
DEPTH = QueueDepth(queue="mail")


class Backend:
    """Notes what it is asked, and answers from a table."""

    def __init__(self, **answers: Any) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self._answers = answers

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def answer(handle: str, *given: Any) -> Any:
            assert handle == "handle"
            self.asked.append((name, *given))
            found = self._answers.get(name)
            return found(*given) if callable(found) else found

        return answer


class Store(SqlVerbs[str]):
    """A store whose backend is a table of answers."""

    def __init__(self, *, jobs: StoredJobs | None = None, **answers: Any) -> None:
        self._backend = Backend(**answers)
        self._reads = self._records = self._documents = self._backend
        self._jobs = jobs or StoredJobs()

    @property
    def asked(self) -> list[tuple[Any, ...]]:
        return self._backend.asked

    async def _run(self, work: Work[str, Any]) -> Any:
        return await work("handle")

    async def _run_plan(self, make_plan: Callable[[], Plan[Any]]) -> Any:
        return self._jobs.decide(make_plan()).answer

    @contextmanager
    def _joined(self, connection: Any) -> Iterator[str]:
        assert connection == "connection"
        yield "handle"

    async def _release(self) -> None:
        """Nothing is open."""


async def test_reads_are_of_the_tenant_that_asks_and_give_what_the_backend_found() -> None:
    page = Page([JOB], None)
    store = Store(get={"a": JOB}, results={"a": b"1"}, find=page, count=3, attempts=[ATTEMPT])
    assert await store.get("acme", ["a"]) == {"a": JOB}
    assert await store.results("acme", ["a"]) == {"a": b"1"}
    assert await store.find("acme") is page
    assert await store.find("acme", JobFilter(tenant="other", queue="q"), "cursor", 5) is page
    assert await store.count("acme", limit=9) == 3
    assert await store.attempts("acme", "a") == [ATTEMPT]
    assert store.asked == [
        ("get", "acme", ("a",)),
        ("results", "acme", ("a",)),
        ("find", JobFilter(tenant="acme"), None, 20),
        ("find", JobFilter(tenant="acme", queue="q"), "cursor", 5),
        ("count", JobFilter(tenant="acme"), 9),
        ("attempts", "acme", "a"),
    ]
    assert narrow(None, "acme") == JobFilter(tenant="acme")


async def test_lists_for_workers_are_passed_on_with_their_limits() -> None:
    store = Store(find_dependents=[JOB], survey=[DEPTH], find_expired=[JOB], next_due_at=NOW)
    assert JOB.lease is not None
    assert await store.find_dependents("acme", ["a"], 1) == [JOB]
    assert await store.survey(NOW) == [DEPTH]
    assert await store.find_expired(NOW, 1) == [JOB]
    assert await store.find_expired(NOW, 2, JOB) == [JOB]
    assert await store.next_due_at(NOW, ["q"], ["acme"]) == NOW
    assert store.asked == [
        ("find_dependents", "acme", ("a",), 1),
        ("survey", NOW, None),
        ("find_expired", NOW, 1, None),
        ("find_expired", NOW, 2, expiry_key(JOB)),
        ("next_due_at", NOW, ["q"], ["acme"]),
    ]


async def test_what_no_store_can_answer_is_refused_before_the_backend_is_asked() -> None:
    store = Store()
    refused: list[tuple[str, Callable[[], Any]]] = [
        ("limit", lambda: store.find("acme", limit=101)),
        ("limit", lambda: store.find_dependents("acme", [], 0)),
        ("limit", lambda: store.find_expired(NOW, 0)),
        ("limit", lambda: store.dump(limit=0)),
        ("limit", lambda: store.prune(NOW, 0)),
        ("queues", lambda: store.next_due_at(NOW, "mail")),
        ("tenants", lambda: store.next_due_at(NOW, None, "acme")),
        ("now", lambda: store.next_due_at(NAIVE)),
        ("now", lambda: store.survey(NAIVE)),
        ("now", lambda: store.find_expired(NAIVE, 1)),
        ("collection", lambda: anext(aiter(store.scan("")))),
        ("key", lambda: store.read("tasks", [""])),
        ("key", lambda: store.read_within("connection", "tasks", [""])),
        ("key", lambda: store.write_within("connection", [DocumentWrite("tasks", "", None, b"")])),
    ]
    for field, ask in refused:
        with pytest.raises(InvalidInputError) as refusal:
            await ask()
        assert refusal.value.details["field"] == field
    assert store.asked == []


@pytest.mark.parametrize("count", [0, 1, PAGE_LENGTH, PAGE_LENGTH + 1])
async def test_documents_are_scanned_page_by_page(count: int) -> None:
    keys = [f"{number:05}" for number in range(count)]

    def scan_page(_: str, after: str, limit: int) -> Sequence[Document]:
        return [Document(key, 1, b"") for key in keys if key > after][:limit]

    store = Store(scan_page=scan_page)
    pages = [[it.key for it in page] async for page in store.scan("tasks")]
    assert pages == [keys[at : at + PAGE_LENGTH] for at in range(0, count, PAGE_LENGTH)]
    assert len(store.asked) == count // PAGE_LENGTH + 1


async def test_documents_are_read_alone_or_in_the_transaction_of_a_caller() -> None:
    found = {"a": Document("a", 1, b"")}
    store = Store(read_documents=found)
    write = DocumentWrite("tasks", "a", None, b"")
    assert await store.read("tasks", ["a"]) == found
    assert await store.read_within("connection", "tasks", ["a"]) == found
    await store.write_within("connection", [write])
    read = ("read_documents", "tasks", ("a",))
    assert store.asked == [read, read, ("write_all", (write,))]


async def test_a_copy_takes_a_thousand_records_at_a_time() -> None:
    store = Store(read_document_portion=[], read_job_portion=JobPortion([KeptJob(JOB)], None))
    portion = await store.dump()
    assert (portion.records, portion.cursor) == ([KeptJob(JOB)], None)
    await store.dump(limit=1)
    assert store.asked == [
        ("read_document_portion", "", "", 1000),
        ("read_job_portion", "", 1000),
        ("read_document_portion", "", "", 1),
        ("read_job_portion", "", 1),
    ]


async def test_a_load_creates_documents_and_then_jobs() -> None:
    store = Store(create_documents=1)
    document, job = KeptDocument("tasks", "a", 7, b""), a_job(id="no UUID")
    assert await store.load([KeptJob(job), document], NOW) == 2
    assert store.asked == [("create_documents", [document])]
    assert await store.load([KeptJob(job)], NOW) == 1
    assert len(store.asked) == 1
    store._needs_uuids = True
    with pytest.raises(InvalidJobError):
        await store.load([document, KeptJob(job)], NOW)
    with pytest.raises(InvalidJobError):
        await store.check_insertion([job], NOW)
    assert len(store.asked) == 1


async def test_edits_answer_what_the_kernel_decides() -> None:
    job = a_job()
    store = Store(jobs=StoredJobs(job))
    amended = await store.amend("default", job.id, {"name": "new"}, NOW)
    assert (amended.name, amended.updated_at) == ("new", NOW)
    assert await store.delete("default", job.id) == job
    assert await store.erase("default", [job.id], NOW) == []
    assert (await store.prune(NOW + timedelta(days=1), 1)).removed == 0
    await store.check_insertion([a_job()], NOW)
    with pytest.raises(DuplicateJobError):
        await store.check_insertion([a_job(id=job.id, payload=5)], NOW)
    with pytest.raises(InvalidInputError):
        await store.check_insertion([], NAIVE)
