"""Finding jobs, reading what became of them, and watching them change."""

import re
from contextlib import suppress

import httpx2
from playwright.sync_api import FloatRect, Locator, expect
from tests.browser.conftest import Invite
from tests.browser.stage.server import RunningServer
from tests.browser.stage.visitor import Visitor

from rota.server.pages.jobs import MOST_SHOWN


def ask_for(server: RunningServer, name: str) -> None:
    answer = httpx2.post(
        f"{server.url}/api/v1/jobs",
        json={"name": name, "queue": "live"},
        headers={"Authorization": f"Bearer {server.tokens['anna']}"},
    )
    assert answer.status_code == 201, answer.text


def test_filters_stand_in_the_address_and_can_be_sent_to_others(anna: Visitor) -> None:
    page = anna.go("/jobs")
    page.get_by_label("State", exact=True).select_option("dead")
    page.get_by_label("Queue").fill("imports")
    page.get_by_role("button", name="Filter").click()
    expect(page).to_have_url(re.compile(r"state=dead&queue=imports"))
    expect(page.get_by_role("row")).to_have_count(4)
    again = anna.go(page.url.removeprefix(anna.server.page()))
    expect(again.get_by_label("State", exact=True)).to_have_value("dead")
    again.get_by_role("link", name="Clear").click()
    expect(again).to_have_url(anna.server.page("/jobs"))


def test_a_job_is_found_by_part_of_its_name_and_by_its_id(anna: Visitor) -> None:
    page = anna.go("/jobs?q=invoice")
    link = page.get_by_role("link", name="Charge invoice 4711")
    job_id = (link.get_attribute("href") or "").rsplit("/", 1)[-1]
    page.get_by_role("combobox", name="Search").fill(job_id)
    page.get_by_role("combobox", name="Search").press("Enter")
    expect(page.get_by_role("row")).to_have_count(2)
    page.get_by_role("combobox", name="Search").fill("no such job")
    page.get_by_role("combobox", name="Search").press("Enter")
    expect(page.get_by_text("No job matches")).to_be_visible()


def test_older_jobs_are_on_further_pages(anna: Visitor) -> None:
    page = anna.go("/jobs")
    newest = page.get_by_role("row").nth(1).inner_text()
    page.get_by_role("link", name="Older").click()
    expect(page.get_by_role("link", name="« Newest")).to_be_visible()
    assert page.get_by_role("row").nth(1).inner_text() != newest
    page.get_by_role("link", name="« Newest").click()
    expect(page.get_by_role("link", name="« Newest")).to_have_count(0)


def test_a_dead_job_says_why_and_shows_its_errors(anna: Visitor) -> None:
    page = anna.open_job("Charge invoice 4711")
    expect(page.get_by_text("all 3 attempts have failed").first).to_be_visible()
    expect(page.get_by_label("Error of Attempt 1 failed")).to_contain_text("GatewayTimeout")
    expect(page.get_by_text("same error as before")).to_have_count(2)


def test_a_graph_shows_what_a_job_waits_for_and_leads_there(anna: Visitor) -> None:
    page = anna.open_job("Morning report")
    graph = page.get_by_role("region", name="Dependency graph")
    expect(graph.get_by_role("link")).to_have_count(7)
    expect(page.get_by_text("depends on 4, 2 depend on it")).to_be_visible()
    graph.get_by_role("link", name="Stock levels, completed").click()
    expect(page.get_by_role("heading", name="Stock levels", level=1)).to_be_visible()


def test_secrets_in_a_payload_are_masked(anna: Visitor) -> None:
    payload = anna.open_job("Daily totals").get_by_label("Payload as JSON")
    expect(payload).to_contain_text('"currency": "EUR"')
    expect(payload).not_to_contain_text("s3cr3t")


def test_schedules_show_what_is_due_processing_and_dead_with_links_to_jobs(anna: Visitor) -> None:
    page = anna.go("/schedules")
    for title, name in (
        ("Due", "Welcome mail 1"),
        ("Processing", "Daily totals"),
        ("Dead letters", "Charge invoice 4711"),
    ):
        grid = page.get_by_role("region", name=title)
        href = grid.get_by_role("link", name=name).get_attribute("href") or ""
        assert re.fullmatch(r"/admin/jobs/[0-9a-f-]{36}", href)
    assert len({box["y"] for box in where_grids_are(anna)}) == 1
    page.set_viewport_size({"width": 900, "height": 800})
    assert len({box["x"] for box in where_grids_are(anna)}) == 1


def where_grids_are(visitor: Visitor) -> list[FloatRect]:
    """Due, processing and dead: beside each other, or one upon the other; there is no hole."""
    boxes = [
        visitor.page.get_by_role("region", name=name, exact=True).bounding_box()
        for name in ("Due", "Processing", "Dead letters")
    ]
    return [box for box in boxes if box is not None]


def test_next_runs_are_shown_in_local_time_and_utc_with_dst_notes(anna: Visitor) -> None:
    row = anna.go("/schedules").get_by_role("row", name="Payroll reminder")
    expect(row).to_contain_text("At 02:30 on Sunday")
    expect(row).to_contain_text("Sun 2026-10-25 02:30 CEST = 00:30 UTC")
    expect(row).to_contain_text("clocks go back: second 02:30")


def test_workers_say_where_they_are_and_what_they_run(anna: Visitor) -> None:
    page = anna.go("/workers")
    expect(page.get_by_role("row", name="mail-7f2c").first).to_contain_text("worker-1.internal")
    running = page.get_by_role("region", name="Running now")
    expect(running.get_by_role("row", name="Daily totals")).to_contain_text("reports-1c9e")


def test_a_list_refreshes_itself_without_disturbing_the_reader(anna: Visitor) -> None:
    page = anna.go("/jobs")
    box = page.get_by_label("Select Welcome mail 1", exact=True)
    box.check()
    page.get_by_role("link", name="Welcome mail 2").focus()
    ask_for(anna.server, "Came later")
    expect(page.get_by_role("link", name="Came later")).to_be_visible()
    expect(box).to_be_checked()
    expect(page.get_by_role("link", name="Welcome mail 2")).to_be_focused()
    expect(page.get_by_text("1 selected")).to_be_visible()


def test_a_page_that_is_frozen_stays_as_it_is(anna: Visitor) -> None:
    page = anna.go("/jobs")
    page.get_by_role("button", name="Freeze this page").click()
    expect(page.get_by_text("Frozen", exact=True)).to_be_visible()
    ask_for(anna.server, "Came while frozen")
    anna.refresh()
    page.wait_for_load_state("networkidle")
    expect(page.get_by_role("link", name="Came while frozen")).to_have_count(0)
    page.get_by_role("button", name="Unfreeze this page").click()
    expect(page.get_by_role("link", name="Came while frozen")).to_be_visible()


def refresh_until(anna: Visitor, sign: Locator) -> None:
    """Refresh the page until it shows the sign: a refresh is left out while one is under way."""
    for _ in range(100):
        anna.refresh()
        with suppress(AssertionError):
            expect(sign).to_be_visible(timeout=600)
            return
    expect(sign).to_be_visible()


def test_a_page_that_gets_no_answer_says_that_it_is_not_up_to_date(anna: Visitor) -> None:
    page = anna.go("/workers")
    page.route("**/admin/workers", lambda route: route.abort())
    refresh_until(anna, page.get_by_text("Out of date: no response"))
    page.unroute("**/admin/workers")
    refresh_until(anna, page.get_by_text("Live", exact=True))
    anna.forgive("ERR_FAILED")
    anna.forgive("htmx:")


def test_everything_works_without_javascript(invite: Invite) -> None:
    visitor = invite(scripts=False)
    page = visitor.sign_in("anna", "/jobs")
    page.get_by_role("combobox", name="Search").fill("Resize photo")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("row")).to_have_count(5)
    page.get_by_label("Select Resize photo 1").check()
    page.get_by_role("button", name="Cancel…").click()
    expect(page.get_by_role("heading", name="Cancel 1 job?")).to_be_visible()
    page.get_by_role("button", name="Cancel 1 job").click()
    expect(page.get_by_text("1 job cancelled.")).to_be_visible()


def test_tabs_rows_and_counters_share_their_words_and_numbers(anna: Visitor) -> None:
    page = anna.go("/jobs")
    tabs = page.get_by_role("navigation", name="States").get_by_role("link")
    expect(tabs.locator(".count").first).to_be_visible()  # they follow a moment after the page
    texts = [text.split() for text in tabs.all_inner_texts()[1:]]
    counts = {word: number for word, number in texts if number != "0"}
    assert len(counts) >= 8
    options = page.get_by_label("State", exact=True).locator("option").all_inner_texts()
    assert set(counts) <= set(options[1:])
    for word in counts:
        number = int(read_tab(anna, word))
        expect(page.locator("tbody .status")).to_have_text([word] * min(number, MOST_SHOWN))
    for word in ("due", "pending", "dead", "blocked"):
        # A job may become due between two looks.
        assert any(read_figure(anna, word) == read_tab(anna, word) for _ in range(5))


def read_figure(anna: Visitor, word: str) -> str:
    """The number of a state on the overview."""
    figures = anna.go("").locator("dl.figures > div")
    named = figures.filter(has_text=re.compile(word, re.IGNORECASE))
    return named.locator("dd a").first.inner_text()


def read_tab(anna: Visitor, word: str) -> str:
    """The number of a state on its tab of the jobs page."""
    page = anna.go(f"/jobs?state={word}")
    chosen = page.get_by_role("navigation", name="States").locator("[aria-current]")
    expect(chosen).to_have_text(re.compile(rf"^{word}\s+[0-9]+$"))
    return chosen.inner_text().split()[1]


def test_the_tabs_count_what_the_filter_leaves(anna: Visitor) -> None:
    page = anna.go("/jobs?queue=imports")
    tabs = page.get_by_role("navigation", name="States")
    dead = tabs.get_by_role("link", name=re.compile("^dead"))
    expect(dead.locator(".count")).to_be_visible()
    number = dead.locator(".count").inner_text()
    dead.click()
    expect(page).to_have_url(re.compile("queue=imports"))
    expect(page.get_by_role("row")).to_have_count(int(number) + 1)
