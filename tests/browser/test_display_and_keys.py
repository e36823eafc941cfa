"""Keys, colours, zones, live pages, and the pages as an installed application."""

import json
import re
from importlib.resources import files

import pytest
from playwright.sync_api import expect
from tests.browser.conftest import Invite
from tests.browser.stage.visitor import Visitor
from tests.browser.test_every_page import PAGES, SCHEDULES
from tests.browser.test_looking import ask_for

AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
FORMS = ("/jobs/new", "/jobs/new?kind=http.request")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
FIND = """async (rules) => {
  const found = await axe.run(document, { runOnly: rules });
  return found.violations.map((each) => `${each.id}: ${each.nodes.map((it) => it.html).join(" ")}`);
}"""


@pytest.mark.parametrize(("dark", "phone"), [(False, False), (True, True)])
def test_axe_finds_nothing(invite: Invite, dark: bool, phone: bool) -> None:
    visitor = invite(dark=dark, phone=phone)
    visitor.enter(visitor.server.tokens["anna"])
    found = []
    others = ("/tokens", "/queues/mail", "/errors", "/jobs?q=4711&state=dead")
    paths = (*PAGES.values(), *SCHEDULES, *FORMS, *others)
    for path in paths[phone::2]:  # each page in one of the two looks
        page = visitor.go(path)
        if "4711" in path:
            page.locator("main table a.title").first.click()
            page.get_by_role("heading", name="Payload").wait_for()
        page.evaluate(AXE)
        found += [f"{path} {each[:300]}" for each in page.evaluate(FIND, RULES)]
    assert found == []


def test_rows_are_walked_selected_and_opened_by_keys(anna: Visitor) -> None:
    page = anna.go("/jobs?q=Resize photo")
    for _ in range(2):
        page.keyboard.press("j")
    expect(page.get_by_role("link", name="Resize photo").nth(1)).to_be_focused()
    page.keyboard.press("k")
    page.keyboard.press("x")
    expect(page.get_by_text("1 selected")).to_be_visible()
    name = page.get_by_role("link", name="Resize photo").first.inner_text()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()
    page.wait_for_load_state()  # the frame comes before the scripts
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("s")
    expect(page.get_by_role("heading", name="Schedules", level=1)).to_be_visible()
    page.wait_for_load_state()
    page.keyboard.press("f")
    expect(page.get_by_text("Frozen", exact=True)).to_be_visible()
    page.keyboard.press("f")


def test_shift_and_a_click_select_a_range_of_rows(anna: Visitor) -> None:
    page = anna.go("/jobs")
    boxes = page.locator("tbody input[name=id]")
    boxes.nth(1).click()
    boxes.nth(4).click(modifiers=["Shift"])
    expect(page.locator("tbody input[name=id]:checked")).to_have_count(4)
    expect(page.get_by_text("4 selected")).to_be_visible()
    boxes.nth(2).click(modifiers=["Shift"])  # the last one clicked was the fifth
    expect(page.locator("tbody input[name=id]:checked")).to_have_count(1)


def test_the_tabs_keep_the_focus_when_they_count_again(anna: Visitor) -> None:
    page = anna.go("/jobs")
    tab = page.get_by_role("navigation", name="States").get_by_role("link", name="completed")
    expect(tab.locator(".count")).to_be_visible()
    tab.focus()
    with page.expect_response(lambda it: "/jobs/counts" in it.url):
        anna.refresh()
    expect(tab).to_be_focused()


def test_the_bar_says_what_an_action_leaves_out_and_stays_in_sight(anna: Visitor) -> None:
    page = anna.go("/jobs?q=4711")
    for box in page.get_by_role("checkbox", name="Select").all()[1:]:
        box.check()
    expect(page.get_by_role("button", name="Retry 1…")).to_be_enabled()
    expect(page.get_by_role("button", name="Cancel…")).to_have_count(0)
    expect(page.get_by_text("Retry leaves out 2 blocked")).to_be_visible()
    page = anna.go("/jobs")
    bar = page.get_by_role("group", name="Actions").bounding_box()
    height = anna.ask("() => window.innerHeight")
    assert bar is not None
    assert bar["y"] + bar["height"] <= height + 1


def test_colours_and_zone_are_chosen_in_the_pages(anna: Visitor) -> None:
    page = anna.go("/schedules")
    light = anna.ask("() => getComputedStyle(document.body).backgroundColor")
    page.get_by_text("Display", exact=True).click()
    page.get_by_label("Colours").select_option("dark")
    options = anna.ask(
        "() => [...document.querySelectorAll('#zones option')].map((it) => it.value)"
    )
    assert options == ["UTC", "Europe/Berlin"]
    page.get_by_label("Show times in").fill("Asia/Tokyo")
    page.get_by_role("button", name="Apply").click()
    expect(page).to_have_url(anna.server.page("/schedules"))
    assert anna.ask("() => getComputedStyle(document.body).backgroundColor") != light
    expect(anna.go("").get_by_text("JST").first).to_be_visible()


def test_a_change_is_shown_without_being_asked_for(anna: Visitor) -> None:
    anna.page.add_init_script("window.setInterval = () => 0;")  # it never asks by itself
    with anna.page.expect_request("**/admin/live"):
        page = anna.go("/jobs")
    ask_for(anna.server, "Came by itself")
    expect(page.get_by_role("link", name="Came by itself")).to_be_visible()


def test_without_events_a_page_asks_every_few_seconds(anna: Visitor) -> None:
    anna.page.route("**/admin/live", lambda route: route.fulfill(status=204))
    page = anna.go("/jobs")
    ask_for(anna.server, "Came by asking")
    expect(page.get_by_role("link", name="Came by asking")).to_be_visible()


def test_the_pages_can_be_installed_and_say_when_they_are_offline(anna: Visitor) -> None:
    page = anna.go("/jobs")
    anna.ask("async () => { await navigator.serviceWorker.ready; }")
    href = page.locator("link[rel=manifest]").get_attribute("href") or ""
    manifest = json.loads(anna.ask(f"async () => (await fetch('{href}')).text()"))
    assert manifest["display"] == "standalone"
    page.context.set_offline(True)
    page.goto(anna.server.page("/workers"))
    expect(page.get_by_role("heading", name="You are offline")).to_be_visible()
    page.context.set_offline(False)
    page.get_by_role("link", name="Try again").click()
    expect(page.get_by_role("heading", name="Workers", level=1)).to_be_visible()
    anna.forgive("ERR_INTERNET_DISCONNECTED")


def test_no_word_is_split(anna: Visitor) -> None:
    page = anna.go("/jobs")
    for size in (1_280, 1_000, 800):
        page.set_viewport_size({"width": size, "height": 860})
        heights = anna.ask(
            "() => [...document.querySelectorAll('.status, thead th')].filter((it) =>"
            " it.getClientRects().length && (it.closest('thead') || it).clientWidth > 1)"
            ".map((it) => it.textContent.trim().length"
            " && it.scrollWidth - it.clientWidth)"
        )
        assert max(heights) <= 0
    assert re.search(r"break-word", anna.ask("() => getComputedStyle(document.body).overflowWrap"))
