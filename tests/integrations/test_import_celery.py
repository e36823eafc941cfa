"""rota import celery on a real project: Celery itself says when beat would send."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import celery
import pytest
from celery import Celery
from celery.beat import Scheduler
from celery.schedules import crontab, maybe_schedule
from packaging.version import Version

from rota.cli.import_celery import read_celery
from rota.cli.import_rule import Imported, ImportedSchedule
from rota.cli.imports import compare, find_window, list_ours, write_program

PROJECT = Path(__file__).parent / "celery_project"
NOW = datetime(2026, 11, 17, 4, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
COUNTS_ELAPSED = Version(celery.__version__) >= Version("5.7")


@pytest.fixture(scope="module")
def shop() -> Iterator[Any]:
    """The project's app, with the tasks that it finds by itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(PROJECT)
        app = import_module("shop.celery").app
        app.loader.import_default_modules()
        yield app
    for name in [name for name in sys.modules if name == "shop" or name.startswith("shop.")]:
        del sys.modules[name]


def read_project() -> Imported:
    return read_celery((PROJECT / "shop" / "celery.py").read_text(), None)


def celery_fires(schedule: Any, app: Any, begin: datetime, end: datetime) -> list[datetime]:
    """What beat sends, if it is never late. Each fire is asked for after the one before."""
    zone = app.timezone
    last = begin - getattr(schedule, "run_every", MINUTE)
    found: list[datetime] = []
    schedule.app = app
    schedule.nowfun = lambda: last.astimezone(zone)
    while True:
        due = last + schedule.remaining_estimate(last.astimezone(zone))
        if due >= end:
            return found
        assert due > last
        found.append(due)
        last = due


def accounted(schedule: ImportedSchedule) -> list[datetime]:
    """Rota's own fires, corrected by the differences that the report lists."""
    differences = compare(schedule, NOW).differences
    only_ours = {it.at for it in differences if it.is_ours}
    only_theirs = {it.at for it in differences if not it.is_ours}
    ours = set(list_ours(schedule, *find_window(schedule, NOW)))
    assert only_ours <= ours
    assert not only_theirs & ours
    return sorted((ours - only_ours) | only_theirs)


def test_the_report_accounts_for_every_fire_of_beat_in_two_years(shop: Any) -> None:
    scheduler = Scheduler(shop, lazy=True)
    scheduler.merge_inplace(shop.conf.beat_schedule)
    imported = read_project()
    left_out = {it.where for it in imported.unreadable}
    assert set(scheduler.schedule) == {it.where for it in imported.schedules} | left_out
    assert left_out == {"renamed"}
    for schedule in imported.schedules:
        real = scheduler.schedule[schedule.where].schedule
        asked = shop
        if hasattr(real, "run_every") and not COUNTS_ELAPSED:
            asked = Celery(set_as_current=False)  # in UTC
        expected = celery_fires(real, asked, *find_window(schedule, NOW))
        assert accounted(schedule) == expected, schedule.where
        assert compare(schedule, NOW).fire_count == len(expected)


@pytest.mark.skipif(COUNTS_ELAPSED, reason="Celery 5.7 counts elapsed time")
def test_an_older_celery_pauses_an_interval_while_clocks_repeat_an_hour(shop: Any) -> None:
    (beat,) = (it for it in read_project().schedules if it.where == "heartbeat")
    assert any(note.startswith("Celery before 5.7 counts on the wall clock") for note in beat.notes)
    begin = datetime(2027, 10, 30, 23, tzinfo=UTC)
    real = shop.conf.beat_schedule["heartbeat"]["schedule"]
    fires = celery_fires(maybe_schedule(real), shop, begin, begin + timedelta(hours=4))
    gaps = [later - earlier for earlier, later in pairwise(fires)]
    assert max(gaps) == timedelta(minutes=65)
    assert sorted(gaps)[-2] == timedelta(minutes=5)


def test_beat_agrees_that_each_fire_is_due_and_none_is_due_before(shop: Any) -> None:
    (close,) = (it for it in read_project().schedules if it.where == "close-half-hours")
    begin = datetime(2027, 3, 26, tzinfo=UTC)
    last, real = begin, shop.conf.beat_schedule["close-half-hours"]["schedule"]
    real.app, zone = shop, ZoneInfo("Europe/London")
    for at in close.rule.fires(begin, begin + timedelta(days=5), zone):
        for moment, is_due in ((at - timedelta(seconds=1), False), (at, True)):
            real.nowfun = lambda moment=moment: moment.astimezone(zone)
            assert real.is_due(last.astimezone(zone)).is_due is is_due, moment
        last = at


def test_of_two_times_in_a_skipped_hour_celery_runs_the_first() -> None:
    (close,) = (it for it in read_project().schedules if it.where == "close-half-hours")
    found = compare(close, NOW).differences
    assert [(it.at.isoformat(), it.is_ours) for it in found] == [
        ("2027-03-28T01:30:00+00:00", True),
        ("2028-03-26T01:30:00+00:00", True),
    ]
    assert all(it.reason.startswith("Celery counts from its last run") for it in found)


FIELDS = {
    "minute": ["0", "30", "*/15", "0,30", "15,45", "7", "*/20", "50-10"],
    "hour": ["1", "2", "1,3", "0-3", "*/6", "2,22", "23", "22-2"],
    "day_of_week": ["*", "*", "sun", "mon-fri", "sunday", "sat-mon", "fri-mon/2", "*/2"],
    "day_of_month": ["*", "*", "*", "1", "13", "8-14", "*/7", "28-3"],
    "month_of_year": ["*", "*", "*", "3", "*/3", "oct-mar", "january,november"],
}
ZONES = ["Europe/London", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "UTC"]


@pytest.mark.parametrize("zone", ZONES)
def test_random_crontabs_fire_when_celery_says(zone: str) -> None:
    random = Random(zone)
    app = Celery(set_as_current=False)
    app.conf.timezone = zone
    for _ in range(8):
        fields = {name: random.choice(choices) for name, choices in FIELDS.items()}
        written = ", ".join(f"{name}={value!r}" for name, value in fields.items())
        text = f"beat_schedule = {{'x': {{'task': 'a.b', 'schedule': crontab({written})}}}}"
        (schedule,) = read_celery(text, ZoneInfo(zone)).schedules
        expected = celery_fires(crontab(**fields), app, *find_window(schedule, NOW))
        assert accounted(schedule) == expected, fields


@pytest.mark.parametrize("day", [(2027, 3, 28), (2027, 10, 31)])
def test_every_minute_agrees_with_celery_around_a_clock_change(day: tuple[int, int, int]) -> None:
    app = Celery(set_as_current=False)
    app.conf.timezone = "Europe/London"
    text = "beat_schedule = {'x': {'task': 'a.b', 'schedule': crontab()}}"
    (schedule,) = read_celery(text, ZoneInfo("Europe/London")).schedules
    begin = datetime(*day, tzinfo=UTC) - timedelta(days=1)
    end = begin + timedelta(days=3)
    expected = celery_fires(crontab(), app, begin, end)
    assert list(schedule.rule.fires(begin, end, schedule.zone)) == expected
    assert list(list_ours(schedule, begin, end)) == expected


async def test_the_imported_tasks_run_when_they_are_due(
    shop: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "send-mail" in shop.tasks
    (tmp_path / "imported_by_rota.py").write_text(write_program(read_project(), "celery.py"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("ROTA_STORE", "memory://")
    tasks = import_module("imported_by_rota")
    assert tasks.app.tasks["imported_by_rota.first_fridays"].options.queue == "reports"
    async with tasks.app.testing(at="2027-01-01T09:00:00Z") as rota:
        ended = await rota.advance("20m")
    assert import_module("shop.reports.tasks").sent == ["3 weekly reports"]
    kinds = [job.kind.rpartition(".")[2] for job in ended]
    assert kinds.count("first_fridays") == 1
    assert kinds.count("heartbeat") >= 4
