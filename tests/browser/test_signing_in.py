"""Who is let in, and for how long."""

from playwright.sync_api import expect
from tests.browser.conftest import Invite


def test_a_good_token_opens_the_page_that_was_wanted(invite: Invite) -> None:
    visitor = invite()
    page = visitor.sign_in("anna", "/jobs?state=failed")
    expect(page.get_by_role("heading", name="Jobs", level=1)).to_be_visible()
    expect(page.get_by_label("State", exact=True)).to_have_value("failed")
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/admin")


def test_a_wrong_token_is_rejected_with_a_message(invite: Invite) -> None:
    visitor = invite()
    page = visitor.go()
    page.get_by_label("Token").fill("rota_nothing")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("That token is not valid")
    assert page.context.cookies() == []
    visitor.forgive("401")


def test_signing_out_ends_the_session(invite: Invite) -> None:
    visitor = invite()
    page = visitor.sign_in()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.go_back()
    visitor.go("/jobs")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_the_door_leads_nowhere_else(invite: Invite) -> None:
    visitor = invite()
    page = visitor.sign_in("anna", "/sign-in?next=//example.com/admin/")
    assert page.url == visitor.server.page()
