"""rota import: what is read, what is written, and which fires differ from the original's."""

import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from apscheduler.triggers.cron import CronTrigger
from croniter import croniter
from tests.unit.cli.conftest import RunRota

from rota.cli.import_apscheduler import read_apscheduler
from rota.cli.import_celery import read_celery
from rota.cli.import_crontab import read_crontab
from rota.cli.import_report import check_rules, compare, write_program
from rota.cli.import_sources import Imported, ImportedSchedule
from rota.errors import InvalidInputError
from rota.schedules import DeclaredSchedule

NOW = datetime(2026, 11, 17, 4, tzinfo=UTC)
LONDON = ZoneInfo("Europe/London")
UTC_ZONE = ZoneInfo("UTC")
DAY = timedelta(days=1)


def crontab(line: str, zone: ZoneInfo = LONDON) -> ImportedSchedule:
    (found,) = read_crontab(f"{line} /usr/bin/backup.sh --full\n", zone, has_users=False).schedules
    return found


def celery(schedule: str, zone: str = "Europe/London") -> ImportedSchedule:
    text = f'app.conf.timezone = "{zone}"\n'
    text += f'app.conf.beat_schedule = {{"x": {{"task": "p.t.f", "schedule": {schedule}}}}}\n'
    (found,) = read_celery(text, None).schedules
    return found


def apscheduler(arguments: str, zone: str = "Europe/London") -> ImportedSchedule:
    text = f's = BlockingScheduler(timezone="{zone}")\ns.add_job(f, {arguments})\n'
    imported = read_apscheduler(text, UTC_ZONE)
    assert imported.unreadable == ()
    return imported.schedules[0]


def declared(imported: Imported) -> list[DeclaredSchedule]:
    """Run the program that is written; returns what it declares."""
    module = ModuleType("imported_tasks")
    sys.modules[module.__name__] = module
    try:
        exec(compile(write_program(imported, "x"), "tasks.py", "exec"), module.__dict__)  # noqa: S102 - the product is a program
    finally:
        del sys.modules[module.__name__]
    return [*module.app.schedules]


def their_fires(schedule: ImportedSchedule, first: date, days: int) -> list[datetime]:
    rule = schedule.rule
    assert rule is not None
    found = [
        at for number in range(days) for at in rule.fires_on(first + number * DAY, schedule.zone)
    ]
    return sorted(set(found))


def test_cron_and_rota_differ_only_where_the_clocks_go_forward() -> None:
    found = compare(crontab("30 1 * * *"), NOW)
    assert [(it.at.isoformat(), it.is_ours) for it in found] == [
        ("2027-03-28T01:00:00+00:00", False),
        ("2027-03-28T01:30:00+00:00", True),
        ("2028-03-26T01:00:00+00:00", False),
        ("2028-03-26T01:30:00+00:00", True),
    ]
    assert {it.reason.partition(";")[0] for it in found} == {
        "cron runs a job of the skipped hour as soon as the clocks have gone forward"
    }


@pytest.mark.parametrize(
    "line", ["*/15 * * * *", "0 9 13 * 5", "0 9 */2 * 5", "0 4 * * 7", "0 0 29 2 *", "5 4 * * sun"]
)
def test_other_lines_of_a_crontab_have_no_differences(line: str) -> None:
    assert compare(crontab(line), NOW) == []


def test_a_wrong_translation_would_be_found() -> None:
    right = crontab("0 9 13 * *")
    wrong = ImportedSchedule(**{**vars(right), "when": "0 9 14 * *"})
    assert len(compare(wrong, NOW)) == 48


def test_a_crontab_agrees_with_croniter_in_utc() -> None:
    random, day = Random(7), date(2027, 1, 1)
    for _ in range(60):
        dom = random.choice(["*", "13", "1-5", "*/7", "28"])
        dow = random.choice(["*", "5", "1-5", "0,6", "7"])
        month = random.choice(["*", "2", "6"])
        line = f"{random.randrange(60)} {random.randrange(24)} {dom} {month} {dow}"
        if dom.startswith("*/") and dow != "*":
            continue  # croniter counts a step as a restriction, cron does not
        start = datetime(2026, 12, 31, 23, 59, tzinfo=UTC)
        oracle = croniter(line, start)
        expected = []
        while (at := oracle.get_next(datetime)) < datetime(2028, 1, 1, tzinfo=UTC):
            expected.append(at)
        assert their_fires(crontab(line, UTC_ZONE), day, 365) == expected, line


def test_a_star_with_a_step_is_no_restriction_for_cron() -> None:
    fires = their_fires(crontab("0 9 */2 * 5", UTC_ZONE), date(2027, 1, 1), 31)
    assert [at.day for at in fires] == [1, 15, 29]


def test_what_a_crontab_cannot_say_is_left_out_with_the_reason() -> None:
    text = "MAILTO=a@b\n@reboot x\n61 * * * * y\nTZ=Nowhere/At_All\n# c\n\n0 0 * * * ok\n"
    imported = read_crontab(text, LONDON, has_users=False)
    assert [it.name for it in imported.schedules] == ["ok"]
    assert [(it.where, it.reason) for it in imported.unreadable] == [
        ("line 1", "set MAILTO where the worker runs"),
        ("line 2", "@reboot has no time: run it when the worker starts"),
        ("line 3", '"61" is not a value of its field'),
        ("line 4", 'Unknown time zone "Nowhere/At_All"'),
    ]


def test_a_schedule_that_never_fires_is_left_out() -> None:
    imported = check_rules(read_crontab("0 0 31 2 * x\n", LONDON, has_users=False))
    assert imported.schedules == ()
    assert imported.unreadable[0].reason.startswith("Rota refuses it: ")


def test_a_system_crontab_has_users() -> None:
    imported = read_crontab("0 0 * * * root echo hi%in\n", LONDON, has_users=True)
    (found,) = imported.schedules
    assert found.notes == (
        "what follows the % was the command's standard input; it is left out",
        "cron ran it as root; it now runs as the user of the worker",
    )
    assert found.body == ('subprocess.run(["/bin/sh", "-c", "echo hi"], check=True)',)


def test_the_program_declares_what_was_read() -> None:
    text = "CRON_TZ=Europe/London\n30 1 * * * a\n*/5 * * * * a\n0 9 */2 * 5 'c \"d\" \\\\'\n"
    found = declared(read_crontab(text, UTC_ZONE, has_users=False))
    assert [it.task.__name__ for it in found] == ["a", "a_2", "c"]
    assert [it.define().when[:12] for it in found] == ["30 1 * * *", "*/5 * * * *", "FREQ=MONTHLY"]
    assert {it.define().catch_up for it in found} == {"skip"}
    assert found[0].define().gap == "shift"


def test_celery_asks_for_day_and_weekday_at_once() -> None:
    found = celery('crontab(minute=0, hour=9, day_of_month="13", day_of_week="fri")')
    fires = their_fires(found, date(2026, 1, 1), 365)
    assert [f"{at:%m-%d}" for at in fires] == ["02-13", "03-13", "11-13"]
    assert found.when.startswith("FREQ=MONTHLY;BYMONTHDAY=13;BYDAY=FR;")
    assert compare(found, NOW) == []


@pytest.mark.parametrize(
    "schedule",
    [
        "crontab()",
        "crontab(minute=30, hour=1)",
        'crontab(minute="*/20", hour="8-18/2", day_of_week="mon-fri")',
        'crontab(minute=0, hour=0, day_of_week="fri-mon")',
        "crontab(minute=[0, 30], hour=7, day_of_month=[1, 15])",
        'crontab(0, 0, day_of_month="1", month_of_year="*/3")',
    ],
)
def test_celery_schedules_have_no_differences(schedule: str) -> None:
    assert compare(celery(schedule), NOW) == []


def test_celery_is_read_without_being_run() -> None:
    text = """
raise SystemExit
CELERY_TIMEZONE = "Asia/Tokyo"
CELERY_BEAT_SCHEDULE = {
    "a": {"task": "p.a", "schedule": timedelta(minutes=5)},
    "b": {"task": "p.b", "schedule": 60 * 5, "args": (1, "x"), "kwargs": {"k": [1]}},
    "c": {"task": "p.c", "schedule": load()},
    "d": {"task": "p.d", "schedule": 0.5},
    "e": {"task": "p.e", "schedule": crontab(hour=HOUR)},
}
sender.add_periodic_task(10, add.s())
"""
    imported = read_celery(text, None)
    assert [(it.name, it.when, str(it.zone)) for it in imported.schedules] == [
        ("a", "5m", "Asia/Tokyo"),
        ("b", "5m", "Asia/Tokyo"),
    ]
    assert imported.schedules[1].body[-1] == "task(1, 'x', k=[1])"
    assert {it.where for it in imported.unreadable} == {"c", "d", "e", "line 11"}
    assert len(declared(imported)) == 2


def test_celery_settings_may_be_json() -> None:
    text = """{"timezone": "UTC", "beat_schedule": {
        "a": {"task": "p.a", "schedule": 90},
        "b": {"task": "p.b", "schedule": {"minute": "0", "hour": "9"}}}}"""
    assert [it.when for it in read_celery(text, None).schedules] == ["1m30s", "0 9 * * *"]


def aps_fires(fields: dict[str, Any], start: datetime, end: datetime) -> list[datetime]:
    """What APScheduler itself computes."""
    trigger, previous = CronTrigger(timezone=LONDON, **fields), None
    found: list[datetime] = []
    now = start.astimezone(LONDON)
    while len(found) < 2_000:
        at = trigger.get_next_fire_time(previous, now)
        if at is None or at.astimezone(UTC) >= end:
            break
        found.append(at.astimezone(UTC))
        previous = at
        now = (found[-1] + timedelta(microseconds=1)).astimezone(LONDON)
    return found


APS_RULES: list[dict[str, Any]] = [
    {"hour": 1, "minute": 30},
    {"minute": 30},
    {"day_of_week": "0", "hour": 9},
    {"day_of_week": "mon-fri", "hour": "8-18/5", "minute": "15"},
    {"day": "2nd fri", "hour": 9},
    {"day": "last", "hour": 23},
    {"day": "last sun", "hour": 1, "minute": 30},
    {"day": "13", "day_of_week": "fri", "hour": 9},
    {"week": "*/2", "day_of_week": "mon", "hour": 7},
    {"month": "1,7", "day": "1"},
    {"hour": "0-3", "minute": 15},
]


@pytest.mark.parametrize("fields", APS_RULES, ids=str)
@pytest.mark.parametrize("start", [date(2027, 3, 1), date(2027, 10, 1)], ids=str)
def test_an_apscheduler_job_fires_as_apscheduler_says(fields: dict[str, Any], start: date) -> None:
    found = apscheduler(
        "'cron', " + ", ".join(f"{name}={value!r}" for name, value in fields.items())
    )
    begin = datetime(start.year, start.month, start.day, tzinfo=LONDON)
    end = begin + 45 * DAY
    expected = aps_fires(fields, begin, end.astimezone(UTC))
    assert their_fires(found, start, 45) == expected
    assert compare(found, NOW) == []


def test_a_crontab_in_apscheduler_counts_weekdays_from_monday() -> None:
    found = apscheduler("CronTrigger.from_crontab('0 9 * * 1')")
    assert found.when == "0 9 * * 2"


@pytest.mark.parametrize(
    ("options", "catch_up", "overlap"),
    [
        ("", "skip", "skip"),
        (", misfire_grace_time=None", "once", "skip"),
        (", misfire_grace_time=3600, coalesce=False", "all", "skip"),
        (", misfire_grace_time=30, max_instances=3", "skip", "allow"),
    ],
)
def test_misfires_and_instances_of_apscheduler(options: str, catch_up: str, overlap: str) -> None:
    found = apscheduler(f"'interval', minutes=5{options}")
    assert (found.when, found.options["catch_up"], found.options["overlap"]) == (
        "5m",
        catch_up,
        overlap,
    )


def test_what_apscheduler_cannot_carry_over_is_left_out() -> None:
    text = """
s.add_job(f, "date", run_date="2027-01-01")
s.add_job(f, "cron", year="2027")
s.add_job(f, make_trigger())
s.add_job("m:f", "interval", hours=1, jitter=30)
@s.scheduled_job("cron", hour=3)
def nightly(): ...
"""
    imported = read_apscheduler(text, LONDON)
    assert {it.where for it in imported.unreadable} == {"line 2", "line 3", "line 4"}
    by_name = {it.name: it for it in imported.schedules}
    assert by_name["m_f"].options["jitter"] == "30s"
    assert by_name["m_f"].body[0] == "from m import f as task"
    assert by_name["nightly"].when == "0 3 * * *"
    assert len(declared(imported)) == 2


def test_a_file_that_is_not_python_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="the file is not Python"):
        read_celery("x = = 1", None)


def test_the_command_writes_a_program_once(rota: RunRota, tmp_path: Path) -> None:
    source, out = tmp_path / "crontab", tmp_path / "tasks.py"
    source.write_text("30 1 * * * backup\n")
    done = rota("import", "crontab", str(source), "--zone", "Europe/London", "--out", str(out))
    assert done.status == 0
    assert "def backup() -> None:" in out.read_text()
    assert "only before: cron runs a job of the skipped hour" in done.out
    again = rota("import", "crontab", str(source), "--out", str(out))
    assert again.status == 2
    assert "choose another file with --out" in again.err
