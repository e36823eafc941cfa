"""Queues, errors, ranges and tenants, as an operator uses them."""

import re

from playwright.sync_api import expect
from tests.browser.conftest import Invite
from tests.browser.stage.visitor import Visitor


def test_an_operator_pauses_limits_and_resumes_a_queue(anna: Visitor) -> None:
    page = anna.go("/queues")
    page.get_by_role("link", name="imports").click()
    expect(page.get_by_role("heading", name="Queue imports", level=1)).to_be_visible()
    page.get_by_label("Reason, for the audit log").first.fill("the feed is broken")
    page.get_by_role("button", name="Pause queue").click()
    expect(page.get_by_text("1 queue paused.")).to_be_visible()
    banner = page.get_by_label("What holds jobs back")
    expect(banner).to_contain_text("Paused: queue imports of tenant default.")
    expect(banner).to_contain_text("Reason: the feed is broken.")
    page.get_by_label("Running at once, at most").fill("3")
    page.get_by_role("button", name="Set limit").click()
    expect(page.get_by_text("at most 3 running")).to_be_visible()
    page.get_by_role("button", name="Resume queue").click()
    expect(page.get_by_text("1 queue resumed.")).to_be_visible()
    page.get_by_role("button", name="Clear limit").click()
    expect(page.get_by_text("No limit.")).to_be_visible()


def test_an_operator_pauses_and_resumes_several_queues_at_once(anna: Visitor) -> None:
    page = anna.go("/queues")
    bar = page.get_by_role("group", name="Actions")
    expect(bar).to_contain_text("None selected")
    expect(bar.get_by_role("button", name="Pause")).to_be_disabled()
    page.get_by_label("Reason, for the audit log").fill("the network is slow")
    for name in ("imports", "mail"):
        page.get_by_label(f"Select {name}").check()
    anna.ask("() => { document.querySelector('#fresh table').dataset.old = 'yes'; }")
    anna.refresh()
    expect(page.locator("#fresh table[data-old]")).to_have_count(0)
    expect(bar).to_contain_text("2 selected")
    expect(page.get_by_label("Reason, for the audit log")).to_have_value("the network is slow")
    bar.get_by_role("button", name="Pause 2").click()
    expect(page.get_by_text("2 queues paused.")).to_be_visible()
    expect(page.get_by_role("row", name="imports")).to_contain_text("the network is slow")
    page.get_by_label("Select all queues").check()
    expect(bar).to_contain_text("Pause leaves out 2 paused")
    bar.get_by_role("button", name="Resume 2").click()
    expect(page.get_by_text("2 queues resumed.")).to_be_visible()
    entries = anna.go("/audit").get_by_role("row", name="pause queue")
    expect(entries.filter(has_text="the network is slow")).to_have_count(2)


def test_several_queues_are_paused_without_scripts(invite: Invite) -> None:
    visitor = invite(scripts=False)
    page = visitor.sign_in("anna", "/queues")
    page.get_by_label("Select imports").check()
    page.get_by_label("Select mail").check()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("2 queues paused.")).to_be_visible()
    page.get_by_label("Select imports").check()
    page.get_by_label("Select mail").check()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text("2 queues resumed.")).to_be_visible()


def test_a_range_fills_the_charts_and_they_fill_their_cards(anna: Visitor) -> None:
    page = anna.go("")
    page.get_by_role("navigation", name="Range").get_by_role("link", name="7 days").click()
    chart = page.get_by_role("img", name=re.compile("Throughput per 3 hours"))
    expect(chart).to_have_accessible_name(re.compile("failed in the last 7 days"))
    card = page.get_by_role("region", name="Throughput per 3 hours").first.bounding_box()
    box = chart.bounding_box()
    assert card is not None
    assert box is not None
    assert box["width"] > 0.8 * card["width"]
    kinds = page.get_by_role("region", name="Failures by kind")
    kinds.get_by_role("link", name="feed.import").click()
    page.get_by_role("link", name="ConnectionError").click()
    expect(page.get_by_text("3 dead letters, not retried yet")).to_be_visible()


def test_an_admin_looks_at_another_tenant_and_comes_back_also_without_scripts(
    invite: Invite,
) -> None:
    visitor = invite(scripts=False)
    page = visitor.sign_in("anna", "/tenants")
    expect(page.get_by_role("row").nth(1)).to_contain_text("acme")
    page.get_by_role("button", name="Switch to acme").click()
    expect(page.get_by_text("tenant acme")).to_be_visible()
    visitor.go("/tenants").get_by_role("button", name="Switch to default").click()
    expect(page.get_by_text("tenant default")).to_be_visible()
