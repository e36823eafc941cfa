"""What tasks do on the days when the clocks change, by the instants at which they really start."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest
from tests.spec.stage import Stage

from rota import DECLARATIVE, POLLING, SchedulerPolicy
from rota.stores.memory import MemoryStore

KYIV, LORD_HOWE = ZoneInfo("Europe/Kyiv"), ZoneInfo("Australia/Lord_Howe")
APIA, NEW_YORK = ZoneInfo("Pacific/Apia"), ZoneInfo("America/New_York")


class Story(NamedTuple):
    """An expression, a wall time, a number of hours, and the expected UTC starts by edition."""

    zone: ZoneInfo
    cron: str
    begins: datetime
    hours: float
    declarative: list[str]
    polling: list[str]


def wall(*parts: int) -> datetime:
    return datetime(*parts)  # type: ignore[arg-type] # noqa: DTZ001 - a wall time, read in the story's zone


def on(day: str, times: str) -> list[str]:
    return [f"{day}T{time}" for time in times.split()]


STORIES = {
    "a skipped half past three": Story(
        KYIV, "30 3 * * *", wall(2027, 3, 27, 4, 0), 50, *[["2027-03-29T00:30"]] * 2
    ),
    "minutes around a gap": Story(
        KYIV,
        "0,30 * * * *",
        wall(2027, 3, 28, 2, 1),
        2,
        *[on("2027-03-28", "00:30 01:00 01:30 02:00")] * 2,
    ),
    "a repeated half past three": Story(
        KYIV,
        "30 3 * * *",
        wall(2027, 10, 31, 1, 0),
        24,
        ["2027-10-31T00:30", "2027-10-31T01:30"],
        ["2027-10-31T00:30"],
    ),
    "every half hour over a fold": Story(
        KYIV,
        "0,30 * * * *",
        wall(2027, 10, 31, 2, 31),
        3,
        on("2027-10-31", "00:00 00:30 01:00 01:30 02:00 02:30"),
        on("2027-10-31", "00:00 00:30 02:00 02:30"),
    ),
    "new york in autumn": Story(
        NEW_YORK,
        "15 1 * * *",
        wall(2027, 11, 7, 0, 0),
        24,
        ["2027-11-07T05:15", "2027-11-07T06:15"],
        ["2027-11-07T05:15"],
    ),
    "half an hour is repeated": Story(
        LORD_HOWE,
        "0,15,30,45 1,2 * * *",
        wall(2027, 4, 4, 1, 1),
        2.5,
        on("2027-04-03", "14:15 14:30 14:45 15:00 15:15 15:30 15:45 16:00 16:15"),
        on("2027-04-03", "14:15 14:30 14:45 15:30 15:45 16:00 16:15"),
    ),
    "half an hour is skipped": Story(
        LORD_HOWE,
        "0,15,30,45 2 * * *",
        wall(2027, 10, 3, 1, 1),
        2,
        *[["2027-10-02T15:30", "2027-10-02T15:45"]] * 2,
    ),
    "a whole day is skipped": Story(
        APIA,
        "0 12 * * *",
        wall(2011, 12, 29, 0, 0),
        72,
        *[["2011-12-29T22:00", "2011-12-30T22:00", "2011-12-31T22:00"]] * 2,
    ),
    "the skipped day itself": Story(
        APIA, "0 12 30 12 *", wall(2011, 12, 29, 0, 0), 96, *[list[str]()] * 2
    ),
}


def expected(story: Story, policy: SchedulerPolicy) -> list[datetime]:
    texts = story.declarative if policy is DECLARATIVE else story.polling
    return [datetime.fromisoformat(text).replace(tzinfo=UTC) for text in texts]


@pytest.mark.parametrize("name", STORIES)
async def test_tasks_start_at_the_right_instants(name: str, policy: SchedulerPolicy) -> None:
    story = STORIES[name]
    stage = Stage(MemoryStore(), story.begins.replace(tzinfo=story.zone))
    await stage.scheduler(policy, zone=story.zone).initialize([stage.task(cron=story.cron)])
    await stage.clock.advance(timedelta(hours=story.hours))
    assert stage.started() == expected(story, policy)
    await stage.close()


async def test_a_restart_after_a_gap_does_not_make_up_for_the_skipped_minute(
    policy: SchedulerPolicy,
) -> None:
    stage = Stage(MemoryStore(), datetime(2027, 3, 27, 3, 30, tzinfo=KYIV))
    registrations = [stage.task(cron="30 3 * * *")]
    scheduler = stage.scheduler(policy, zone=KYIV)
    await scheduler.initialize(registrations)
    await stage.clock.advance(timedelta(hours=1))
    await scheduler.stop()
    await stage.clock.advance_to(datetime(2027, 3, 28, 12, 0, tzinfo=KYIV))
    await scheduler.initialize(registrations)
    await stage.clock.advance_to(datetime(2027, 3, 29, 3, 29, tzinfo=KYIV))
    assert stage.started() == [datetime(2027, 3, 27, 1, 30, tzinfo=UTC)]
    await stage.close()


async def test_a_new_task_in_the_second_showing_of_its_minute(policy: SchedulerPolicy) -> None:
    second_showing = datetime(2027, 10, 31, 1, 30, 20, tzinfo=UTC)
    stage = Stage(MemoryStore(), second_showing)
    await stage.scheduler(policy, zone=KYIV).initialize([stage.task(cron="30 3 * * *")])
    await stage.clock.advance(timedelta(minutes=5))
    assert stage.started() == ([] if policy is POLLING else [second_showing])
    await stage.close()


async def test_a_retry_in_a_repeated_hour_is_real_time(policy: SchedulerPolicy) -> None:
    stage = Stage(MemoryStore(), datetime(2027, 10, 31, 0, 0, tzinfo=UTC))
    await stage.scheduler(policy, zone=KYIV).initialize(
        [stage.task(cron="59 3 * * *", delay=timedelta(minutes=20), fails=[ValueError()])]
    )
    await stage.clock.advance(timedelta(minutes=90))
    first = datetime(2027, 10, 31, 0, 59, tzinfo=UTC)
    assert stage.started() == [first, first + timedelta(minutes=20)]
    await stage.close()
