"""Buttons: what they do, what they ask first, and who has them."""

import re

from playwright.sync_api import expect
from tests.browser.conftest import Invite
from tests.browser.stage.visitor import Visitor


def test_a_read_only_caller_sees_no_action_buttons(invite: Invite) -> None:
    visitor = invite()
    visitor.enter(visitor.server.tokens["ben"])
    for path in ("", "/jobs", "/schedules", "/workers", "/gates", "/dead-letters", "/audit"):
        page = visitor.go(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        kept = {"Filter", "Freeze", "Sign out", ""}  # closed: colours and zone
        names = {each.inner_text() for each in page.locator("main button, .side button").all()}
        assert names <= kept, (path, names)
        expect(page.locator("main form[method=post] button")).to_have_count(0)
    page = visitor.open_job("Charge invoice 4711")
    expect(page.get_by_role("button", name="Retry…")).to_have_count(0)
    expect(page.get_by_text("read only")).to_be_visible()


def test_several_jobs_are_cancelled_after_a_question_that_says_how_many(anna: Visitor) -> None:
    page = anna.go("/jobs?q=Welcome mail&state=ready")
    expect(page.get_by_role("button", name="Cancel…", exact=True)).to_be_disabled()
    page.get_by_label("Select Welcome mail 1", exact=True).check()
    page.get_by_label("Select Welcome mail 2", exact=True).check()
    page.get_by_role("button", name="Cancel 2…").click()
    expect(page.get_by_role("heading", name="Cancel 2 jobs?")).to_be_visible()
    page.get_by_label("Reason").fill("the text was wrong")
    page.get_by_role("button", name="Cancel 2 jobs").click()
    expect(page.get_by_text("2 jobs cancelled.")).to_be_visible()
    expect(page).to_have_url(re.compile(r"q=Welcome\+mail&state=ready"))
    expect(page.get_by_role("row")).to_have_count(5)
    row = anna.go("/audit").get_by_role("row").nth(1)
    for text in ("anna", "cancel", "the text was wrong"):
        expect(row).to_contain_text(text)


def test_all_that_match_are_cancelled_as_they_were_counted(anna: Visitor) -> None:
    page = anna.go("/jobs?q=Resize photo")
    page.get_by_label("all that match the filter").check()
    page.get_by_role("button", name="Cancel all…").click()
    expect(page.get_by_role("heading", name="Cancel 4 jobs?")).to_be_visible()
    page.get_by_role("button", name="Cancel 4 jobs").click()
    expect(page.get_by_text("4 jobs cancelled.")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/jobs\?q=Resize\+photo$"))
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("4 jobs restored.")).to_be_visible()
    page = anna.go("/jobs?q=Resize photo")
    expect(page.get_by_text("4 jobs cancelled.")).to_have_count(0)
    expect(page.get_by_role("cell", name="cancelled", exact=True)).to_have_count(4)
    expect(page.get_by_role("cell", name="due", exact=True)).to_have_count(4)


def test_a_question_can_be_left_without_doing_anything(anna: Visitor) -> None:
    page = anna.open_job("Remind Berlin")
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("link", name="Keep as is").click()
    expect(page.get_by_role("heading", name="Remind Berlin", level=1)).to_be_visible()
    expect(page.get_by_text("held back").first).to_be_visible()


def test_a_dead_letter_is_retried_with_what_it_blocked(anna: Visitor) -> None:
    page = anna.go("/dead-letters?kind=invoice.charge")
    page.get_by_label("Select Charge invoice 4711").check()
    page.get_by_role("button", name="Retry 1…").click()
    cascade = page.get_by_label("Also submit again 2 jobs that it blocked")
    expect(cascade).to_be_checked()
    page.get_by_role("button", name="Retry 1 job").click()
    expect(page.get_by_text("3 jobs retried.")).to_be_visible()
    page = anna.go("/jobs?q=4711")
    expect(page.get_by_role("row")).to_have_count(7)
    expect(page.get_by_role("cell", name="due", exact=True)).to_be_visible()


def test_a_dead_letter_is_discarded_for_good(anna: Visitor) -> None:
    page = anna.open_job("Import feed 2")
    page.get_by_role("button", name="Discard…").click()
    page.get_by_role("button", name="Discard 1 job").click()
    expect(page.get_by_text("1 dead letter discarded.")).to_be_visible()
    expect(page.get_by_role("link", name="Import feed 2")).to_have_count(0)
    expect(page.get_by_role("link", name="Import feed 1")).to_be_visible()


def test_maintenance_is_switched_on_and_off(anna: Visitor) -> None:
    page = anna.go("/gates")
    page.get_by_label("Lasts").select_option("1 hour")
    page.get_by_label("Reason, shown on each job").fill("database upgrade")
    page.get_by_role("button", name="Hold back all jobs").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Hold back all jobs")
    page.get_by_role("button", name="Hold back all jobs").click()
    banner = page.get_by_role("region", name="What holds jobs back")
    expect(banner).to_contain_text("Maintenance: tenant default.")
    row = page.get_by_role("row", name="tenant default")
    expect(row).to_contain_text("closed now")
    expect(row).to_contain_text("database upgrade")
    expect(row).to_contain_text("by anna")
    page.get_by_role("button", name="End maintenance").click()
    expect(banner).not_to_contain_text("Maintenance")
    expect(page.get_by_text("No maintenance window is active or planned")).to_be_visible()


def test_quiet_hours_are_refused_with_a_reason_set_and_cleared(anna: Visitor) -> None:
    page = anna.go("/gates")
    page.get_by_role("textbox", name="Time zone").fill("Atlantis/Centre")
    page.get_by_role("button", name="Set quiet hours").click()
    expect(page.get_by_role("alert")).to_contain_text("Atlantis/Centre")
    anna.forgive("400")
    page.get_by_label("From").fill("23:00")
    page.get_by_role("textbox", name="Time zone").fill("Europe/Paris")
    page.get_by_role("button", name="Set quiet hours").click()
    expect(page.get_by_text("23:00 to 07:00, every day")).to_be_visible()
    page.get_by_role("button", name="Clear").click()
    expect(page.get_by_text("No quiet hours are set")).to_be_visible()
    page.get_by_label("Another kind").fill("receipt.print")
    page.get_by_role("button", name="Notifies people", exact=True).click()
    row = page.get_by_role("row", name="receipt.print")
    expect(row).to_contain_text("set by an operator")
    row.get_by_role("button", name="as declared").click()
    expect(page.get_by_role("row", name="receipt.print")).to_have_count(0)


def test_a_series_is_paused_and_resumed_and_a_job_run_now(anna: Visitor) -> None:
    page = anna.go("/schedules")
    page.get_by_role("button", name="Pause Board meeting").click()
    expect(page.get_by_role("row", name="Board meeting")).to_contain_text("paused")
    page.get_by_role("button", name="Resume Board meeting").click()
    expect(page.get_by_role("row", name="Board meeting")).to_contain_text("scheduled")
    page.get_by_role("button", name="Run now Rotate logs").click()
    expect(page.get_by_text("1 task run requested.")).to_be_visible()
    page = anna.open_job("Remind Berlin")
    page.get_by_role("button", name="Run now").click()
    expect(page.get_by_text("1 job is due now.")).to_be_visible()


def test_a_retention_rule_is_set_and_removed_after_a_question(anna: Visitor) -> None:
    page = anna.go("/retention")
    page.get_by_label("Kind, or empty for all").fill("report.build")
    page.get_by_label("Ended jobs").fill("soon")
    page.get_by_role("button", name="Set rule").click()
    expect(page.get_by_role("alert")).to_contain_text("is not a length of time")
    page.get_by_label("Ended jobs").fill("3650d")
    page.get_by_role("button", name="Set rule").click()
    expect(page.get_by_role("main")).to_contain_text("No job is removed now.")
    page.get_by_label("Reason").fill("slow reports")
    page.get_by_role("button", name="Set rule").click()
    rule = page.get_by_role("row").filter(has_text="kind report.build of tenant")
    expect(rule).to_contain_text("ended jobs 3650d")
    rule.get_by_role("button", name="Remove").click()
    page.get_by_role("button", name="Remove rule").click()
    expect(rule).to_have_count(0)
