"""``rota gates``: set, shown and cleared."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.unit.cli.conftest import RunRota

from rota.cli.gates import describe_hours
from rota.cli.output import Viewer

NOW = datetime(2027, 3, 26, 12, tzinfo=UTC)

HOURS = ("--start", "22:00", "--end", "07:00", "--zone", "Europe/London")


def test_where_nothing_is_set_nothing_holds_jobs_back(rota: RunRota) -> None:
    rota("store", "migrate")
    assert rota("gates", "show").out == "No quiet hours.\nNo maintenance.\n"
    nothing: dict[str, Any] = {"quiet_hours": None, "maintenance": [], "kinds": []}
    assert rota("gates", "show", "--json").document == nothing


def test_whether_a_kind_notifies_people_is_set_shown_and_cleared(rota: RunRota) -> None:
    found = "Kind receipt.send notifies people: quiet hours hold back its jobs.\n"
    assert rota("gates", "kind", "receipt.send", "--notifies").out == found
    assert rota("gates", "show").out.endswith(found)
    quiet = rota("gates", "kind", "receipt.send", "--no-notifies", "--why", "a printer", "--json")
    assert (quiet.document["notifies"], quiet.document["set_notifies"]) == (False, False)
    cleared = rota("gates", "kind", "receipt.send", "--off")
    assert cleared.out == "Kind receipt.send: as the app or the worker says.\n"
    assert rota("gates", "show", "--json").document["kinds"] == []
    for given in ((), ("--notifies", "--off")):
        refused = rota("gates", "kind", "receipt.send", *given)
        assert refused.status == 2
        assert "give one of --notifies, --no-notifies and --off" in refused.err


def test_quiet_hours_are_set_and_cleared(rota: RunRota) -> None:
    found = "Quiet from 22:00 to 07:00 Europe/London every day.\n"
    assert rota("gates", "quiet-hours", *HOURS).out == found
    assert rota("gates", "show").out.startswith(found)
    assert rota("gates", "show", "--tenant", "other").out.startswith("No quiet hours.")
    assert rota("gates", "quiet-hours", "--off").out == "No quiet hours.\n"
    assert rota("gates", "show").out.startswith("No quiet hours.")


def test_quiet_hours_of_some_days(rota: RunRota) -> None:
    outcome = rota("gates", "quiet-hours", *HOURS, "--day", "sat", "--day", "sun")
    assert outcome.out == "Quiet from 22:00 to 07:00 Europe/London on sat, sun.\n"
    assert rota("gates", "quiet-hours", *HOURS, "--day", "someday").status == 2


def test_hours_that_end_when_they_begin_are_none(rota: RunRota) -> None:
    found = "No quiet hours: they start and end at the same time.\n"
    assert rota("gates", "quiet-hours", "--start", "22:00", "--end", "22:00").out == found
    assert rota("gates", "show").out.startswith(found)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"rest_days": ["sun"]}, "Quiet all day on sun Europe/London."),
        (
            {"end": "07:00", "rest_days": ["sun"], "holidays": ["2027-12-25"]},
            "Quiet from 22:00 to 07:00 Europe/London on mon, all day on sun, 2027-12-25.",
        ),
    ],
)
def test_whole_days_are_shown_with_or_without_hours(given: dict[str, Any], told: str) -> None:
    hours = {
        "start": "22:00",
        "end": "22:00",
        "zone": "Europe/London",
        "weekdays": ["mon"],
        "rest_days": [],
        "holidays": [],
        "is_quiet": False,
    }
    assert describe_hours(hours | given, Viewer(NOW, ZoneInfo("UTC"))) == told


def test_maintenance_lasts_until_it_is_over(rota: RunRota) -> None:
    until = ("--until", "2027-03-28T06:00")
    found = rota("gates", "maintenance", "--reason", "moving house", *until)
    assert found.out == (
        "Maintenance of this tenant, now, until Sun 2027-03-28 06:00:00 BST: moving house.\n"
    )
    assert "moving house" in rota("gates", "show").out
    assert rota("gates", "maintenance", "--off").out == "Maintenance is over.\n"
    assert "No maintenance." in rota("gates", "show").out


def test_maintenance_is_planned_beside_others(rota: RunRota) -> None:
    rota("gates", "maintenance", "--from", "2027-04-01T00:00", "--until", "2027-04-01T01:00")
    more = rota(
        "gates", "maintenance", "--add", "--from", "2027-05-01T00:00", "--until", "2027-05-01T01:00"
    )
    assert len(more.out.splitlines()) == 2
    assert "from Thu 2027-04-01 00:00:00" in more.out


def test_maintenance_that_is_over_already_is_refused(rota: RunRota) -> None:
    outcome = rota("gates", "maintenance", "--until", "2027-01-01")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err == "error: --until is over already: must be later than now\n"
    assert "No maintenance." in rota("gates", "show").out


def test_maintenance_of_a_queue_holds_for_all_tenants(rota: RunRota) -> None:
    rota("gates", "maintenance", "--everywhere", "--queue", "mail", "--reason", "no mail")
    for tenant in ("default", "other"):
        shown = rota("gates", "show", "--tenant", tenant).out
        assert "Maintenance of the queue mail, now, until further notice: no mail." in shown
    rota("gates", "maintenance", "--everywhere", "--queue", "mail", "--off")
    assert "No maintenance." in rota("gates", "show").out


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (("quiet-hours",), "--start and --end are needed, or --off"),
        (("quiet-hours", "--start", "25:00", "--end", "07:00"), "start"),
        (("maintenance", "--queue", "mail"), "--queue needs --everywhere"),
        (("maintenance", "--until", "tomorrow"), '--until "tomorrow" is not an ISO 8601'),
    ],
)
def test_invalid_gates_are_refused(rota: RunRota, argv: tuple[str, ...], reason: str) -> None:
    outcome = rota("gates", *argv)
    assert (outcome.status, outcome.out) == (2, "")
    assert reason in outcome.err
