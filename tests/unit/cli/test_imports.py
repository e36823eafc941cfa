"""rota import: what is read, what is written, and which fires differ from the original's."""

import sys
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from random import Random
from types import ModuleType
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from tests.unit.cli.conftest import RunRota

from rota.cli.import_apscheduler import read_apscheduler
from rota.cli.import_celery import read_celery
from rota.cli.import_crontab import read_crontab
from rota.cli.import_rule import Imported, ImportedSchedule
from rota.cli.imports import (
    Difference,
    check_rules,
    compare,
    list_ours,
    write_program,
)
from rota.errors import InvalidInputError
from rota.jobs import Recurrence, make_trigger
from rota.schedules import DeclaredSchedule
from rota.triggers.zone import Fold, Gap

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
    zone = schedule.zone
    begin = datetime.combine(first, time(), zone).astimezone(UTC)
    end = datetime.combine(first + days * DAY, time(), zone).astimezone(UTC)
    return list(schedule.rule.fires(begin, end, zone))


def differences(schedule: ImportedSchedule) -> list[Difference]:
    return compare(schedule, NOW).differences


def test_cron_and_rota_differ_only_where_the_clocks_go_forward() -> None:
    found = differences(crontab("30 1 * * *"))
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
    assert differences(crontab(line)) == []


def test_a_wrong_translation_would_be_found() -> None:
    right = crontab("0 9 13 * *")
    wrong = ImportedSchedule(**{**vars(right), "when": "0 9 14 * *"})
    assert len(differences(wrong)) == 48


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


def test_a_star_with_a_step_does_not_restrict_the_day_in_cron() -> None:
    fires = their_fires(crontab("0 9 */2 * 5", UTC_ZONE), date(2027, 1, 1), 31)
    assert [at.day for at in fires] == [1, 15, 29]


def test_crontab_lines_that_cannot_be_imported_are_listed_with_reasons() -> None:
    text = "MAILTO=a@b\n@reboot x\n61 * * * * y\nTZ=Nowhere/At_All\n# c\n\n0 0 * * * ok\n"
    imported = read_crontab(text, LONDON, has_users=False)
    assert [it.name for it in imported.schedules] == ["ok"]
    assert [(it.where, it.reason) for it in imported.unreadable] == [
        ("line 1", "set MAILTO where the worker runs"),
        ("line 2", "@reboot has no time: run it when the worker starts"),
        ("line 3", '"61" is not a number from 0 to 59'),
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
    assert differences(found) == []


@pytest.mark.parametrize(
    "schedule",
    [
        "crontab(minute='*/30')",
        "crontab(minute=30, hour=1)",
        'crontab(minute="*/20", hour="8-18/2", day_of_week="mon-fri")',
        'crontab(minute=0, hour=0, day_of_week="fri-mon")',
        "crontab(minute=[0, 30], hour=7, day_of_month=[1, 15])",
        'crontab(0, 0, day_of_month="1", month_of_year="*/3")',
    ],
)
def test_celery_schedules_have_no_differences(schedule: str) -> None:
    assert differences(celery(schedule)) == []


def test_celery_is_read_without_being_run() -> None:
    text = """
raise SystemExit
CELERY_TIMEZONE = "Asia/Tokyo"
CELERY_BEAT_SCHEDULE = {
    "a": {"task": "p.a", "schedule": timedelta(minutes=5)},
    "b": {"task": "p.b", "schedule": 60 * 5, "args": (1, "x"), "kwargs": {"k": [1]}},
    "c": {"task": "p.c", "schedule": load()},
    "f": {"task": "p.f", "schedule": solar("sunset", 51.5, -0.1)},
    "g": {"task": "send-mail", "schedule": crontab(hour=7, minute=0)},
    "h": {"task": "p.h", "schedule": schedule(timedelta(days=1), relative=True)},
    "i": {"task": "p.i", "schedule": 10, "args": (NAME,)},
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
    assert {it.where: it.reason for it in imported.unreadable} == {
        "c": "load() is neither crontab(...) nor a length of time",
        "d": "every 0.5 s: Rota counts in whole seconds, from one on",
        "e": "HOUR is not a literal",
        "f": "Rota has no schedules by sunrise and sunset",
        "g": "the task 'send-mail' does not say where its function is; schedule the function with "
        '"0 7 * * *"',
        "h": "relative=True rounds to the clock: write it as a crontab",
        "i": "the argument NAME is not a literal",
        "line 15": "add_periodic_task is a call: schedule its task with @app.schedule",
    }
    assert len(declared(imported)) == 2


@pytest.mark.parametrize(
    ("schedule", "reason"),
    [
        ("timedelta(seconds=1e999)", "is neither crontab(...) nor a length of time"),
        ("timedelta(seconds=1e999 - 1e999)", "is neither crontab(...) nor a length of time"),
        ("60 / 0", "a division by zero"),
        (f"{'9' * 400} / 3", "a number that is too large"),
    ],
)
def test_a_celery_schedule_that_is_not_a_number_is_left_out(schedule: str, reason: str) -> None:
    text = f"beat_schedule = {{'a': {{'task': 'p.a', 'schedule': {schedule}}}}}"
    (left_out,) = read_celery(text, None).unreadable
    assert left_out.reason.endswith(reason)


def test_celery_settings_may_be_json() -> None:
    text = """{"timezone": "UTC", "beat_schedule": {
        "a": {"task": "p.a", "schedule": 90},
        "b": {"task": "p.b", "schedule": {"minute": "0", "hour": "9"}}}}"""
    assert [it.when for it in read_celery(text, None).schedules] == ["1m30s", "0 9 * * *"]


def test_a_file_without_a_beat_schedule_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="FILE: no beat schedule found; it is a dict named"):
        read_celery("app = Celery()", None)


def test_celery_options_become_a_queue_and_notes() -> None:
    text = """beat_schedule = {"a": {"task": "p.a", "schedule": crontab(), "options": {
        "queue": "reports", "expires": 60, "routing_key": "x"}}}"""
    imported = read_celery(text, None)
    (found,) = imported.schedules
    assert found.notes == (
        "expires is not carried over: a job that waited longer than that still runs",
        "routing_key is not carried over",
    )
    (schedule,) = declared(imported)
    assert schedule.define().queue == "reports"


def test_beat_in_the_zone_of_its_host_asks_for_the_zone() -> None:
    text = "enable_utc = False\nbeat_schedule = {'a': {'task': 'p.a', 'schedule': 60}}"
    assert [it.where for it in read_celery(text, None).unreadable] == ["enable_utc"]


def test_intervals_are_compared_from_a_common_start() -> None:
    found = compare(celery("timedelta(minutes=5)"), NOW)
    assert (found.fire_count, found.differences) == (731 * 288, [])
    wrong = ImportedSchedule(**{**vars(celery("600")), "when": "5m"})
    assert len(differences(wrong)) == 731 * 144


@pytest.mark.parametrize("zone", ["Europe/London", "Australia/Lord_Howe", "Africa/Cairo"])
@pytest.mark.parametrize(("gap", "fold"), [("shift", "first"), ("skip", "both")])
def test_the_fast_search_finds_what_the_trigger_finds(zone: str, gap: Gap, fold: Fold) -> None:
    found = crontab("*/30 0-3 * * *", ZoneInfo(zone))
    schedule = ImportedSchedule(**{**vars(found), "options": {"gap": gap, "fold": fold}})
    begin, end = datetime(2027, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)
    trigger = make_trigger(
        Recurrence(cron=schedule.when, zone=zone, start=begin, gap=gap, fold=fold)
    )
    expected, at = [], trigger.next_after(begin - timedelta(microseconds=1))
    while at is not None and at < end:
        expected.append(at)
        at = trigger.next_after(at)
    assert list(list_ours(schedule, begin, end)) == expected


def test_fires_before_a_start_date_are_listed() -> None:
    listed = differences(apscheduler("'cron', hour=9, start_date='2026-11-20 00:00:00'"))
    assert [(it.at.day, it.is_ours, it.reason) for it in listed] == [
        (18, True, "its start_date is not carried over"),
        (19, True, "its start_date is not carried over"),
    ]


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


def test_apscheduler_jobs_that_cannot_be_imported_are_left_out() -> None:
    text = """
s.add_job(f, "date", run_date="2027-01-01")
s.add_job(f, "cron", year="2027")
s.add_job(f, make_trigger())
s.add_job(f, "cron", hour=3, end_date="2027-01-01")
s.add_job(f, "interval", hours=1, args=[later])
s.add_job("m:f", "interval", hours=1, jitter=30)
s.add_job(clean.all, "interval", hours=1, args=[[1, "x"]])
@s.scheduled_job("cron", hour=3)
def nightly(): ...
"""
    imported = read_apscheduler(text, LONDON, "jobs")
    assert {it.where for it in imported.unreadable} == {f"line {number}" for number in range(2, 7)}
    by_name = {it.name: it for it in imported.schedules}
    assert by_name["m_f"].options["jitter"] == "30s"
    assert by_name["m_f"].body[0] == "from m import f as task"
    assert by_name["nightly"].when == "0 3 * * *"
    assert by_name["clean_all"].body == ("from jobs import clean", "", "clean.all([1, 'x'])")
    assert len(declared(imported)) == 3


def test_a_program_without_jobs_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="FILE: no add_job or scheduled_job found"):
        read_apscheduler("scheduler = BlockingScheduler()", LONDON)


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
    assert "name another file with --out" in again.err
