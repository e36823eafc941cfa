"""Every page as a person sees it: by day, by night and on a phone."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.browser.conftest import Invite
from tests.browser.stage.chromium import DESK, PHONE
from tests.browser.stage.visitor import Visitor

PAGES = {
    "Overview": "",
    "Jobs": "/jobs",
    "Queues": "/queues",
    "Schedules": "/schedules",
    "Workers": "/workers",
    "Gates": "/gates",
    "Retention": "/retention",
    "Dead letters": "/dead-letters",
    "Audit": "/audit",
    "Tenants": "/tenants",
}
SCHEDULES = (
    "/schedules/new?when=30+2+*+*+*&zone=Europe/Berlin",
    "/schedules/calendar",
    "/schedules/calendar?view=week",
    "/schedules/tasks/Rotate%20logs",
)
OTHERS = (
    "?range=30d",
    "/queues/mail",
    "/errors",
    "/errors/",
    *SCHEDULES,
    "/jobs/new?kind=http.request",
)
"""Pages that are not in the menu; of a folder, the first page that it lists."""

JOBS = ("Morning report", "Charge invoice 4711", "Payroll reminder", "Push to CRM")

CONTRASTS = (Path(__file__).with_name("stage") / "contrasts.js").read_text(encoding="utf-8")
USABLE = "a[href], button, input:not([type=hidden]), select, summary"


MIDDLE = 1160
"""A little more than that at which rows become cards."""
STICKING_OUT = """() => Array.from(document.querySelectorAll(".card table")).filter((table) => {
  const card = table.closest(".scroll, .card").getBoundingClientRect();
  return !table.closest(".scroll") && table.getBoundingClientRect().right > card.right + 1;
}).map((table) => "the table " + table.textContent.trim().slice(0, 40))"""


def _measure(visitor: Visitor, widths: tuple[int, ...]) -> Iterator[str]:
    """What is too wide in windows of these widths."""
    for width in widths:
        visitor.page.set_viewport_size({"width": width, "height": DESK["height"]})
        extra = visitor.ask("() => document.documentElement.scrollWidth - window.innerWidth")
        if extra > 0:
            yield f"{extra} px wider than {width}"
        for table in visitor.ask(STICKING_OUT):
            yield f"{table} sticks out of its card at {width}"


def _see_all(visitor: Visitor, widths: tuple[int, ...]) -> list[str]:
    """Go everywhere; whatever is hard to read or wider than the screen."""
    found = []
    places = [f"/jobs?q={name}" for name in JOBS]
    for path in (*PAGES.values(), *OTHERS, *places, "/nowhere"):
        page = visitor.go(path.rstrip("/"))
        if path in places or path.endswith("/"):
            with page.expect_navigation():
                page.locator("main table a.title").first.click()
        if path in places:
            page.get_by_role("heading", name="Payload").wait_for()
        found += [f"{page.url}: {each}" for each in visitor.ask(CONTRASTS)]
        found += [f"{page.url}: {each}" for each in _measure(visitor, widths)]
    visitor.forgive("404")
    return found


def test_the_overview_says_first_what_is_wrong(anna: Visitor) -> None:
    alarms = anna.go().get_by_label("What needs attention").get_by_role("listitem")
    expect(alarms.first).to_contain_text(
        "4 jobs have failed for good in queues billing and imports"
    )
    alarms.first.get_by_role("link", name="Retry or discard").click()
    expect(anna.page.get_by_role("heading", name="Dead letters", level=1)).to_be_visible()


@pytest.mark.parametrize(("dark", "phone"), [(False, False), (True, False), (False, True)])
def test_every_text_can_be_read_and_no_page_is_too_wide(
    invite: Invite, dark: bool, phone: bool
) -> None:
    visitor = invite(dark=dark, phone=phone)
    visitor.enter(visitor.server.tokens["anna"])
    widths = (PHONE["width"],) if phone else (MIDDLE, DESK["width"])
    assert _see_all(visitor, widths) == []


def test_texts_that_cannot_be_read_are_found(anna: Visitor) -> None:
    anna.go()
    anna.ask(
        "() => document.querySelectorAll('h1, .plot span')"
        ".forEach((each) => { each.style.color = each.style.fill = '#cccccc'; })"
    )
    found = anna.ask(CONTRASTS)
    assert any("Overview" in each for each in found)
    assert len(found) > 5


def test_the_menu_leads_to_every_page(anna: Visitor) -> None:
    anna.go()
    for name in PAGES:
        anna.page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()
        expect(anna.page.get_by_role("heading", name=name, level=1)).to_be_visible()
        current = anna.page.get_by_role("navigation", name="Pages").locator("[aria-current=page]")
        expect(current).to_have_text(name)


def test_charts_can_be_read_without_being_seen(anna: Visitor) -> None:
    chart = anna.go().get_by_role("img", name="Throughput per minute")
    expect(chart).to_have_accessible_name(
        re.compile(r"Throughput per minute: 4\s\d\d\d succeeded, 8\d failed in the last hour")
    )
    backlog = anna.page.get_by_role("img", name="Jobs due and running")
    expect(backlog).to_have_accessible_name(
        re.compile(r"Jobs due and running: at most 68 due and 4 running in the last hour")
    )
    region = anna.page.get_by_role("region", name="Throughput per minute")
    region.first.get_by_text("Numbers").click()
    expect(region.first.get_by_role("columnheader", name="succeeded")).to_be_visible()
    expect(region.first.get_by_role("columnheader").first).to_have_text(
        re.compile(r"[A-Z]{3,5}|[+-]\d\d")
    )
    assert region.first.get_by_role("row").count() > 50


def test_a_page_can_be_walked_by_keyboard(anna: Visitor) -> None:
    page = anna.go("/jobs")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("/")
    expect(page.get_by_role("combobox", name="Search")).to_be_focused()
    page.keyboard.type("Charge")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Charge invoice 4711").focus()
    outline = anna.ask("() => getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Charge invoice 4711", level=1)).to_be_visible()


def test_everything_that_can_be_used_is_reached_by_the_tab_key(anna: Visitor) -> None:
    page = anna.go("/gates")
    count = anna.page.locator(USABLE).filter(visible=True).count()
    seen = set()
    for _ in range(count):
        page.keyboard.press("Tab")
        seen.add(anna.ask("() => document.activeElement.outerHTML"))
    assert len(seen) == count
