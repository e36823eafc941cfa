"""The pages of queues, errors and tenants, as they are sent."""

import re

import httpx2
import pytest
from tests.browser.stage.story import fill_with_story
from tests.server.pages.conftest import START, Knock, sign_in

from rota.ops.queues import QueueReport
from rota.rail import read_audit
from rota.server.pages.statuses import sign_of
from rota.stores.opened import OpenStore


async def read(pages: httpx2.AsyncClient, path: str) -> str:
    answer = await pages.get(f"/admin{path}")
    assert answer.status_code == 200, answer.text
    return re.sub(r"<[^>]+>|\s+", " ", answer.text)


async def test_a_queue_is_paused_limited_and_resumed_on_its_page(
    store: OpenStore, pages: httpx2.AsyncClient
) -> None:
    await fill_with_story(store, START)
    path = "/admin/queues/mail"
    sent = await pages.post(path, data={"action": "pause", "why": "it is down"})
    assert (sent.status_code, sent.headers["location"]) == (303, f"{path}?done=queue-paused")
    shown = re.sub(" +", " ", await read(pages, "/queues"))
    assert "paused now by host: it is down" in shown
    assert "Paused: queue mail of tenant default." in shown
    limit = {"running": "3", "rate_count": "10", "rate_per": "1m", "why": "gently"}
    await pages.post(f"{path}/limit", data=limit)
    page = await read(pages, "/queues/mail")
    assert "at most 3 running" in page
    assert "10 per 1 min" in page
    bad = await pages.post(f"{path}/limit", data={"rate_count": "1", "rate_per": "soon"})
    assert "must be a length of time such as 90s or 1h30m, got &#34;soon&#34;" in bad.text
    assert f'hx-get="{path}"' in bad.text, "a page with a problem refreshes itself, too"
    bad = await pages.post(f"{path}/limit", data={"running": "many"})
    assert bad.status_code == 400
    assert "running must be a whole number" in bad.text
    await pages.post(path, data={"action": "resume"})
    await pages.post(f"{path}/limit", data={"action": "clear"})
    page = await read(pages, "/queues/mail")
    assert "Paused for" not in page
    assert "No limit." in page
    actions = [it.action async for it in read_audit(store, "default") if it.who == "host"]
    assert sorted(actions) == ["clear_limit", "pause_queue", "resume_queue", "set_limit"]
    assert (await pages.get("/admin/queues/none")).status_code == 404
    assert (await pages.get("/admin/queues/no%20name")).status_code == 404


async def test_several_queues_are_paused_and_resumed_at_once_for_one_reason(
    store: OpenStore, pages: httpx2.AsyncClient
) -> None:
    await fill_with_story(store, START)
    await pages.post("/admin/queues/billing", data={"action": "pause", "why": "moving"})
    chosen = {"id": ["mail", "imports", "billing", "unknown"]}
    sent = await pages.post(
        "/admin/queues", data={**chosen, "action": "pause", "why": "it is down"}
    )
    location = "/admin/queues?done=queue-paused&count=2"
    assert (sent.status_code, sent.headers["location"]) == (303, location)
    shown = await read(pages, "/queues?done=queue-paused&count=2")
    assert "2 queues paused." in shown
    assert shown.count("by host: it is down") == 2
    assert shown.count("by host: moving") == 1  # it was paused before, and keeps its reason
    sent = await pages.post("/admin/queues", data={**chosen, "action": "resume", "why": "it is up"})
    assert sent.headers["location"] == "/admin/queues?done=queue-resumed&count=3"
    entries = [it async for it in read_audit(store, "default") if it.who == "host"]
    assert sorted((it.action, it.details["queue"], it.why) for it in entries) == [
        ("pause_queue", "billing", "moving"),
        ("pause_queue", "imports", "it is down"),
        ("pause_queue", "mail", "it is down"),
        ("resume_queue", "billing", "it is up"),
        ("resume_queue", "imports", "it is up"),
        ("resume_queue", "mail", "it is up"),
    ]


async def test_the_list_says_what_applies_to_a_queue_and_that_nothing_changed(
    store: OpenStore, pages: httpx2.AsyncClient
) -> None:
    await fill_with_story(store, START)
    wide = {"id": "mail", "whose": "all", "action": "pause", "why": "it is down"}
    await pages.post("/admin/queues", data=wide)
    text = (await pages.get("/admin/queues")).text
    allowed = dict(re.findall(r'name="id" value="([^"]+)"[^>]* data-allows="([^"]*)"', text))
    assert (allowed["mail"], allowed["imports"]) == ("resume", "pause")
    assert "for all tenants" in text
    for data in ({"action": "pause"}, {"id": "mail", "action": "resume", "whose": "own"}):
        sent = await pages.post("/admin/queues", data=data)
        assert sent.headers["location"] == "/admin/queues?done=queue-unchanged&count=0"
    assert "0 changes: the action applies to no selected queue." in await read(
        pages, "/queues?done=queue-unchanged&count=0"
    )
    refused = await pages.post("/admin/queues", data={"id": "mail", "action": "stop"})
    assert (refused.status_code, "action must be pause or resume" in refused.text) == (400, True)


async def test_readers_see_no_boxes_and_operators_do_not_choose_all_tenants(
    store: OpenStore, knock: Knock
) -> None:
    await fill_with_story(store, START)
    reader, operator = knock("read"), knock("read+operate")
    await sign_in(reader, "read")
    await sign_in(operator, "read+operate")
    assert 'name="id"' not in (await reader.get("/admin/queues")).text
    text = (await operator.get("/admin/queues")).text
    assert 'name="id"' in text
    assert "Whose jobs" not in text
    data = {"id": "mail", "action": "pause"}
    assert (await reader.post("/admin/queues", data=data)).status_code == 403
    assert (await operator.post("/admin/queues", data={**data, "whose": "all"})).status_code == 403
    assert (await operator.post("/admin/queues", data=data)).status_code == 303


@pytest.mark.parametrize("range_", ["15m", "1h", "6h", "1d", "7d", "30d", "never"])
async def test_charts_show_the_chosen_range(
    store: OpenStore, pages: httpx2.AsyncClient, range_: str
) -> None:
    await fill_with_story(store, START)
    page = await read(pages, f"?range={range_}")
    words = {"1d": "24 hours", "7d": "7 days", "30d": "30 days", "15m": "15 minutes"}
    label = words.get(range_, "6 hours" if range_ == "6h" else "hour")
    assert f"failed in the last {label}" in page
    assert "99 % within" in page
    assert "failed attempts of 2 kinds" in page


async def test_a_group_of_errors_is_retried_and_the_rest_discarded_after_a_question(
    store: OpenStore, pages: httpx2.AsyncClient
) -> None:
    await fill_with_story(store, START)
    listed = (await pages.get("/admin/errors?kind=feed.import")).text
    (path,) = set(re.findall(r'href="(/admin/errors/[0-9a-f]+)"', listed))
    page = await read(pages, path.removeprefix("/admin"))
    assert "ConnectionError" in page
    assert "3 dead letters, not retried yet" in page
    asked = await pages.post(path, data={"action": "discard", "why": "old"})
    assert "Discard 3 dead letters of ConnectionError?" in asked.text
    sent = await pages.post(path, data={"action": "retry"})
    assert sent.headers["location"] == f"{path}?done=retried&count=3"
    assert "No dead letters left" in await read(pages, path.removeprefix("/admin"))
    gone = await pages.post(path, data={"action": "discard", "confirmed": "yes"})
    assert gone.headers["location"] == f"{path}?done=discarded&count=0"


async def test_an_admin_of_the_default_tenant_looks_at_another_tenant(
    store: OpenStore, pages: httpx2.AsyncClient
) -> None:
    await fill_with_story(store, START, "acme")
    page = await read(pages, "/tenants")
    assert page.index("acme") < page.index("globex")
    assert "Welcome mail" not in await read(pages, "/jobs")
    sent = await pages.post("/admin/tenants", data={"tenant": "acme"})
    cookie = sent.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Welcome mail" in await read(pages, "/jobs")
    (entry,) = [it async for it in read_audit(store, "acme") if it.action == "look_at_tenant"]
    assert entry.who == "host"
    await pages.post("/admin/tenants", data={"tenant": "default"})
    assert "Welcome mail" not in await read(pages, "/jobs")


async def test_others_neither_see_tenants_nor_switch_by_a_cookie(
    store: OpenStore, knock: Knock
) -> None:
    await fill_with_story(store, START, "acme")
    reader = knock("read+operate")
    await sign_in(reader, "read+operate")
    assert (await reader.get("/admin/tenants")).status_code == 403
    assert (await reader.post("/admin/tenants", data={"tenant": "acme"})).status_code == 403
    reader.cookies.set("rota_tenant", "acme", path="/admin")
    jobs = (await reader.get("/admin/jobs")).text
    assert "Welcome mail" not in jobs
    assert 'href="/admin/tenants"' not in jobs


async def test_a_person_of_one_tenant_is_told_that_no_other_is_searched(knock: Knock) -> None:
    reader = knock("read+operate")
    await sign_in(reader, "read+operate")
    answer = await reader.get("/admin/jobs?q=tenant:acme")
    assert answer.status_code == 400
    assert "only jobs of &#34;default&#34; are searched here" in answer.text
    assert "Search in acme" not in answer.text


async def test_the_list_draws_what_ended_in_each_queue_and_how_busy_it_is(
    store: OpenStore, pages: httpx2.AsyncClient
) -> None:
    await fill_with_story(store, START)
    text = (await pages.get("/admin/queues")).text
    rows = {
        name: row
        for row in re.findall("<tr>.*?</tr>", text, re.DOTALL)
        for name in re.findall('href="/admin/queues/([a-z]+)"', row)
    }
    assert "spark" not in rows["reports"]
    (points,) = re.findall('points="([^"]+)"', rows["mail"])
    heights = [float(point.partition(",")[2]) for point in points.split()]
    assert len(heights) == 60
    assert min(heights) == 1.0  # the highest minute fills the drawing
    assert max(heights) == 15.0  # the dip touches its bottom
    assert 'class="chart gauge"' in rows["mail"]


async def test_the_kinds_page_compares_kinds_and_links_to_a_page_for_each(
    store: OpenStore, pages: httpx2.AsyncClient
) -> None:
    await fill_with_story(store, START)
    text = (await pages.get("/admin/kinds")).text
    names = re.findall(r'<a class="title" href="/admin/kinds/([^"?]+)', text)
    assert names == ["mail.send", "feed.import", "invoice.charge"]
    rows = re.findall(r"<tr>.*?</tr>", text, re.DOTALL)
    charges = next(it for it in rows if "invoice.charge" in it)
    assert 'href="/admin/errors?kind=invoice.charge"' in charges
    assert "100.0 %" in charges


async def test_the_page_of_a_kind_has_its_own_counts_and_run_times(
    store: OpenStore, pages: httpx2.AsyncClient
) -> None:
    await fill_with_story(store, START)
    own = {kind: (await pages.get(f"/admin/kinds/{kind}")).text for kind in ("mail.send", "nil")}
    assert "0 failed in the last hour" in own["mail.send"]
    median = re.search(r"median ([\d.]+) ms, 95 % within ([\d.]+) ms", own["mail.send"])
    assert median is not None
    assert 20 < float(median[1]) < float(median[2]) <= 140  # imports take 200 ms and more
    assert "no job ran in the last hour" in own["nil"]
    assert (await pages.get("/admin/kinds/%20")).status_code == 404


@pytest.mark.parametrize(
    ("running", "due", "word"), [(0, 0, "idle"), (0, 2, "waiting"), (1, 0, "working")]
)
def test_a_queue_works_while_a_job_of_it_runs(running: int, due: int, word: str) -> None:
    queue = QueueReport(
        queue="mail",
        due_count=due,
        later_count=0,
        running_count=running,
        stalled_count=0,
        dead_count=0,
        oldest_due_at=None,
        late_seconds=0.0,
        worker_count=1,
    )
    assert sign_of(queue, START).word == word
