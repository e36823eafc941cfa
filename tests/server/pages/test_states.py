"""One vocabulary: the words and numbers of states on every page are those of the list."""

import re
from collections import Counter
from html import unescape

import httpx2
from tests.browser.stage.story import HOUR, MINUTE, Story, fill_with_story
from tests.server.pages.conftest import START

from rota.jobs import JobState, find_state
from rota.jobs.job_state import NOT_DUE
from rota.server.pages.jobs import MOST_SHOWN
from rota.stores.opened import OpenStore

TAB = re.compile(r'href="[^"]*state=([a-z]+)[^"]*"[^>]*>\s*([a-z]+) <span class="count">([0-9]+)<')
ROW = re.compile(r'<td data-label="State"><span class="status [^"]*"><svg.*?</svg>([a-z]+)</span>')


async def count_all(store: OpenStore) -> Counter[JobState]:
    counts: Counter[JobState] = Counter()
    cursor: str | None = None
    while True:
        page = await store.find("default", None, cursor, 100)
        counts.update(find_state(job, START) for job in page.items)
        cursor = page.next_cursor
        if cursor is None:
            return counts


async def read(pages: httpx2.AsyncClient, path: str) -> str:
    answer = await pages.get(f"/admin{path}")
    assert answer.status_code == 200, path
    return unescape(answer.text)


async def test_tabs_rows_and_filter_share_their_words_and_numbers(
    store: OpenStore, pages: httpx2.AsyncClient
) -> None:
    await fill_with_story(store, START)
    counts = await count_all(store)
    assert len(counts) >= 8
    tabs = TAB.findall(await read(pages, "/jobs/counts"))
    assert all(state == word for state, word, _ in tabs)
    shown = {JobState(word): int(number) for _, word, number in tabs}
    assert {state: number for state, number in shown.items() if number} == counts
    options = re.search('<select id="state".*?</select>', await read(pages, "/jobs"), re.DOTALL)
    assert options is not None
    assert re.findall('value="([a-z]+)"', options[0]) == list(JobState)
    for state, number in counts.items():
        rows = ROW.findall(await read(pages, f"/jobs?state={state}"))
        assert set(rows) == {state}
        assert len(rows) == min(number, MOST_SHOWN)


async def test_figures_of_the_overview_and_of_queues_are_those_of_the_list(
    store: OpenStore, pages: httpx2.AsyncClient
) -> None:
    story = await fill_with_story(store, START)
    await story.start(await story.ask("Lost", "mail", ago=HOUR), 30 * MINUTE)
    counts = await count_all(store)
    assert counts[JobState.STALLED] == 1
    overview = await read(pages, "")
    figures = dict(re.findall(r"</svg>([A-Z][a-z ]+)</dt>\s*<dd><a[^>]*>([0-9]+)\+?<", overview))
    for state in (
        JobState.DUE,
        JobState.RUNNING,
        JobState.STALLED,
        JobState.PENDING,
        JobState.DEAD,
    ):
        assert int(figures[state.capitalize()]) == counts[state], state
    not_due = sum(counts[state] for state in NOT_DUE)
    assert int(figures["Not due"]) == not_due > 0
    assert f"state={'%2C'.join(NOT_DUE)}" in overview
    rows = ROW.findall(await read(pages, f"/jobs?state={','.join(NOT_DUE)}"))
    assert len(rows) == not_due
    assert set(rows) <= set(NOT_DUE)
    assert ">Later<" not in overview + await read(pages, "/queues")
    mail = await read(pages, "/queues/mail")
    assert 'href="/admin/jobs?state=due&queue=mail"' in mail


async def test_counts_follow_the_filter_and_its_mistakes(
    story: Story, pages: httpx2.AsyncClient
) -> None:
    await story.ask("Welcome", "mail")
    await story.ask("Goodbye", "slow")
    tabs = TAB.findall(await read(pages, "/jobs/counts?q=welcome"))
    assert ("due", "due", "1") in tabs
    assert ("due", "due", "2") in TAB.findall(await read(pages, "/jobs/counts"))
    assert TAB.findall(await read(pages, "/jobs/counts?q=colour:red")) == []
    assert (await pages.get("/admin/jobs/counts?state=late")).status_code == 400


async def test_a_search_for_another_tenant_offers_to_look_there(
    store: OpenStore, pages: httpx2.AsyncClient
) -> None:
    await fill_with_story(store, START, "acme")
    page = await read(pages, "/jobs?q=tenant:acme+welcome")
    assert "Search in acme" in page
    assert "Welcome mail" not in page
    wanted = re.search('name="next" value="([^"]+)"', page)
    assert wanted is not None
    sent = await pages.post("/admin/tenants", data={"tenant": "acme", "next": wanted[1]})
    assert sent.headers["location"] == "/admin/jobs?q=welcome"
    assert "Welcome mail" in await read(pages, "/jobs?q=tenant:acme+welcome")
    away = {"tenant": "acme", "next": "https://evil.example/admin"}
    assert (await pages.post("/admin/tenants", data=away)).headers["location"] == "/admin"


async def test_next_runs_lead_to_the_pages_of_their_series_and_tasks(
    store: OpenStore, pages: httpx2.AsyncClient
) -> None:
    await fill_with_story(store, START)
    overview = await read(pages, "")
    links = re.findall(r'<td><a class="title" href="/admin(/schedules/[^"]+)"', overview)
    assert any(link.startswith("/schedules/series/") for link in links)
    assert "/schedules/tasks/Refresh%20rates" in links
    for link in links:
        await read(pages, link)
