"""Every value that somebody else may choose holds a script; none of them runs."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from secrets import randbits

import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser
from tests.browser.stage.chromium import open_context
from tests.browser.stage.server import RunningServer, run_server
from tests.browser.stage.story import HOUR, MINUTE, NOW, Story
from tests.browser.stage.visitor import Visitor

from rota.auth.caller import Caller
from rota.jobs import Job, Recurrence, RetryPolicy
from rota.policy.audit import AuditedAction, record_action
from rota.policy.gate_settings import Scope
from rota.policy.gates import Maintenance
from rota.rail import RailSettings
from rota.rail.jobs import RailContext
from rota.rail.settings import set_maintenance
from rota.stores.opened import OpenStore
from rota.stores.protocol import DocumentWrite
from rota.telemetry.stats import MINUTES, STATS, MinuteStats, encode
from rota.testing.builders import a_job, seed_tasks

EVIL = (
    "</title></pre><script>window.hacked=1;alert(1)</script>"
    '"><img src=x onerror=window.hacked=1>'
    "'><svg onload=window.hacked=1>"
    "{{7*7}}javascript:alert(1)"
)
MARK = "window.hacked=1;alert(1)"
BIDI = "\u202e\u2066"

PAGES = ("", "/jobs", "/schedules", "/workers", "/gates", "/dead-letters", "/audit")

MARKUP_FOUND = """
() => [...document.querySelectorAll("*")].filter((each) =>
  (each.tagName === "SCRIPT" && !each.src.includes("/admin/static/")) ||
  (each.tagName === "IMG") ||
  [...each.attributes].some((one) =>
    one.name.startsWith("on") || /^\\s*(javascript|data):/i.test(one.value))
).map((each) => each.outerHTML.slice(0, 200))
"""


class EvilAuth:
    """Everybody is somebody whose name is a script, of the tenant that they say."""

    async def identify(self, token: str, now: datetime) -> Caller | None:  # noqa: ARG002 - the protocol
        return Caller(tenant=token, who=EVIL, token_id=token)

    async def recall(self, token_id: str, now: datetime) -> Caller | None:  # noqa: ARG002 - the protocol
        return Caller(tenant=token_id, who=EVIL, token_id=token_id)


async def _fill(store: OpenStore) -> None:
    story = Story(store)
    await _tell_jobs(story)
    await store.insert([replace(_make(7), tenant=EVIL)], NOW - HOUR)
    await story.show_workers([EVIL])
    await set_maintenance(store, Scope(), Maintenance(reason=EVIL, who=EVIL))
    await seed_tasks(
        store,
        [
            {"name": EVIL, "cronExpression": EVIL, "retryDelayMs": 1, "running": False},
            {"name": f"broken {EVIL}", "cronExpression": 5},
        ],
    )
    body = encode([MinuteStats(at=NOW - MINUTE, succeeded=3, failed=1)])
    await store.write_all(
        [DocumentWrite(STATS, MINUTES.key_of("default", NOW - MINUTE), None, body)]
    )
    act = AuditedAction(action=EVIL, who=EVIL, why=EVIL, details={EVIL: EVIL})
    around = RailContext(store, "default", story.clock, RailSettings(), randbits)
    await record_action(around, act)


async def _tell_jobs(story: Story) -> None:
    """One in every state, put into the store as it is: what would refuse it is not asked."""
    due, later, running, dying, deferred, series = (_make(number) for number in range(6))
    recurrence = Recurrence(cron="0 * * * *", start=NOW - HOUR)
    later = replace(later, due_at=NOW + HOUR)
    series = replace(series, recurrence=recurrence, occurrence_at=NOW - HOUR)
    child = replace(_make(6), dependencies=(dying.id,))
    jobs = [due, later, running, dying, deferred, series, child]
    await story.store.insert(jobs, NOW - HOUR)
    await story.start(running, MINUTE, EVIL)
    await story.die(dying, MINUTE, f"Traceback\n{EVIL}\n{BIDI}")
    await story.defer(deferred, NOW + timedelta(hours=2), EVIL)


def _make(number: int) -> Job:
    return a_job(
        name=EVIL + BIDI,
        kind=EVIL,
        queue=EVIL,
        idempotency_key=f"{number}{EVIL}",
        trace=EVIL,
        created_at=NOW - HOUR,
        retry_policy=RetryPolicy(max_attempts=1),
        payload={EVIL: [EVIL, {"nested": EVIL + BIDI}], "password": EVIL},
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with run_server(tmp_path_factory.mktemp("evil"), _fill, {}, EvilAuth()) as opened:
        yield opened


@pytest.fixture
def victim(browser: Browser, server: RunningServer) -> Iterator[Visitor]:
    with open_context(browser) as context:
        visitor = Visitor(context, server)
        visitor.enter("default")
        yield visitor


def _examine(visitor: Visitor) -> None:
    """Nothing of it ran, and nothing of it became markup; it is there to be read."""
    assert visitor.ask("() => window.hacked") is None
    assert visitor.ask(MARKUP_FOUND) == [], visitor.page.url
    assert visitor.ask("() => document.title.includes('49')") is False
    assert BIDI[0] not in visitor.page.content()
    assert visitor.troubles == []


@pytest.mark.parametrize("path", PAGES)
def test_no_page_runs_what_it_shows(victim: Visitor, path: str) -> None:
    page = victim.go(path)
    assert MARK in page.locator("body").inner_text()
    victim.refresh()
    page.wait_for_load_state("networkidle")
    _examine(victim)


def test_no_job_runs_what_it_holds(victim: Visitor) -> None:
    page = victim.go("/jobs")
    links = [each.get_attribute("href") for each in page.locator("a.title").all()]
    assert len(links) == 7
    for href in links:
        page.goto(f"{victim.server.url}{href}")
        assert MARK in (page.get_by_label("Payload as JSON").text_content() or "")
        _examine(victim)
    for form in ("duplicate", "graph"):
        page.goto(f"{victim.server.url}{links[0]}/{form}")
        _examine(victim)


def test_no_page_runs_the_name_of_a_tenant(browser: Browser, server: RunningServer) -> None:
    with open_context(browser) as context:
        visitor = Visitor(context, server)
        visitor.enter(EVIL)
        for path in PAGES:
            visitor.go(path)
            visitor.forgive("400")  # some pages refuse this tenant with an error
            _examine(visitor)


def test_no_address_and_no_form_brings_a_script_along(victim: Visitor) -> None:
    queries = ("q", "queue", "state", "since", "cursor")
    places = (f"/{EVIL}", f"/jobs/{EVIL}", f"/dead-letters?error={EVIL}", f"/sign-in?next={EVIL}")
    for path in (*(f"/jobs?{name}={EVIL}" for name in queries), *places):
        victim.go(path)
        victim.forgive("status of 40")
        _examine(victim)
    page = victim.go("/jobs")
    page.get_by_label("Select all jobs on this page").check()
    page.get_by_role("button", name=re.compile("^Retry")).click()
    page.get_by_label("Reason").fill(EVIL)
    _examine(victim)
    page = victim.go("/gates")
    page.get_by_label("Time zone").fill(EVIL)
    page.get_by_role("button", name="Set quiet hours").click()
    page.get_by_role("alert").wait_for()
    victim.forgive("400")
    _examine(victim)


def test_a_script_that_does_run_would_be_noticed(victim: Visitor) -> None:
    victim.go()
    victim.ask("() => { document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=1>'); }")
    assert victim.ask(MARKUP_FOUND) != []
    victim.page.wait_for_load_state("networkidle")
    assert any("Content Security Policy" in each for each in victim.troubles)
