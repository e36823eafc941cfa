"""The list of jobs: ranges in the search, and the payload in the rows."""

import re
from datetime import timedelta

import httpx2
import pytest
from tests.browser.stage.story import MINUTE, Story
from tests.server.pages.conftest import START

from rota.search.query import FIELDS
from rota.server.pages.formats import LONGEST_EXCERPT, excerpt
from rota.server.pages.jobs import HINTS

HOUR = timedelta(hours=1)
ROW = re.compile(r'<a class="title" href="/admin/jobs/[0-9a-f-]{36}">([^<]*)</a>')


async def find(pages: httpx2.AsyncClient, text: str, **filters: str) -> list[str]:
    answer = await pages.get("/admin/jobs", params={"q": text, **filters})
    assert answer.status_code == 200, answer.text
    return ROW.findall(answer.text)


async def test_the_page_finds_jobs_by_priority_and_time(
    story: Story, pages: httpx2.AsyncClient
) -> None:
    await story.ask("old", priority=9, ago=30 * HOUR)
    await story.ask("late", priority=7, ago=3 * HOUR)
    await story.ask("new", priority=2, ago=MINUTE, due_at=START + HOUR)
    assert await find(pages, "priority:7..") == ["late", "old"]
    assert await find(pages, "priority:..3") == ["new"]
    assert await find(pages, "priority:7") == ["late"]
    assert await find(pages, "created:2h..") == ["new"]
    assert await find(pages, "created:..1d") == ["old"]
    assert await find(pages, "created:2d..", since="1d") == ["new", "late"]
    assert await find(pages, "created:2026-10-22") == ["old"]
    assert await find(pages, "due:..now priority:..8") == ["late"]
    assert await find(pages, "due:now..+2h") == ["new"]
    counts = (await pages.get("/admin/jobs/counts", params={"q": "created:4h.."})).text
    assert re.search(r"scheduled\s*<span[^>]*>1<", counts)
    assert re.search(r"due\s*<span[^>]*>1<", counts)


async def test_a_date_is_a_day_in_the_zone_of_the_pages(
    story: Story, pages: httpx2.AsyncClient
) -> None:
    await story.ask("before midnight in Tokyo", ago=19 * HOUR)
    await story.ask("after midnight in Tokyo", ago=18 * HOUR)
    assert len(await find(pages, "created:2026-10-22")) == 2
    chosen = {"theme": "", "zone": "Asia/Tokyo", "back": "/admin/jobs"}
    await pages.post("/admin/preferences", data=chosen)
    assert await find(pages, "created:2026-10-22") == ["before midnight in Tokyo"]


@pytest.mark.parametrize("text", ["created:<2h", "priority:high", "due:tomorrow.."])
async def test_a_bad_range_is_explained_on_the_page(pages: httpx2.AsyncClient, text: str) -> None:
    answer = await pages.get("/admin/jobs", params={"q": text})
    assert answer.status_code == 400
    shown = text.replace("<", "&lt;")
    assert f"The search has {shown}; write " in answer.text


def test_the_hints_name_every_field() -> None:
    typed = " ".join(f"{typed} {finds}" for typed, finds in HINTS)
    for name in FIELDS:
        assert f"{name}:" in typed
    assert "payload." in typed


async def test_a_row_has_the_beginning_of_its_payload_without_secrets(
    story: Story, pages: httpx2.AsyncClient
) -> None:
    await story.ask("Charge", payload={"order": 4711, "api_key": "s3cr3t", "note": "n" * 200})
    await story.ask("Nothing to see")
    text = (await pages.get("/admin/jobs")).text
    assert "s3cr3t" not in text
    assert "&#34;order&#34;:4711,&#34;api_key&#34;:&#34;(hidden)&#34;" in text
    assert "n" * 100 not in text
    assert text.count('class="under mono clip line"') == 1


def test_an_excerpt_is_short_and_masks_before_it_cuts() -> None:
    assert excerpt({}, ()) == excerpt(None, ()) == excerpt([], ()) == ""
    assert excerpt(0, ()) == "0"
    assert excerpt({"a": [1, {"b": None}]}, ()) == '{"a":[1,{"b":null}]}'
    assert excerpt({"text": "x\u202ey"}, ()) == '{"text":"x\\u202ey"}'
    address = "x" * (LONGEST_EXCERPT - 30) + " mysql://user:passphrase@host/" + "y" * 100
    assert "passph" not in excerpt([address], ())
    larges: list[object] = [[[1, 2, 3]] * 10_000, {str(number): {} for number in range(10_000)}]
    for large in larges:
        text = excerpt(large, ())
        assert (len(text), text[-1]) == (LONGEST_EXCERPT + 1, "…")
