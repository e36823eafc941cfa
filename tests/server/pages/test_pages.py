"""Pages as they are sent: what they say, what they link to, and what they refuse."""

import asyncio
import re
from collections.abc import MutableMapping
from datetime import timedelta
from secrets import randbits
from typing import Any
from zoneinfo import ZoneInfo

import httpx2
import msgspec
import pytest
from tests.browser.stage.story import MINUTE, Story, fill_with_story
from tests.server.pages.conftest import START, Knock, sign_in

from rota import Context, Rota
from rota.errors import StoreUnavailableError
from rota.fleet.presence import WORKERS, SignOfLife, WorkerPresence
from rota.jobs import admit_job, make_job_id
from rota.policy.audit import AuditedAction, record_action
from rota.rail import RailSettings
from rota.rail.jobs import RailContext
from rota.server import ServerSettings, create_app
from rota.stores.opened import OpenStore
from rota.stores.protocol import LeaseRequest
from rota.testing import VirtualClock, a_job

PAGES = (
    "",
    "?range=30d",
    "/jobs",
    "/queues",
    "/queues/mail",
    "/errors",
    "/tenants",
    "/shards",
    "/schedules",
    "/workers",
    "/gates",
    "/retention",
    "/dead-letters",
    "/audit",
)
LARGEST = 100_000
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("path", "lesson"),
    [
        ("", "curl -X POST http://127.0.0.1/api/v1/jobs"),
        ("/jobs", "curl -X POST http://127.0.0.1/api/v1/jobs"),
        ("/schedules", "</code> repeats:"),
        ("/workers", "rota work --handlers"),
        ("/retention", "The defaults apply"),
        ("/gates", "No maintenance window is active or planned"),
        ("/dead-letters", "is kept here with the error of every attempt"),
        ("/audit", "is recorded here first"),
    ],
)
async def test_a_page_with_nothing_on_it_teaches(
    pages: httpx2.AsyncClient, path: str, lesson: str
) -> None:
    answer = await pages.get(f"/admin{path}")
    assert answer.status_code == 200
    assert lesson in answer.text


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_stays_small_and_refreshes_less_than_itself(
    store: OpenStore, pages: httpx2.AsyncClient, path: str
) -> None:
    await fill_with_story(store, START)
    whole = await pages.get(f"/admin{path}")
    part = await pages.get(f"/admin{path}", headers={"HX-Request": "true"})
    assert whole.status_code == part.status_code == 200
    assert len(whole.content) < LARGEST
    if path not in {"/gates", "/retention"}:  # a page of forms is not refreshed
        assert "<html" not in part.text
        assert part.text.strip()
        assert len(part.content) < len(whole.content)


async def test_the_audit_log_shows_lists_and_none_in_words(
    store: OpenStore, pages: httpx2.AsyncClient
) -> None:
    details = {"scopes": ["read", "write"], "isOn": True, "queue": None}
    details |= {"rate": {"count": 100, "per": "PT60S"}}  # as a limit is recorded
    around = RailContext(store, "default", VirtualClock(START), RailSettings(), randbits)
    await record_action(around, AuditedAction(action="token_issue", who="anna", details=details))
    answer = await pages.get("/admin/audit")
    assert "scopes: read write, is on: yes, queue: none, rate: count 100 per PT60S" in answer.text


async def test_jobs_that_a_worker_leased_ahead_are_not_shown_as_running(
    store: OpenStore, pages: httpx2.AsyncClient
) -> None:
    worker = WorkerPresence(
        id="w",
        host="here",
        pid=1,
        queues=None,
        tenants=None,
        kinds=("work",),
        concurrency=10,
        version="1",
        started_at=START,
        seen_at=START,
    )
    await SignOfLife(store, WORKERS, "w").show(msgspec.json.encode(worker))
    await store.insert([a_job(created_at=START) for _ in range(13)], START)
    await store.lease(LeaseRequest(worker="w", limit=13, lease_for=MINUTE), START)
    text = (await pages.get("/admin/workers")).text
    assert "10 of 10" in text
    assert "3 leased ahead" in text
    assert "10 jobs of tenant default; 3 more leased ahead" in text
    assert text.count('data-label="Lease until"') == 10


async def test_the_overview_names_a_due_job_that_no_worker_can_run_as_why_does(
    pages: httpx2.AsyncClient, story: Story
) -> None:
    await story.show_workers()
    for _ in range(3):
        await story.ask("Unheard", "mail", kind="fax.send", ago=SECOND)
    job = await story.ask("Labelled", "mail", kind="mail.send", label="v9", ago=SECOND)
    await story.ask("Later", "mail", kind="telex.send", due_at=START + MINUTE)
    reasons = [
        (await pages.get(f"/api/v1/jobs/{each}/why")).json()["reasons"][0]
        for each in (job.id, (await pages.get("/api/v1/jobs?queue=mail")).json()["items"][-1]["id"])
    ]
    assert [it["code"] for it in reasons] == ["no_worker", "no_worker"]
    text = (await pages.get("/admin")).text
    assert "No alarms" not in text
    assert "No worker can run 4 jobs that wait in queue mail." in text
    for reason in reasons:
        assert reason["text"] in text
    assert "telex" not in text


async def test_a_worker_over_http_is_shown_with_its_settings(
    store: OpenStore, pages: httpx2.AsyncClient
) -> None:
    await store.insert([a_job(kind="work", created_at=START) for _ in range(2)], START)
    asked = {"worker": "mailer 7", "kinds": ["work"], "limit": 2, "concurrency": 4}
    asked |= {"lease_seconds": 90, "queues": ["default"], "labels": ["v1", "v2"]}
    assert (await pages.post("/api/v1/leases", json=asked)).status_code == 200
    text = (await pages.get("/admin/workers")).text
    row = text[text.index("mailer 7") :]
    for shown in ("over HTTP", "batch 2, lease 90 s", "1 kind: work", "2 labels: v1, v2", "2 of 4"):
        assert shown in row
    assert "process 0" not in text


async def test_one_job_depends_and_two_depend(store: OpenStore, pages: httpx2.AsyncClient) -> None:
    first, second, third = [make_job_id(START, number) for number in range(3)]
    for job_id, dependencies in ((first, []), (second, [first]), (third, [second])):
        asked = {"name": "n", "queue": "q", "dependencies": dependencies}
        await store.insert([admit_job(asked, job_id=job_id, now=START)], START)
    assert "depends on 0, 2 depend on it" in (await pages.get(f"/admin/jobs/{first}")).text
    assert "depends on 1, 1 depends on it" in (await pages.get(f"/admin/jobs/{second}")).text


async def test_the_schedules_page_lists_due_processing_and_dead_jobs(
    store: OpenStore, pages: httpx2.AsyncClient
) -> None:
    await fill_with_story(store, START)
    text = (await pages.get("/admin/schedules")).text
    for name in ("Welcome mail 1", "Daily totals", "Charge invoice 4711"):
        assert re.search(rf'href="/admin/jobs/[0-9a-f-]{{36}}">{name}</a>', text)


async def test_a_reader_is_shown_no_form_that_changes_anything(
    store: OpenStore, knock: Knock
) -> None:
    await fill_with_story(store, START)
    client = knock("read")
    await sign_in(client, "read")
    for path in PAGES:
        text = (await client.get(f"/admin{path}")).text
        targets = set(re.findall(r'<form[^>]*method="post" action="([^"]*)"', text))
        assert targets <= {"/admin/sign-out", "/admin/confirm", "/admin/preferences"}, path
        assert 'type="checkbox" name="id"' not in text
        main = text.partition("</main>")[0]
        assert "<button" not in main.partition('action="/admin/confirm"')[2]


@pytest.mark.parametrize(
    "path",
    ["/confirm", "/act", "/jobs/x/pause", "/gates/maintenance", "/gates/quiet-hours"],
)
async def test_a_form_from_a_reader_is_refused(knock: Knock, path: str) -> None:
    client = knock("read")
    await sign_in(client, "read")
    answer = await client.post(f"/admin{path}", data={"action": "on"})
    assert answer.status_code == 403
    assert "Not allowed" in answer.text


async def test_quiet_hours_with_equal_start_and_end_are_shown_as_never(
    pages: httpx2.AsyncClient,
) -> None:
    for end, answer in (("22:00", "never: the start equals the end"), ("07:00", "22:00 to 07")):
        hours = {"action": "on", "start": "22:00", "end": end, "zone": "Europe/London"}
        assert (await pages.post("/admin/gates/quiet-hours", data=hours)).status_code == 303
        assert answer in (await pages.get("/admin/gates")).text


async def test_a_caller_without_read_gets_403_and_can_sign_in_again(knock: Knock) -> None:
    client = knock("write")
    await sign_in(client, "write")
    answer = await client.get("/admin/jobs")
    assert answer.status_code == 403
    assert "read" in answer.text
    assert 'action="/admin/sign-out"' in answer.text


async def test_tasks_are_shown_to_administrators_only(store: OpenStore, knock: Knock) -> None:
    await fill_with_story(store, START)
    for token, is_shown in (("read+operate", False), ("read+admin", True)):
        client = knock(token)
        await sign_in(client, token)
        assert ("Rotate logs" in (await client.get("/admin/schedules")).text) is is_shown
        assert ("Rotate logs" in (await client.get("/admin")).text) is is_shown
        answer = await client.post(
            "/admin/schedules/tasks", data={"name": "Rotate logs", "verb": "run-now"}
        )
        assert answer.status_code == (303 if is_shown else 403)


async def test_sign_in_leads_to_the_requested_page(knock: Knock) -> None:
    client = knock("read")
    answer = await client.get("/admin/jobs?state=ready")
    assert answer.headers["location"] == "/admin/sign-in?next=%2Fadmin%2Fjobs%3Fstate%3Dready"
    assert (await client.get("/admin/jobs", headers={"HX-Request": "true"})).status_code == 401
    wanted = {"token": "read", "next": "/admin/jobs?state=ready"}
    entered = await client.post("/admin/sign-in", data=wanted)
    assert entered.headers["location"] == "/admin/jobs?state=ready"
    left = await client.post("/admin/sign-out")
    assert left.headers["location"] == "/admin/sign-in"
    assert (await client.get("/admin/jobs")).status_code == 303


@pytest.mark.parametrize(
    "wanted",
    [
        "https://evil.example",
        "//evil.example",
        "/admin/../x\\y",
        "/administrator",
        "",
        "/admin/a\rb",
    ],
)
async def test_signing_in_leads_to_pages_of_ours_only(knock: Knock, wanted: str) -> None:
    client = knock("read")
    entered = await client.post("/admin/sign-in", data={"token": "read", "next": wanted})
    assert entered.headers["location"] == "/admin"


async def test_without_tokens_there_is_no_sign_in(pages: httpx2.AsyncClient) -> None:
    assert (await pages.get("/admin/sign-in")).headers["location"] == "/admin"
    assert "Sign out" not in (await pages.get("/admin")).text
    for path in ("/", "/admin/"):
        assert (await pages.get(path)).headers["location"] == "/admin"


@pytest.mark.parametrize("path", PAGES)
async def test_under_a_prefix_every_link_keeps_it(
    store: OpenStore, knock: Knock, path: str
) -> None:
    await fill_with_story(store, START)
    text = (await knock(prefix="/rota").get(f"/rota/admin{path}")).text
    links = re.findall(r'(?:href|src|action|hx-get)="([^"#][^"]*)"', text)
    assert len(links) > 10
    assert [each for each in links if not each.startswith("/rota/admin")] == []


async def test_times_are_shown_in_the_configured_zone(store: OpenStore) -> None:
    await fill_with_story(store, START)
    settings = ServerSettings(zone=ZoneInfo("Asia/Tokyo"))
    app = create_app(store, settings=settings, clock=VirtualClock(START))
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        text = (await client.get("/admin/schedules")).text
    assert "zone Asia/Tokyo" in text
    assert re.search(r"Sat 2026-10-24 03:00 JST</span>\s*<span[^>]*>= 2026-10-23 18:00 UTC", text)


async def test_a_page_that_is_not_there_says_so(pages: httpx2.AsyncClient) -> None:
    for path in ("/nowhere", "/jobs/no-id", "/jobs/01890a5d-ac96-774b-bcce-b302099a8057"):
        answer = await pages.get(f"/admin{path}")
        assert answer.status_code == 404
        assert "Not found" in answer.text
        assert "text/html" in answer.headers["content-type"]


async def test_a_choice_that_cannot_be_meant_is_refused_with_its_name(
    pages: httpx2.AsyncClient,
) -> None:
    for query in ("state=none", "since=1y", "cursor=%00"):
        answer = await pages.get(f"/admin/jobs?{query}")
        assert answer.status_code == 400
        assert query.partition("=")[0] in answer.text


async def test_when_the_store_does_not_answer_the_page_says_what_that_means(
    store: OpenStore, pages: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise StoreUnavailableError("secret-host refused the connection")

    monkeypatch.setattr(store, "scan", refuse)
    answer = await pages.get("/admin")
    assert answer.status_code == 503
    assert "Your jobs are safe" in answer.text
    assert "secret-host" not in answer.text


@pytest.mark.parametrize("error", [StoreUnavailableError("secret-host is gone"), OSError("secret")])
async def test_a_page_that_fails_after_its_frame_was_sent_says_so_in_the_frame(
    store: OpenStore, pages: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(store, "survey", refuse)
    answer = await pages.get("/admin")
    assert answer.text.count("<h1>Overview</h1>") == 1
    assert answer.text.rstrip().endswith("</html>")
    assert "The server log has details under incident" in answer.text
    assert ("Your jobs are safe" in answer.text) is isinstance(error, StoreUnavailableError)
    assert "secret" not in answer.text
    refreshed = await pages.get("/admin", headers={"HX-Request": "true"})
    assert refreshed.status_code in {500, 503}


async def test_the_frame_is_sent_before_the_data_is_read(
    store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, sent = create_app(store, clock=VirtualClock(START)), list[MutableMapping[str, Any]]()
    survey = store.survey
    bodies_before: list[int] = []

    async def watch(*given: object, **named: object) -> object:
        bodies_before.append(sum(bool(it.get("body")) for it in sent))
        return await survey(*given, **named)  # type: ignore[arg-type]

    async def receive() -> MutableMapping[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    monkeypatch.setattr(store, "survey", watch)
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/admin",
        "root_path": "",
        "scheme": "http",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1")],
        "server": ("127.0.0.1", 80),
    }
    await app(scope, receive, send)
    assert bodies_before
    assert min(bodies_before) == 1
    whole = b"".join(it.get("body", b"") for it in sent)
    assert whole.decode().count("<h1>Overview</h1>") == 1


async def test_only_known_notices_are_shown(pages: httpx2.AsyncClient) -> None:
    answer = await pages.get("/admin/jobs?done=cancelled&count=2")
    assert "2 jobs cancelled." in answer.text
    for query in ("done=You+have+won", "done=cancelled&count=many", "done=cancelled&count=²"):
        assert (
            'class="alarm green" role="status"'
            not in (await pages.get(f"/admin/jobs?{query}")).text
        )


async def test_an_invalid_or_too_large_form_is_refused(pages: httpx2.AsyncClient) -> None:
    as_json = await pages.post("/admin/confirm", json={"action": "cancel"})
    assert (as_json.status_code, "content-type" in as_json.text) == (400, True)
    large = await pages.post("/admin/confirm", data={"why": "x" * 300_000})
    assert large.status_code == 413
    odd = await pages.post("/admin/confirm", data={"action": "cancel", "id": "no id"})
    assert (odd.status_code, "id must be" in odd.text) == (400, True)
    unknown = await pages.post("/admin/act", data={"action": "explode"})
    assert unknown.status_code == 400


async def test_a_job_that_ended_after_the_question_is_left_alone(
    story: Story, pages: httpx2.AsyncClient
) -> None:
    job = await story.ask("Quick", ago=MINUTE)
    asked = await pages.post("/admin/confirm", data={"action": "cancel", "id": job.id})
    assert "Cancel 1 job?" in asked.text
    await story.complete(job, SECOND)
    done = await pages.post("/admin/act", data=read_hidden(asked.text))
    assert done.headers["location"] == f"/admin/jobs/{job.id}?done=nothing&count=0"


def read_hidden(text: str) -> dict[str, str]:
    """What the form of a question sends."""
    form = text.partition('action="/admin/act"')[2]
    return dict(re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', form))


async def test_a_question_says_which_jobs_stay_as_they_are_and_why(
    story: Story, pages: httpx2.AsyncClient
) -> None:
    waiting = await story.ask("Later", ago=MINUTE, due_at=START + MINUTE)
    ended = await story.complete(await story.ask("Done", ago=MINUTE), SECOND)
    data = {"id": [waiting.id, ended.id], "from": "jobs"}
    for action, rule in (
        ("cancel", "Only a job that has not ended can be cancelled."),
        ("run_now", "Only a job that waits for a later time can be made due now."),
    ):
        text = (await pages.post("/admin/confirm", data={**data, "action": action})).text
        assert re.search(r"<h1>[A-Z][a-z ]+ 1 job\?</h1>", text)
        assert f"stays as it is: 1 completed. {rule}" in " ".join(text.split())
    text = (await pages.post("/admin/confirm", data={**data, "action": "retry"})).text
    assert "Nothing to do" in text
    assert "1 completed, 1 scheduled. Only a job that failed" in " ".join(text.split()) or (
        "1 scheduled, 1 completed. Only a job that failed" in " ".join(text.split())
    )


async def test_colours_and_zone_are_chosen_and_remembered(store: OpenStore, knock: Knock) -> None:
    await fill_with_story(store, START)
    client = knock()
    wish = {"theme": "dark", "zone": "Asia/Tokyo", "back": "/admin/jobs?state=due"}
    saved = await client.post("/admin/preferences", data=wish)
    assert (saved.status_code, saved.headers["location"]) == (303, "/admin/jobs?state=due")
    text = (await client.get("/admin")).text
    assert 'data-theme="dark"' in text
    assert "JST" in text
    for wrong in ({"theme": "pink"}, {"zone": "Atlantis/Centre"}):
        assert (await client.post("/admin/preferences", data=wrong)).status_code == 400
    elsewhere = await client.post("/admin/preferences", data={"back": "//evil.example"})
    assert elsewhere.headers["location"] == "/admin"


async def test_the_pages_can_be_installed_and_say_when_they_are_offline(knock: Knock) -> None:
    client = knock("read", prefix="/tools")
    manifest = (await client.get("/admin/manifest.webmanifest")).json()
    assert (manifest["start_url"], manifest["scope"]) == ("/tools/admin", "/tools/admin")
    for icon in manifest["icons"]:
        sent = await client.get(icon["src"].removeprefix("/tools"))
        assert sent.headers["content-type"] == "image/png"
        width = int.from_bytes(sent.content[16:20], "big")
        assert icon["sizes"] == f"{width}x{width}"
    worker = await client.get("/admin/service-worker.js")
    assert worker.headers["service-worker-allowed"] == "/tools/admin"
    kept = msgspec.json.decode(re.match(r"const KEPT = (.*);", worker.text)[1])  # type: ignore[index]
    for address in kept:
        assert (await client.get(address.removeprefix("/tools"))).status_code == 200
    assert "You are offline" in (await client.get(kept[0].removeprefix("/tools"))).text


async def test_a_job_page_shows_result_traceback_and_log(
    store: OpenStore, pages: httpx2.AsyncClient
) -> None:
    clock = VirtualClock(START)
    app = Rota("memory://")

    @app.task(name="add", retry=1)
    async def add(context: Context, left: int) -> dict[str, int]:
        context.log.warning("adding to %s", left)
        if left == 13:
            raise LookupError("no thirteen")
        return {"sum": left + 1}

    async with app.opened(store, clock):
        good, bad = await add.enqueue(left=1), await add.enqueue(left=13)
        await app.worker(store=store, clock=clock).run_once()
    shown = (await pages.get(f"/admin/jobs/{good.id}")).text
    assert "&#34;sum&#34;: 2" in shown
    assert "Attempt 1 succeeded" in shown
    assert "adding to 1" in shown
    failed = (await pages.get(f"/admin/jobs/{bad.id}")).text
    assert "<summary>Traceback</summary>" in failed
    assert "raise LookupError" in failed
    assert "adding to 13" in failed


async def test_a_job_page_shows_progress_while_the_job_runs(
    store: OpenStore, pages: httpx2.AsyncClient
) -> None:
    clock = VirtualClock(START)
    app = Rota("memory://")
    shown = list[str]()

    @app.task(name="pack")
    async def pack(context: Context, boxes: int) -> None:
        context.progress(1, boxes, "first box")
        await clock.sleep(2 * SECOND)
        shown.append((await pages.get(f"/admin/jobs/{context.job.id}")).text)

    async with app.opened(store, clock):
        job = await pack.enqueue(boxes=4)
        running = asyncio.create_task(app.worker(store=store, clock=clock).run_once())
        await clock.advance(3 * SECOND)
        await running
    assert '<progress max="1" value="0.25"' in shown[0]
    assert "25 % · first box" in shown[0]
    assert "<progress" not in (await pages.get(f"/admin/jobs/{job.id}")).text


async def test_maintenance_is_asked_for_and_then_shown_on_every_page(
    pages: httpx2.AsyncClient,
) -> None:
    wish = {"action": "on", "lasts": "open", "reason": "moving house"}
    asked = await pages.post("/admin/gates/maintenance", data=wish)
    assert asked.status_code == 200
    assert "Hold back all jobs of tenant default?" in asked.text
    assert "Maintenance: tenant default." not in (await pages.get("/admin")).text
    agreed = await pages.post("/admin/gates/maintenance", data=wish | {"confirmed": "yes"})
    assert agreed.status_code == 303
    for path in ("", "/jobs", "/schedules", "/workers", "/gates", "/dead-letters", "/audit"):
        text = (await pages.get(f"/admin{path}")).text
        assert "Maintenance: tenant default." in text, path
        assert "held back" in text
        said = " ".join(re.sub(r"<[^>]+>", "", text).split())
        assert "Set now by host, until ended. Reason: moving house. Show gates" in said
        assert "No alarms." not in text
    fresh = await pages.get("/admin/jobs", headers={"HX-Request": "true"})
    assert 'id="holds"' in fresh.text
    assert 'hx-swap-oob="true"' in fresh.text
