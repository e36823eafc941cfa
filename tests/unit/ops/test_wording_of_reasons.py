"""Errors and times in the words of a sentence."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from rota.jobs import Recurrence
from rota.ops.explanation import end_sentence, format_error, name_error, show, zone_of
from rota.testing import a_job

TRACE = """Traceback (most recent call last):
  File "a.py", line 1, in <module>
    ask()
    ^^^^^
KeyError: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "b.py", line 2, in <module>
GatewayTimeout: no answer within 30 s
the rest of its message
"""


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (TRACE, "GatewayTimeout: no answer within 30 s"),
        (f"The worker said:\n{TRACE}", "GatewayTimeout: no answer within 30 s"),
        ("Traceback (most recent call last):", "Traceback (most recent call last):"),
        ("Error: no\n    at ask (a.js:1)", "Error: no"),
        ("  Boom\nat line 5", "Boom"),
        (" \n ", ""),
        (None, ""),
    ],
)
def test_the_telling_line_of_an_error_is_shown(error: str | None, line: str) -> None:
    assert name_error(error) == line


def test_passwords_are_masked() -> None:
    found = name_error("cannot reach https://anna:hunter2@example.com")
    assert found == "cannot reach https://anna:(hidden)@example.com"


def test_sentences_end_once() -> None:
    assert [end_sentence(text) for text in ("No", "No.", "No!")] == ["No.", "No.", "No!"]
    assert format_error(None) == "no error was recorded."


def test_an_instant_shows_both_clocks_where_they_differ() -> None:
    instant = datetime(2026, 5, 1, 23, 30, tzinfo=UTC)
    assert show(instant) == "Fri 2026-05-01 23:30:00 UTC"
    berlin = ZoneInfo("Europe/Berlin")
    assert show(instant, berlin) == "Sat 2026-05-02 01:30:00 CEST (Fri 2026-05-01 23:30:00 UTC)"
    earlier = show(instant - timedelta(hours=4), berlin)
    assert earlier == "Fri 2026-05-01 21:30:00 CEST (19:30:00 UTC)"


def test_an_unknown_zone_falls_back_to_utc() -> None:
    start = datetime(2026, 5, 1, tzinfo=UTC)
    job = a_job(recurrence=Recurrence(cron="0 9 * * *", zone="Nowhere/Else", start=start))
    assert zone_of(job) is UTC
    assert zone_of(a_job()) is UTC
