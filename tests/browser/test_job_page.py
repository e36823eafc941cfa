"""The page of a job in a browser: its graph is moved, its values fold, its forms are filled in."""

import re

import httpx2
from playwright.sync_api import expect
from tests.browser.conftest import Invite
from tests.browser.stage.visitor import Visitor

VIEW = "() => document.querySelector('.graph').getAttribute('viewBox').split(' ').map(Number)"


def test_a_graph_is_zoomed_moved_and_fitted_by_mouse_and_keys(anna: Visitor) -> None:
    page = anna.open_job("Morning report")
    graph = page.get_by_role("region", name="Dependency graph")
    graph.scroll_into_view_if_needed()
    fitted = anna.ask(VIEW)
    page.get_by_role("button", name="Zoom in").click()
    assert anna.ask(VIEW)[2] < fitted[2]
    graph.focus()
    for key in ("-", "-", "ArrowRight"):
        page.keyboard.press(key)
    moved = anna.ask(VIEW)
    assert moved[2] > fitted[2]
    assert moved[0] > fitted[0] - (moved[2] - fitted[2]) / 2
    page.get_by_role("button", name="Fit").click()
    assert anna.ask(VIEW) == fitted
    box = graph.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + 65, box["y"] + 45, steps=4)
    page.mouse.up()
    dragged = anna.ask(VIEW)
    assert dragged[0] < fitted[0]
    assert dragged[1] < fitted[1]
    expect(page.get_by_role("heading", name="Morning report", level=1)).to_be_visible()
    page.get_by_role("link", name="Show it large").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Dependencies of Morning report")
    expect(graph.get_by_role("link")).to_have_count(7)
    page.get_by_role("button", name="Cancel all of this graph…").click()
    expect(page.get_by_role("heading", name=re.compile(r"Cancel \d jobs\?"))).to_be_visible()
    expect(page.get_by_text("Only a job that has not ended can be cancelled.")).to_be_visible()
    page.get_by_role("link", name="Keep as is").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Dependencies of Morning report")
    graph.get_by_role("link", name="Stock levels, completed").click()
    expect(page.get_by_role("heading", name="Stock levels", level=1)).to_be_visible()


def test_a_node_takes_the_colour_of_its_new_state(anna: Visitor) -> None:
    page = anna.open_job("Daily totals")
    node = page.get_by_role("link", name="Mail to finance, pending")
    expect(node).to_have_class("node tone-quiet")
    href = node.get_attribute("href") or ""
    anna.ask("() => { document.querySelector('.graph').dataset.kept = 'yes'; }")
    answer = httpx2.post(
        f"{anna.server.url}{href.replace('/admin', '/api/v1')}/cancel",
        json={},
        headers={"Authorization": f"Bearer {anna.server.tokens['anna']}"},
    )
    assert answer.status_code == 200, answer.text
    anna.refresh()
    expect(page.get_by_role("link", name="Mail to finance, blocked")).to_have_class(
        "node tone-amber"
    )
    expect(page.locator(".graph[data-kept]")).to_have_count(1)


WATCH_COPIES = """() => {
  window.copies = new Promise(function (resolve) {
    new MutationObserver(function () {
      const buttons = Array.from(document.querySelectorAll("[data-copy]"));
      if (buttons.some((each) => each.textContent === "Copied")) resolve(true);
    }).observe(document.body, {subtree: true, childList: true, characterData: true});
  });
}"""
"""Has a promise kept when a button says "Copied", however short."""


def test_a_traceback_is_copied_and_a_tree_stays_folded_over_refreshes(anna: Visitor) -> None:
    page = anna.open_job("Charge invoice 4711")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    payload = page.get_by_role("region", name="Payload")
    expect(payload.get_by_text("129.90").first).to_be_visible()
    payload.locator(".tree summary").first.click()
    anna.refresh()
    page.wait_for_load_state("networkidle")
    expect(payload.get_by_text("129.90").first).to_be_hidden()
    anna.ask(WATCH_COPIES)
    page.get_by_role("button", name="Copy Payload").click()
    assert anna.ask("() => window.copies"), "the button said so, for two seconds"
    assert '"amount": "129.90"' in anna.ask("() => navigator.clipboard.readText()")


def test_a_dead_job_is_retried_with_another_payload(anna: Visitor) -> None:
    page = anna.open_job("Import feed 1")
    page.get_by_role("link", name="Edit and retry…").click()
    page.get_by_label("JSON").fill('{"feed": ')
    page.get_by_label("Name").fill("Import feed 1 again")
    page.get_by_role("button", name="Retry with these values").click()
    expect(page.get_by_role("alert")).to_contain_text("payload must be JSON")
    anna.forgive("400")
    page.get_by_label("JSON").fill('{"feed": 1}')
    page.get_by_label("Reason").fill("it lacked the feed")
    page.get_by_role("button", name="Retry with these values").click()
    expect(page.get_by_role("heading", name="Import feed 1 again", level=1)).to_be_visible()
    expect(page.get_by_text("1 job retried.")).to_be_visible()
    expect(page.get_by_role("region", name="Payload")).to_contain_text("feed: 1")


def test_a_job_is_created_on_a_phone_from_the_fields_of_its_kind(invite: Invite) -> None:
    visitor = invite(phone=True, dark=True)
    page = visitor.sign_in(path="/jobs")
    page.get_by_role("link", name="Create a job…").click()
    page.get_by_role("link", name="log.message").click()
    page.get_by_label("message").fill("Hello")
    page.get_by_label("level").select_option("warning")
    page.get_by_role("button", name="Create job").click()
    expect(page).to_have_url(re.compile(r"/admin/jobs/[0-9a-f-]{36}"))
    expect(page.get_by_role("region", name="Payload")).to_contain_text('level: "warning"')


def test_without_scripts_the_graph_scrolls_and_the_forms_work(invite: Invite) -> None:
    visitor = invite(scripts=False)
    visitor.enter(visitor.server.tokens["anna"])
    page = visitor.open_job("Morning report")
    graph = page.get_by_role("region", name="Dependency graph")
    expect(graph.get_by_role("link")).to_have_count(7)
    expect(page.get_by_role("button", name="Zoom in")).to_be_hidden()
    page.get_by_role("link", name="Duplicate…").click()
    page.get_by_role("button", name="Create duplicate").click()
    expect(page.get_by_text("1 duplicate created.")).to_be_visible()
