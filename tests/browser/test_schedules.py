"""Schedules as an operator uses them: their pages, forms and the calendar."""

from playwright.sync_api import expect
from tests.browser.conftest import Invite
from tests.browser.stage.visitor import Visitor
from tests.browser.test_display_and_keys import AXE, FIND, RULES
from tests.browser.test_every_page import CONTRASTS

WIDER = "() => document.documentElement.scrollWidth - window.innerWidth"


def test_a_series_is_looked_at_paused_edited_and_backfilled(anna: Visitor) -> None:
    page = anna.go("/schedules")
    page.get_by_role("link", name="Hourly digest").click()
    expect(page.get_by_role("heading", name="Hourly digest", level=1)).to_be_visible()
    strip = page.get_by_role("list", name="Past runs, oldest first")
    expect(strip.get_by_role("link")).to_have_count(3)
    expect(strip.get_by_role("link").first).to_contain_text("completed")
    page.get_by_label("Also in the zone").fill("Asia/Tokyo")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("columnheader", name="In Asia/Tokyo")).to_be_visible()
    page.get_by_label("Reason, for the audit log").fill("too chatty")
    page.get_by_role("button", name="Pause series").click()
    expect(page.get_by_text("by anna: too chatty.")).to_be_visible()
    page.get_by_role("button", name="Resume series").click()
    expect(page.get_by_text("1 series resumed.")).to_be_visible()
    page.get_by_role("link", name="Edit…").click()
    page.get_by_label("When: cron").fill("30 2 * * *")
    page.get_by_label("Time zone", exact=True).last.fill("Europe/Berlin")
    expect(page.locator("#rule-preview")).to_contain_text("At 02:30 every day")
    expect(page.locator("#rule-preview")).to_contain_text("clocks go back: first 02:30")
    page.get_by_role("button", name="Preview changes").click()
    changes = page.get_by_role("region", name="What changes")
    expect(changes.get_by_role("row", name="cron")).to_contain_text("30 2 * * *")
    page.get_by_role("button", name="Save changes").click()
    expect(page.get_by_text("1 series changed.")).to_be_visible()
    expect(page.get_by_text("At 02:30 every day").first).to_be_visible()
    page.get_by_label("From,").fill("2026-10-20T00:00")
    page.get_by_role("button", name="Preview…").click()
    page.get_by_role("button", name="Create 4 jobs").click()
    expect(page.get_by_text("4 jobs created for past occurrences.")).to_be_visible()


def test_a_schedule_is_created_with_the_rule_in_words_as_one_types(anna: Visitor) -> None:
    page = anna.go("/schedules")
    page.get_by_role("link", name="New schedule…").click()
    page.wait_for_function("() => window.htmx")  # else the first words are typed unheard
    page.get_by_label("Name", exact=True).fill("Evening report")
    page.get_by_label("When: cron").fill("0 99 * * *")
    expect(page.locator("#rule-preview")).to_contain_text("99")
    page.get_by_label("When: cron").fill("0 18 * * mon-fri")
    expect(page.locator("#rule-preview")).to_contain_text("At 18:00 on Monday to Friday")
    page.get_by_role("button", name="Create schedule").click()
    expect(page.get_by_text("1 series created.")).to_be_visible()
    expect(page.get_by_role("heading", name="Evening report", level=1)).to_be_visible()


def test_a_task_is_paused_and_resumed_and_the_calendar_shows_it(anna: Visitor) -> None:
    page = anna.go("/schedules")
    page.get_by_role("link", name="Rotate logs").click()
    page.get_by_label("Reason, for the audit log").fill("disk full")
    page.get_by_role("button", name="Pause task").click()
    expect(page.get_by_text("(disk full). Nothing of it starts")).to_be_visible()
    page.get_by_role("button", name="Resume task").click()
    expect(page.get_by_text("1 task resumed.")).to_be_visible()
    page = anna.go("/schedules/calendar")
    expect(page.get_by_role("link", name="Rotate logs")).to_be_visible()
    page.get_by_role("link", name="Week").click()
    expect(page.get_by_role("rowheader")).to_have_count(24)


def test_forms_work_without_javascript(invite: Invite) -> None:
    visitor = invite(scripts=False)
    page = visitor.sign_in(path="/schedules/new")
    page.get_by_label("Name", exact=True).fill("Plain")
    page.get_by_label("When: cron").fill("every 45m")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#rule-preview")).to_contain_text("45 minutes")
    page.get_by_role("button", name="Create schedule").click()
    expect(page.get_by_role("heading", name="Plain", level=1)).to_be_visible()
    page = visitor.go("/schedules")
    page.get_by_label("Name of a series or task").fill("PLAI")
    page.get_by_role("button", name="Filter").click()
    table = page.get_by_role("region", name="Series")
    expect(table.get_by_role("row")).to_have_count(2)
    table.get_by_role("button", name="Pause Plain").click()
    expect(page.get_by_text("1 series paused.")).to_be_visible()
    expect(page.get_by_label("Name of a series or task")).to_have_value("PLAI")
    expect(table.get_by_role("row")).to_have_count(2)


def test_the_pages_of_a_series_can_be_read_on_a_phone_at_night(invite: Invite) -> None:
    visitor = invite(dark=True, phone=True)
    page = visitor.sign_in(path="/schedules")
    page.get_by_role("link", name="Payroll reminder").click()
    page.get_by_role("heading", name="Payroll reminder", level=1).wait_for()
    address = page.url
    for path in ("", "/edit"):
        page.goto(address + path)
        page.evaluate(AXE)
        assert page.evaluate(FIND, RULES) == []
        assert visitor.ask(CONTRASTS) == []
        assert visitor.ask(WIDER) <= 0
