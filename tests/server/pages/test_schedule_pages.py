"""The pages of series and tasks: history, next runs, forms that change them, and the calendar."""

import json
import re
from datetime import timedelta
from html import unescape
from typing import Any
from zoneinfo import ZoneInfo

import httpx2
import pytest
from tests.browser.stage.story import Story, fill_with_story
from tests.server.pages.conftest import START, Knock, sign_in

from rota.ops.schedules import (
    ScheduleDefinition,
    StoredSchedule,
    create_write,
    scan_schedules,
    settle,
)
from rota.rail import Rail, RailSettings
from rota.rail.jobs import RailContext
from rota.scheduler.declared import DECLARED, LATEST
from rota.scheduler.history import RunHistory, TaskRun
from rota.server import ServerSettings, create_app
from rota.server.pages import schedules
from rota.stores.opened import OpenStore
from rota.stores.protocol import DocumentWrite
from rota.testing import VirtualClock, seed_tasks

HOUR = timedelta(hours=1)
RULE = {"when": "0 9 * * mon-fri", "zone": "Europe/Berlin"}


async def make_series(story: Story, name: str = "Digest", **fields: Any) -> str:
    """A series with three past runs."""
    recurrence = {"cron": "0 * * * *", "zone": "Europe/Berlin"}
    job = await story.ask(name, "mail", recurrence=recurrence, ago=3 * HOUR, **fields)
    series_id, current = job.id, job
    while current.due_at < story.now:
        following = await story.run(current)
        assert following is not None
        current = following
    return series_id


async def test_a_series_has_a_page_with_its_past_and_next_runs(
    story: Story, pages: httpx2.AsyncClient
) -> None:
    series_id = await make_series(story)
    text = (await pages.get(f"/admin/schedules/series/{series_id}?zone=Asia/Tokyo")).text
    assert text.count("completed, 0 ms late, ran 3 s") >= 3
    assert "Fri 2026-10-23 12:00 CEST" in text
    assert "Fri 2026-10-23 19:00 JST" in text
    assert "3 past runs" in text
    part = await pages.get(f"/admin/schedules/series/{series_id}", headers={"HX-Request": "true"})
    assert "<form" not in part.text
    assert "History" in part.text
    bad = await pages.get(f"/admin/schedules/series/{series_id}?zone=Mars/Base")
    assert "Mars/Base" in bad.text
    assert (await pages.get("/admin/schedules/series/nonsense")).status_code in {400, 404}


async def test_a_series_is_paused_resumed_and_run_now_on_its_page(
    story: Story, pages: httpx2.AsyncClient
) -> None:
    url = f"/admin/schedules/series/{await make_series(story)}"
    assert (await pages.post(f"{url}/pause", data={"why": "too loud"})).status_code == 303
    paused = (await pages.get(url)).text
    assert ": too loud." in paused
    assert "Resume and run the missed one" in paused
    assert (await pages.post(f"{url}/resume", data={"catch_up": "yes"})).status_code == 303
    assert (await pages.post(f"{url}/run-now", data={"why": ""})).status_code == 303
    assert "due" in (await pages.get(url)).text
    assert (await pages.post(f"{url}/nonsense", data={"why": ""})).status_code == 404


async def test_schedules_are_filtered_by_name_page_by_page_and_after_an_action(
    story: Story, store: OpenStore, pages: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedules, "MOST_SERIES", 2)
    rule = {"cronExpression": "0 * * * *", "retryDelayMs": 1_000}
    await seed_tasks(store, [{"name": name, **rule} for name in ("Report disk", "Rotate logs")])
    for number in range(3):
        await make_series(story, f"Nightly report {number}")
        await make_series(story, f"Digest {number}")
    first = (await pages.get("/admin/schedules", params={"match": "report"})).text
    assert 'value="report"' in first
    assert "Digest" not in first
    assert "Processing" not in first
    assert "Report disk" in first
    assert "Rotate logs" not in first
    older = re.search(r'rel="next" href="([^"]*)"', first)
    assert older is not None
    rest = (await pages.get(unescape(older[1]))).text
    names = {f"Nightly report {number}" for number in range(3)}
    assert {name for name in names if name in first + rest} == names
    assert "Digest" not in rest
    assert 'href="/admin/schedules?match=report"' in rest
    pause = re.search(r'action="(/admin/jobs/[^"]*/pause)"', first)
    assert pause is not None
    assert '<input type="hidden" name="match" value="report">' in first
    done = await pages.post(pause[1], data={"back": "schedules", "match": "report"})
    assert done.headers["location"] == "/admin/schedules?done=paused&match=report"
    none = (await pages.get("/admin/schedules", params={"match": "we<ekly"})).text
    assert "No series matches" in none
    assert "No task matches" in none
    assert "we<ekly" not in none
    refused = await pages.get("/admin/schedules", params={"match": "x" * 256})
    assert refused.status_code == 400
    assert "at most 255 characters, got 256" in refused.text


async def test_the_payload_in_a_form_of_a_series_can_be_sent_as_it_is_shown(
    story: Story, pages: httpx2.AsyncClient
) -> None:
    url = f"/admin/schedules/series/{await make_series(story, payload={'a': [1, 2]})}"
    shown = _read_payload((await pages.get(f"{url}/edit")).text)
    assert json.loads(shown) == {"a": [1, 2]}
    given = {**RULE, "queue": "slow", "priority": "7", "payload": shown.replace("\n", "\r\n")}
    plan = (await pages.post(f"{url}/edit", data={**given, "action": "preview"})).text
    assert _read_payload(plan) == shown
    assert "payload" not in plan[plan.index("What changes") : plan.index("Save changes")]
    new = {**RULE, "name": "New", "payload": "{\r\n}", "action": "preview"}
    assert _read_payload((await pages.post("/admin/schedules/new", data=new)).text) == "{\n}"


def _read_payload(page: str) -> str:
    found = re.search(r'<textarea id="payload"[^>]*>(.*?)</textarea>', page, re.DOTALL)
    assert found is not None
    return unescape(found[1])


async def test_an_edit_shows_what_changes_before_it_is_saved(
    story: Story, pages: httpx2.AsyncClient
) -> None:
    series_id = await make_series(story, payload={"a": 1})
    url = f"/admin/schedules/series/{series_id}"
    form = (await pages.get(f"{url}/edit")).text
    assert 'value="0 * * * *"' in form
    assert "&#34;a&#34;: 1" in form
    given = {**RULE, "queue": "slow", "priority": "7", "payload": '{"a": 2}'}
    plan = (await pages.post(f"{url}/edit", data={**given, "action": "preview"})).text
    for words in ("0 9 * * mon-fri", "Mon 2026-10-26 09:00 CET", "Save changes", "slow"):
        assert words in plan
    saved = await pages.post(f"{url}/edit", data={**given, "action": "save", "why": "less"})
    assert saved.headers["location"].endswith("done=series-changed")
    assert "At 09:00 on Monday to Friday" in (await pages.get(url)).text
    refused = await pages.post(f"{url}/edit", data={**given, "when": "0 99 * * *"})
    assert "Not changed" in refused.text
    assert "hour" in refused.text
    endless = await pages.post(f"{url}/edit", data={**given, "priority": "9" * 5_000})
    assert "priority must be a whole number" in endless.text


async def test_secrets_are_not_shown_for_editing_and_stay_as_they_are(
    story: Story, store: OpenStore, pages: httpx2.AsyncClient
) -> None:
    series_id = await make_series(story, payload={"api_token": "s3cr3t-and-long-enough"})
    url = f"/admin/schedules/series/{series_id}/edit"
    assert "s3cr3t" not in (await pages.get(url)).text
    given = {**RULE, "queue": "mail", "priority": "5", "payload": "", "action": "save"}
    assert (await pages.post(url, data=given)).status_code == 303
    page = await store.find("default", limit=100)
    waiting = [job for job in page.items if not job.status.is_terminal]
    assert [job.payload for job in waiting] == [{"api_token": "s3cr3t-and-long-enough"}]


async def test_a_schedule_that_code_declares_is_changed_there(
    store: OpenStore, pages: httpx2.AsyncClient
) -> None:
    made = StoredSchedule(
        name="nightly",
        tenant="default",
        definition=ScheduleDefinition(kind="nightly", cron="0 3 * * *"),
        series_id="0199a000-0000-7000-8000-000000000001",
        anchor=START,
        updated_at=START,
        app="shop",
        declared_at="shop/tasks.py:12",
    )
    await store.write_all([create_write(made)])
    around = RailContext(store, "default", VirtualClock(START), RailSettings(), lambda _: 7)
    await settle(around, [each async for each in scan_schedules(store)])
    url = f"/admin/schedules/series/{made.series_id}"
    text = (await pages.get(url)).text
    assert "change the code at shop/tasks.py:12" in text
    assert f"{url}/edit" not in text
    refused = await pages.post(
        f"{url}/edit", data={**RULE, "queue": "q", "priority": "5", "action": "save"}
    )
    assert "declared at shop/tasks.py:12; change it there" in refused.text


async def test_a_backfill_is_previewed_and_created(story: Story, pages: httpx2.AsyncClient) -> None:
    series_id = await make_series(story)
    url = f"/admin/schedules/series/{series_id}/backfill"
    given = {"since": "2026-10-23T00:00Z", "until": "2026-10-23T09:00Z"}
    plan = (await pages.post(url, data=given)).text
    assert "Create 7 jobs" in plan
    assert "3 occurrences left out" in plan
    done = await pages.post(url, data={**given, "action": "create", "why": "outage"})
    assert done.headers["location"].endswith("done=backfilled&count=7")
    assert "No occurrence in this range needs a job" in (await pages.post(url, data=given)).text
    for since in ("x", "2026-10-23T09:30Z", "0001-01-01T00:00+05:00"):
        bad = {**given, "since": since}
        assert "No job was created" in (await pages.post(url, data=bad)).text


async def test_a_schedule_is_created_from_a_form_with_a_preview(
    pages: httpx2.AsyncClient, knock: Knock
) -> None:
    words = (await pages.get("/admin/schedules/preview", params=RULE)).text
    assert "At 09:00 on Monday to Friday" in words
    assert "Mon 2026-10-26 09:00 CET" in words
    bad = await pages.get("/admin/schedules/preview", params={"when": "0 99 * * *"})
    assert (bad.status_code, "99" in bad.text) == (200, True)
    given = {**RULE, "name": "Morning", "kind": "report", "payload": '{"day": 1}'}
    made = await pages.post("/admin/schedules/new", data={**given, "action": "create"})
    assert made.status_code == 303, unescape(made.text)
    text = (await pages.get(made.headers["location"])).text
    assert "1 series created." in text
    refused = await pages.post("/admin/schedules/new", data={**given, "payload": "{"})
    assert "payload" in refused.text
    assert 'value="Morning"' in refused.text
    reader = knock("read")
    await sign_in(reader, "read")
    assert "may not create" in (await reader.get("/admin/schedules/new")).text
    assert (await reader.post("/admin/schedules/new", data=given)).status_code == 403


async def test_a_task_has_a_page_with_history_and_the_policy_of_its_scheduler(
    store: OpenStore, pages: httpx2.AsyncClient
) -> None:
    await fill_with_story(store, START)
    body = b'{"zone": "Europe/Berlin", "fold": "first"}'
    await store.write_all([DocumentWrite(DECLARED, LATEST, None, body)])
    history = RunHistory(store, 10)
    due = START - HOUR
    for outcome, late in (("succeeded", 0), ("failed", 90)):
        started = due + timedelta(seconds=late)
        history.note(
            "Refresh rates",
            TaskRun(
                scheduled_at=due,
                started_at=started,
                ended_at=started + timedelta(seconds=2),
                outcome=outcome,  # type: ignore[arg-type]  # two of its literals
                reason="occurrence",
                error=None if outcome == "succeeded" else "OSError: no answer",
            ),
        )
    await history.save()
    url = "/admin/schedules/tasks/Refresh%20rates"
    text = (await pages.get(url)).text
    assert "failed, 1 min 30 s late, ran 2 s; occurrence" in text
    assert "OSError: no answer" in text
    assert "an hour that clocks repeat counts once" in text
    for verb, done in (("pause", "task-pause"), ("run-now", "task-run-now")):
        answer = await pages.post(
            "/admin/schedules/tasks", data={"name": "Refresh rates", "verb": verb, "why": "noise"}
        )
        assert answer.headers["location"] == f"{url}?done={done}"
    assert "(noise). Nothing of it starts until it is resumed." in (await pages.get(url)).text
    assert "paused" in (await pages.get("/admin/schedules")).text
    form = {"name": "Refresh rates", "verb": "resume", "catch_up": "yes", "back": "schedules"}
    resumed = await pages.post("/admin/schedules/tasks", data=form)
    assert resumed.headers["location"] == "/admin/schedules?done=task-resume"
    assert (await pages.get("/admin/schedules/tasks/none")).status_code == 404
    unknown = {"name": "Refresh rates", "verb": "explode"}
    assert (await pages.post("/admin/schedules/tasks", data=unknown)).status_code == 404


@pytest.mark.parametrize("view", ["day", "week"])
async def test_the_calendar_shows_runs_and_collisions(
    store: OpenStore, pages: httpx2.AsyncClient, view: str
) -> None:
    story = await fill_with_story(store, START)
    for name in ("Left", "Right"):
        await story.ask(name, recurrence={"cron": "15 18 * * *", "zone": "UTC"})
    address = f"/admin/schedules/calendar?view={view}&zone=Europe/Berlin"
    text = (await pages.get(address)).text
    assert "Left, Right" in text
    assert "All the time" in text
    if view == "day":
        assert re.search(r"20:15</time> <a [^>]*schedules/series/[^>]*>Left", text)
        assert "together with others" in text
    else:
        assert "with collisions" in text
        assert text.count('scope="row"') == 24
    assert len(text) < 150_000


async def test_the_history_of_an_ended_series_stays_visible(
    story: Story, store: OpenStore, pages: httpx2.AsyncClient
) -> None:
    ended, live = await make_series(story), await make_series(story, "Report")
    await Rail(store, "default", clock=VirtualClock(START)).cancel(ended)
    listed = (await pages.get("/admin/schedules")).text
    assert ">Digest<" not in listed
    assert 'href="/admin/schedules/ended"' in listed
    over = (await pages.get("/admin/schedules/ended")).text
    assert f'href="/admin/schedules/series/{ended}"' in over
    assert live not in over
    page = (await pages.get(f"/admin/schedules/series/{ended}")).text
    assert "The series has no next run." in page
    assert "4 past runs" in page
    assert page.count("completed, 0 ms late, ran 3 s") >= 3
    for gone in ("Run now", "Pause series", "Backfill", "Next runs"):
        assert gone not in page
    assert "Backfill" in (await pages.get(f"/admin/schedules/series/{live}")).text
    changed = await pages.post(f"/admin/schedules/series/{ended}/pause", data={"why": "x"})
    assert changed.status_code == 404


async def test_the_form_for_a_series_shows_when_it_will_really_run(
    story: Story, pages: httpx2.AsyncClient
) -> None:
    start = START - 10 * timedelta(minutes=1)
    recurrence = {"interval": "15m", "start": start.isoformat()}
    job = await story.ask("Beat", "mail", recurrence=recurrence)
    page = (await pages.get(f"/admin/schedules/series/{job.id}/edit")).text
    assert "Every 15 minutes since 2026-10-23 09:31:20 UTC" in page
    assert "Fri 2026-10-23 09:46:20 UTC" in page
    kept = dict(re.findall('name="(kept_[a-z]+)" value="([^"]*)"', page))
    same = {"when": "every 15m", "zone": "UTC", **kept}
    part = await pages.get("/admin/schedules/preview", params=same)
    assert "09:46:20" in part.text
    other = await pages.get("/admin/schedules/preview", params={**same, "when": "every 20m"})
    assert "since 2026-10-23 09:41:20 UTC" in other.text


async def test_the_calendar_shows_tasks_in_the_zone_of_their_scheduler(
    store: OpenStore,
) -> None:
    await fill_with_story(store, START)
    settings = ServerSettings(zone=ZoneInfo("Europe/Berlin"))
    app = create_app(store, clock=VirtualClock(START), settings=settings)
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        text = re.sub(r"<[^>]+>|\s+", " ", (await client.get("/admin/schedules/calendar")).text)
    assert "03:00 Rotate logs" in re.sub(" +", " ", text)
