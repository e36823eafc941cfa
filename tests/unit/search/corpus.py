"""Jobs to search for, and what a search finds by the index and without it."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any

from rota.jobs import Job, JobStatus
from rota.ops.search import search_jobs
from rota.search.index import SearchedStore
from rota.search.indexer import SearchIndexer
from rota.search.query import parse_query
from rota.testing import VirtualClock, a_job

QUERIES = (
    "welcome",
    "mail send",
    "kind:mail.send",
    "kind:mail* report",
    "payload.order=7",
    "payload.customer.city=rome kind:report",
    "payload.order=1*",
    "error:Timeout",
    "error:Timeout state:failed queue:slow",
    "state:completed daily",
    "key:key-1*",
    "queue:slow welcome",
    "zebra",
    "payload.order=9999",
)


def some_jobs(count: int, start: datetime, chance: Random) -> list[Job]:
    """Jobs of all sorts, the first one the oldest."""
    return [
        _a_job(number, start + timedelta(seconds=number // 2), chance) for number in range(count)
    ]


def _a_job(number: int, created_at: datetime, chance: Random) -> Job:
    status = chance.choice([JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.READY])
    fields: dict[str, Any] = {}
    if status is JobStatus.FAILED:
        fields["last_error"] = chance.choice(["Timeout: gone", "KeyError: 'x'"])
    if chance.random() < 0.3:
        fields["idempotency_key"] = f"key-{number}-{created_at.timestamp()}"
    return a_job(
        name=chance.choice(["Send welcome mail", "Daily report", "Clean up"]),
        kind=chance.choice(["mail.send", "report"]),
        queue=chance.choice(["default", "slow"]),
        payload={
            "order": chance.randrange(40),
            "customer": {"city": chance.choice(["Rome", "Oslo"])},
        },
        status=status,
        created_at=created_at,
        **fields,
    )


def make_indexer(store: SearchedStore, clock: VirtualClock, name: str = "one") -> SearchIndexer:
    async def list_tenants() -> Sequence[str]:
        return ["default"]

    return SearchIndexer(store, clock, name, list_tenants, timedelta(0))


async def find_ids(
    store: SearchedStore, text: str, *, looks_at_all: bool = False, limit: int = 20
) -> list[str]:
    """The ids of all matches, page by page."""
    query = parse_query(text)
    query = type(query)(
        wanted=query.wanted,
        clauses=query.clauses,
        id_start=query.id_start,
        looks_at_all=looks_at_all,
    )
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await search_jobs(store, "default", query, cursor=cursor, limit=limit)
        found += [job.id for job in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return found


async def expect_same_answers(store: SearchedStore, queries: Sequence[str] = QUERIES) -> int:
    """Compare the index with a walk over all jobs. Returns how many matches there were."""
    count = 0
    for text in queries:
        walked = await find_ids(store, text, looks_at_all=True)
        assert await find_ids(store, text) == walked, text
        count += len(walked)
    return count
