"""When a series will occur, and what changes of the clocks do to it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.unit.turns import count_turns

from rota.errors import InvalidInputError, JobEndedError
from rota.rail import Rail
from rota.stores.memory import MemoryStore
from rota.testing import VirtualClock

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
NIGHTLY = "FREQ=DAILY;BYHOUR=1;BYMINUTE=30;BYSECOND=0"


async def test_a_rule_is_shown_in_its_zone_with_notes_where_the_clocks_change(rail: Rail) -> None:
    preview = await rail.preview(
        rrule=NIGHTLY, tz="Europe/London", start_from="2027-03-27T00:00:00Z", occurrence_count=3
    )
    assert preview.description == "Every day at 01:30"
    assert [(str(each.local), each.note) for each in preview.occurrences] == [
        ("2027-03-27 01:30:00+00:00", None),
        ("2027-03-28 02:30:00+01:00", "clocks go forward: moved from 01:30"),
        ("2027-03-29 01:30:00+01:00", None),
    ]
    assert [each.at.hour for each in preview.occurrences] == [1, 1, 0]
    assert (preview.skipped, preview.is_complete) == ((), False)


@pytest.mark.parametrize("rule", [{"rrule": NIGHTLY}, {"cron": "30 1 * * *"}])
async def test_skipped_occurrences_are_reported(rail: Rail, rule: dict[str, Any]) -> None:
    start = "2027-03-27T12:00:00Z"
    preview = await rail.preview(**rule, tz="Europe/London", gap="skip", start_from=start)
    (skipped,) = preview.skipped
    assert skipped.startswith("2027-03-28 01:30 does not exist")
    assert len(preview.occurrences) == 5


async def test_an_interval_knows_no_clocks(rail: Rail) -> None:
    preview = await rail.preview(interval="1h30m", occurrence_count=2)
    assert [each.at for each in preview.occurrences] == [NOW, NOW + 1.5 * HOUR]
    assert preview.description.startswith("Every 1 hour 30 minutes since ")


@pytest.mark.parametrize(
    ("limits", "hours"),
    [
        ({"count": 2}, [0, 1]),
        ({"count": 5}, [0, 1, 2, 3, 4]),
        ({"until": NOW + 2 * HOUR}, [0, 1, 2]),
    ],
)
async def test_a_preview_says_when_it_is_all(
    rail: Rail, limits: dict[str, Any], hours: list[int]
) -> None:
    preview = await rail.preview(interval="1h", **limits)
    assert [each.at for each in preview.occurrences] == [NOW + hour * HOUR for hour in hours]
    assert preview.is_complete


async def test_a_series_is_previewed_from_its_present_occurrence_on(
    rail: Rail, store: MemoryStore, clock: VirtualClock
) -> None:
    job_id = await rail.schedule_recurring("a", {}, interval="1h", count=3)
    await rail.cancel(job_id, ends_series=False)
    await clock.advance(HOUR / 2)
    preview = await rail.preview(job_id)
    assert [each.at for each in preview.occurrences] == [NOW + HOUR, NOW + 2 * HOUR]
    await rail.cancel(job_id)
    with pytest.raises(JobEndedError):
        await rail.preview(job_id)
    assert await store.count("guild-7") == 2


@pytest.mark.parametrize("count", [0, 1001, "5", True])
async def test_a_preview_has_a_sensible_length(rail: Rail, count: Any) -> None:
    with pytest.raises(InvalidInputError, match="count must be an integer from 1 to 1000"):
        await rail.preview(interval="1h", occurrence_count=count)


async def test_a_preview_refuses_unknown_parts_of_a_rule(rail: Rail) -> None:
    with pytest.raises(TypeError, match="colour"):
        await rail.preview(interval="1h", colour="red")


async def test_a_long_preview_does_not_block_the_event_loop(rail: Rail) -> None:
    rule = "FREQ=SECONDLY;INTERVAL=7919;BYHOUR=3;BYMINUTE=7;BYSECOND=11"
    shown = rail.preview(rrule=rule, tz="America/New_York", start_from=NOW, occurrence_count=30)
    preview, turns = await count_turns(shown)
    assert len(preview.occurrences) == 30
    assert turns > 10
