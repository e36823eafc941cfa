"""Expensive results are cached for a short time."""

import asyncio

import httpx2
import pytest
from tests.browser.stage.story import Story

from rota.server.pages import visit
from rota.server.pages.visit import RecentResults


class _Watch:
    """Shows what it is told to."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


async def test_an_expensive_result_is_kept_in_proportion() -> None:
    watch, asked = _Watch(), list[int]()
    recent = RecentResults(watch)

    async def load() -> int:
        asked.append(1)
        watch.seconds += 0.5
        return len(asked)

    assert await recent.get("t", "q", load) == 1
    watch.seconds += 3.9
    assert await recent.get("t", "q", load) == 1
    assert await recent.get("other", "q", load) == 2
    watch.seconds += 0.2
    assert await recent.get("t", "q", load) == 3
    recent.forget("t")
    assert await recent.get("t", "q", load) == 4


async def test_a_cheap_result_is_never_kept() -> None:
    watch, asked = _Watch(), list[int]()
    recent = RecentResults(watch)

    async def load() -> int:
        asked.append(1)
        watch.seconds += 0.05
        return len(asked)

    assert [await recent.get("t", "q", load) for _ in range(2)] == [1, 2]


async def test_concurrent_callers_share_one_load() -> None:
    recent, asked, begun, answer = RecentResults(), list[int](), asyncio.Event(), asyncio.Event()

    async def load() -> str:
        asked.append(1)
        begun.set()
        await answer.wait()
        return "found"

    both = asyncio.gather(*(recent.get("t", "q", load) for _ in range(5)))
    await begun.wait()
    answer.set()
    assert await both == ["found"] * 5
    assert asked == [1]


async def test_an_error_is_raised_and_not_kept() -> None:
    recent = RecentResults()

    async def fail() -> str:
        raise ValueError("no")

    async def succeed() -> str:
        return "yes"

    with pytest.raises(ValueError, match="no"):
        await recent.get("t", "q", fail)
    assert await recent.get("t", "q", succeed) == "yes"


async def test_what_a_form_changes_shows_at_once(
    story: Story, pages: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visit, "CHEAP_SECONDS", -1.0)
    monkeypatch.setattr(visit, "KEPT_TIMES", 1e9)
    await story.ask("Welcome", "mail")
    assert "mail" in (await pages.get("/admin/queues")).text
    await story.ask("Receipt", "billing")
    assert "billing" not in (await pages.get("/admin/queues")).text
    await pages.post("/admin/queues/mail", data={"action": "pause", "why": "it is down"})
    shown = (await pages.get("/admin/queues")).text
    assert "billing" in shown
    assert "it is down" in shown
