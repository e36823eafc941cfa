"""``CRON_TZ=`` and ``TZ=`` in front of an extended expression."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.unit.poller.polling import NOW

from rota import Rota
from rota.errors import InvalidCronExpressionError, InvalidInputError, InvalidJobError
from rota.jobs.validation import read_recurrence
from rota.poller import PolledJobs, next_start
from rota.scheduler import Scheduler, SchedulerPolicy
from rota.server.pages.outlook import preview_task
from rota.stores.memory import MemoryStore
from rota.testing import VirtualClock
from rota.triggers.cron import parse_cron
from rota.triggers.dst_notes import annotate, asked_by_cron
from rota.triggers.zone import load_zone

NINE = "CRON_TZ=Asia/Tokyo 0 9 * * *"
MIDNIGHT = datetime(2026, 5, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [NINE, "TZ=Asia/Tokyo 0 9 * * *", " TZ=Asia/Tokyo\t 0 0 9 * * *", "TZ=Europe/London 0 1 * * *"],
)
def test_a_zone_in_front_is_that_of_the_expression(text: str) -> None:
    cron = parse_cron(text, dialect="extended")
    for zone in (UTC, load_zone("America/New_York")):
        assert cron.next_after(NOW, zone) == MIDNIGHT
        assert cron.previous_at(MIDNIGHT, zone) == MIDNIGHT
        assert cron.matches(MIDNIGHT, zone)
        assert next(cron.between(NOW, MIDNIGHT, zone)) == MIDNIGHT
    assert cron.text == text
    assert str(cron.zone) in cron.describe()


def test_expressions_in_different_zones_differ() -> None:
    plain, tokyo = (parse_cron(it, dialect="extended") for it in ("0 9 * * *", NINE))
    assert plain != tokyo
    assert tokyo == parse_cron(NINE.replace("CRON_TZ", "TZ"), dialect="extended")


def test_macros_and_durations_may_have_a_zone() -> None:
    daily = parse_cron("CRON_TZ=Asia/Tokyo @daily", dialect="extended")
    assert daily.next_after(NOW, UTC) == datetime(2026, 5, 1, 15, tzinfo=UTC)
    every = parse_cron("TZ=Asia/Tokyo @every 90m", dialect="extended")
    assert every.next_after(NOW, UTC) == NOW + timedelta(minutes=90)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("CRON_TZ=Mars/Base 0 9 * * *", 'names the zone "Mars/Base", which does not exist'),
        ("CRON_TZ= 0 9 * * *", 'names the zone "", which does not exist'),
        ("TZ=UTC", "must have 5 fields"),
        ("TZ=UTC TZ=UTC 0 9 * * *", "invalid number format"),
    ],
)
def test_a_prefix_that_is_not_valid_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidCronExpressionError, match=reason):
        parse_cron(text, dialect="extended")


@pytest.mark.parametrize("dialect", ["posix", "posix-multiline"])
def test_the_strict_dialects_have_no_prefix(dialect: Any) -> None:
    with pytest.raises(InvalidCronExpressionError):
        parse_cron(NINE, dialect=dialect)


def test_changes_of_the_clocks_are_noted_in_the_zone_in_front() -> None:
    cron = parse_cron("CRON_TZ=Europe/London 30 1 * * *", dialect="extended")
    before = datetime(2027, 3, 27, 12, tzinfo=UTC)
    found = list(cron.between(before, before + timedelta(days=2), UTC))
    notes = annotate(
        found,
        load_zone("Europe/London"),
        asked_by_cron(cron),
        after=before,
        gap="skip",
        fold="both",
    )
    assert len(notes.skipped) == 1


def test_an_interval_of_a_document_may_name_its_zone() -> None:
    assert next_start(NINE, NOW, None, timedelta(), NOW, load_zone("Europe/Paris")) == MIDNIGHT


@pytest.mark.parametrize("zone", [{}, {"zone": "Asia/Tokyo"}])
def test_a_series_keeps_the_zone_in_front_as_its_own(zone: dict[str, str]) -> None:
    recurrence, first = read_recurrence({"cron": NINE, **zone}, NOW)
    assert (recurrence.cron, recurrence.zone, first) == ("0 9 * * *", "Asia/Tokyo", MIDNIGHT)


def test_a_series_without_any_zone_is_in_utc() -> None:
    recurrence, _ = read_recurrence({"cron": "0 9 * * *"}, NOW)
    assert recurrence.zone == "UTC"


def test_a_zone_beside_the_expression_that_differs_is_refused() -> None:
    with pytest.raises(InvalidJobError, match=r"recurrence\.zone is UTC, but the .* Asia/Tokyo"):
        read_recurrence({"cron": NINE, "zone": "UTC"}, NOW)
    with pytest.raises(InvalidJobError, match=r"recurrence\.cron is refused: .*Mars"):
        read_recurrence({"cron": "TZ=Mars 0 9 * * *"}, NOW)


async def test_polled_jobs_refuse_another_zone() -> None:
    jobs = PolledJobs(MemoryStore(), clock=VirtualClock(NOW))
    with pytest.raises(InvalidInputError, match="leave one of them out"):
        await jobs.add({}, interval=NINE, zone="Europe/Paris")
    job = await jobs.get(await jobs.add({}, interval=NINE))
    assert job is not None
    assert job.recurrence is not None
    assert (job.recurrence.cron, job.recurrence.zone) == ("0 9 * * *", "Asia/Tokyo")


async def test_a_schedule_of_an_app_takes_the_zone_in_front() -> None:
    def build(zone: str | None) -> Rota:
        app = Rota("memory://", zone="Europe/Paris")

        @app.schedule(NINE, zone=zone)
        async def report() -> None: ...

        return app

    async with build(None) as app:
        (planned,) = (await app.plan()).added
    definition = planned.definition
    assert (definition.cron, definition.zone) == ("0 9 * * *", "Asia/Tokyo")
    with pytest.raises(InvalidInputError, match="leave one of them out"):
        async with build("Europe/Paris") as app:
            await app.plan()


async def test_a_task_is_explained_and_shown_in_the_zone_in_front() -> None:
    clock = VirtualClock(NOW)
    policy = SchedulerPolicy(dialect="extended")
    scheduler = Scheduler(MemoryStore(), clock=clock, zone=load_zone("Europe/Paris"), policy=policy)
    tasks = [("mornings", NINE, lambda: None, timedelta())]
    planned = (await scheduler.plan(tasks)).tasks[0]
    assert planned.occurrences_after[0] == MIDNIGHT
    await scheduler.initialize(tasks)
    told = await scheduler.why("mornings")
    assert told.next_at == MIDNIGHT
    assert "Sat 2026-05-02 09:00:00 JST" in str(told.reasons)
    await clock.run(scheduler.stop())
    outlook = preview_task(NINE, load_zone("Europe/Paris"), NOW)
    assert "09:00" in outlook.occurrences[0].local
    assert outlook.description == "At 09:00 every day, in Asia/Tokyo"
