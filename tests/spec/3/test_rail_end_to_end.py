"""The example of specification 3, section 18.16, over years, with everything that may go wrong."""

import logging
from collections import Counter
from datetime import timedelta

import pytest
from tests.spec.check_in_story import Story
from tests.spec.check_ins import KOLKATA, LONDON, SYDNEY, ZONES, cast_tenants

from rota import open_store

TWO_YEARS, HALF_A_YEAR = timedelta(days=730), timedelta(weeks=26)
LATEST = timedelta(days=4)
"""A maintenance of a day, a night, five attempts and an operator who comes after hours."""

LONGEST_RUN = timedelta(seconds=10)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of failures are what is asked for here, and not worth a line each."""
    caplog.set_level(logging.CRITICAL, "rota.worker")


def assert_each_was_sent_once(story: Story) -> None:
    expected = Counter(
        (tenant.name, pair, at)
        for tenant in story.tenants
        for pair in tenant.pairs
        for at in tenant.expect(story.end)
    )
    assert Counter((it.tenant, it.pair, it.scheduled_for) for it in story.sent) == expected


def assert_none_was_sent_at_a_wrong_time(story: Story) -> None:
    hushes = {tenant.name: tenant.hush for tenant in story.tenants}
    for it in story.sent:
        hush = hushes[it.tenant]
        assert it.scheduled_for <= it.begun_at < it.scheduled_for + LATEST
        assert it.begun_at < it.sent_at < it.begun_at + LONGEST_RUN
        assert hush is None or not hush.covers(it.begun_at)
        assert not any(closure.covers(it.tenant, it.begun_at) for closure in story.closures)


def count_held_back(story: Story) -> Counter[str]:
    """How many check-ins were due when it was quiet, and how many during maintenance."""
    return Counter(
        reason
        for tenant in story.tenants
        for at in tenant.expect(story.end)
        for reason, holds in (
            ("quiet hours", tenant.hush is not None and tenant.hush.covers(at)),
            ("maintenance", any(closure.covers(tenant.name, at) for closure in story.closures)),
        )
        if holds
    )


async def test_two_years_of_check_ins_for_many_tenants_are_sent_once_each() -> None:
    cast = cast_tenants(50)
    tenants = [*cast[:12], *cast[20:25], *cast[45:]]  # the last ten check in at night
    async with await open_store("memory://") as store:
        story = Story(store, tenants, TWO_YEARS)
        await story.live()
    assert_each_was_sent_once(story)
    assert_none_was_sent_at_a_wrong_time(story)
    assert len(story.sent) > 1_000
    assert min(story.happened[what] for what in ("failures", "deferrals", "faults")) > 200
    assert story.happened["deaths"] > 30
    assert story.happened["stalls"] >= story.happened["deaths"]
    assert story.happened["dead letters"] > 0
    held_back = count_held_back(story)
    assert min(held_back["quiet hours"], held_back["maintenance"]) > 100
    assert {it.zone for it in story.tenants if it.count_skipped(story.end)} == set(ZONES) - {
        KOLKATA
    }
    assert {it.zone for it in story.tenants if it.count_shown_twice(story.end)} == {LONDON, SYDNEY}


async def test_half_a_year_of_check_ins_is_sent_once_each_on_every_store(store_url: str) -> None:
    async with await open_store(store_url) as store:
        story = Story(store, cast_tenants(2), HALF_A_YEAR, worker_count=2)
        await story.live()
    assert_each_was_sent_once(story)
    assert_none_was_sent_at_a_wrong_time(story)
    assert min(story.happened[what] for what in ("failures", "deferrals", "faults")) > 0
