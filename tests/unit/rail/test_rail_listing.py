"""Lists of a tenant's jobs by specification 3's states."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.rail.driving import run_due, take

from rota.errors import InvalidInputError
from rota.jobs import Discarded, Failed, Outcome, RetryPolicy
from rota.jobs.states import RailWord
from rota.rail import Rail
from rota.stores.memory import MemoryStore
from rota.testing import VirtualClock

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
ONCE = RetryPolicy(max_attempts=1)
ENDS: dict[RailWord, Outcome | None] = {
    "dlq": Failed("boom"),
    "failed": Discarded("hopeless"),
    "done": None,
}


async def test_lists_follow_the_words_of_the_specification(rail: Rail, store: MemoryStore) -> None:
    ids: dict[RailWord, str] = {}
    for word, outcome in ENDS.items():
        ids[word] = await rail.schedule_once(word, {}, run_at=NOW, retry_policy=ONCE)
        await run_due(store, NOW, outcome)
    ids["processing"] = await rail.schedule_once("processing", {}, run_at=NOW)
    await take(store, NOW)
    ids["queued"] = await rail.schedule_once("queued", {}, run_at=NOW)
    for word, job_id in ids.items():
        page = await rail.list(state=word)
        assert [(job.job_id, job.state) for job in page.items] == [(job_id, word)]
    assert len((await rail.list()).items) == 5
    assert [job.kind for job in (await rail.list(kind="done")).items] == ["done"]


async def test_a_state_that_is_none_is_refused(rail: Rail) -> None:
    with pytest.raises(InvalidInputError, match="state must be one of queued, processing, "):
        await rail.list(state="dead")  # type: ignore[arg-type] # the point


async def test_pages_lead_on_and_end(rail: Rail, clock: VirtualClock) -> None:
    for number in range(7):
        await rail.schedule_once("odd" if number % 2 else "even", {"n": number}, run_at=NOW)
        await clock.advance(timedelta(seconds=1))
    seen: list[int] = []
    cursor = None
    pages = 0
    while True:
        page = await rail.list(state="queued", kind="even", cursor=cursor, limit=2)
        seen += [job.payload["n"] for job in page.items]
        pages += 1
        cursor = page.next_cursor
        if cursor is None:
            break
    assert (seen, pages) == ([6, 4, 2, 0], 2)
    whole = await rail.list(limit=7)
    assert (len(whole.items), whole.next_cursor) == (7, None)
    with pytest.raises(InvalidInputError, match="limit must be"):
        await rail.list(limit=0)
