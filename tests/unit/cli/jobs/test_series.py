"""``rota series``: created, previewed, held back and ended."""

from collections.abc import Callable

import pytest
from tests.unit.cli.conftest import RunRota

Series = Callable[..., str]


@pytest.fixture
def series(rota: RunRota) -> Series:
    def create(name: str, *options: str) -> str:
        outcome = rota("series", "create", name, *options, "--json")
        assert outcome.status == 0, outcome.err
        return str(outcome.document["id"])

    return create


def test_a_series_is_described_with_its_next_occurrences(rota: RunRota, series: Series) -> None:
    series_id = series("digest", "--cron", "0 9 * * mon-fri", "--zone", "Europe/London")
    listed = rota("series", "list")
    assert listed.out.splitlines()[1:] == [
        f"{series_id}  in 2d 19h  -     digest  At 09:00 on Monday to Friday (Europe/London)",
        "1 series",
    ]
    shown = rota("series", "show", series_id).out
    assert "Rule    0 9 * * mon-fri" in shown
    assert "Mon 2027-03-29 09:00:00  2027-03-29 08:00:00Z" in shown


def test_by_rule_and_by_interval(rota: RunRota, series: Series) -> None:
    series("standup", "--rrule", "FREQ=WEEKLY;BYDAY=MO", "--start", "2027-03-29T10:00")
    series("sync", "--every", "15m", "--times", "3")
    names = {it["name"]: it for it in rota("series", "list", "--json").document["items"]}
    assert names["standup"]["next_at"] == "2027-03-29T09:00:00Z"
    assert names["sync"]["recurrence"]["count"] == 3


def test_a_paused_series_waits_until_it_is_resumed(rota: RunRota, series: Series) -> None:
    series_id = series("sync", "--every", "1h")
    assert rota("series", "pause", series_id, "--why", "no data").out == "Paused: sync.\n"
    assert "paused" in rota("series", "list").out
    assert rota("series", "resume", series_id).out == "Resumed: sync.\n"
    detail = rota("series", "show", series_id, "--json").document
    assert not detail["series"]["is_paused"]


def test_a_series_is_changed_after_a_dry_run(rota: RunRota, series: Series) -> None:
    series_id = series("sync", "--cron", "0 9 * * *", "--zone", "Europe/London")
    rule = ("--cron", "30 10 * * *", "--zone", "Europe/London")
    dry = rota("series", "edit", series_id, *rule, "--priority", "7", "--dry-run").out
    assert "cron      0 9 * * *  30 10 * * *" in dry
    assert "Sat 2027-03-27 10:30:00" in dry
    assert dry.endswith("Nothing is changed yet.\n")
    assert rota("series", "edit", series_id, *rule).out.endswith("Changed.\n")
    assert "Rule    30 10 * * *" in rota("series", "show", series_id).out
    assert rota("series", "edit", series_id, *rule).out == "Nothing would change.\n"
    assert rota("series", "run-now", series_id).out == "Due now: sync.\n"


def test_a_series_is_backfilled_once(rota: RunRota, series: Series) -> None:
    series_id = series("sync", "--cron", "0 9 * * *", "--zone", "UTC")
    since = ("--since", "2027-03-20T00:00Z", "--zone", "UTC")
    dry = rota("series", "backfill", series_id, *since, "--dry-run").out
    assert dry.splitlines()[-1] == "Would create 7 jobs."
    assert rota("series", "backfill", series_id, *since).out.endswith("Created 7 jobs.\n")
    again = rota("series", "backfill", series_id, *since).out
    assert again == "Would create 0 jobs; 7 left out, which have a job.\n"


def test_the_calendar_lists_runs_and_collisions(rota: RunRota, series: Series) -> None:
    for name in ("one", "two"):
        series(name, "--cron", "0 18 * * *", "--zone", "UTC")
    series("often", "--every", "1m")
    lines = rota("series", "calendar", "--zone", "UTC").out.splitlines()
    assert [line.split()[-1] for line in lines[1:3]] == ["one", "two"]
    assert lines[3].startswith("often: 14")
    assert lines[4].endswith(": one, two")
    assert lines[5] == "2 runs; 1 groups of schedules collide"
    assert (
        rota("series", "calendar", "--days", "7", "--json").document["collisions"][0]["count"] == 7
    )


def test_an_ended_series_is_listed_no_more(rota: RunRota, series: Series) -> None:
    series_id = series("sync", "--every", "1h")
    assert rota("series", "cancel", series_id).status == 0
    assert rota("series", "list").out == "0 series\n"
    assert rota("series", "cancel", series_id).status == 3


def test_a_preview_shows_dst_notes(rota: RunRota) -> None:
    rule = ("--cron", "30 1 * * *", "--zone", "Europe/London", "--start", "2027-03-27")
    assert rota("series", "preview", *rule, "-n", "2").out.splitlines() == [
        "At 01:30 every day",
        "Local                    UTC                   Note",
        "Sat 2027-03-27 01:30:00  2027-03-27 01:30:00Z",
        "Mon 2027-03-29 01:30:00  2027-03-29 00:30:00Z",
        "2027-03-28 01:30 does not exist: clocks go forward 01:00 → 02:00",
    ]
    document = rota("series", "preview", *rule, "--times", "2", "--json").document
    assert document["is_complete"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "give exactly one of --cron, --rrule and --every"),
        (("--cron", "* * * * *", "--every", "1m"), "exactly one of"),
        (("--cron", "61 * * * *"), "minute field out of range"),
        (("--every", "never"), '--every "never" is not a length of time, such as 90s'),
        (("--cron", "* * * * *", "--zone", "Europe/Londn"), 'Unknown time zone "Europe/Londn"'),
    ],
)
def test_an_invalid_rule_is_refused(rota: RunRota, options: tuple[str, ...], reason: str) -> None:
    for command in (("create", "name"), ("preview",)):
        outcome = rota("series", *command, *options)
        assert (outcome.status, outcome.out) == (2, "")
        assert reason in outcome.err
