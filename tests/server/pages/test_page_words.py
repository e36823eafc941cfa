"""Times, statuses, timelines and texts, in the words of the pages."""

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import msgspec
import pytest
from tests.browser.stage.story import HOUR, MINUTE, Story

from rota.errors import InvalidRequestError
from rota.jobs import PAUSED_UNTIL, Ending, JobState, JobStatus, RetryPolicy
from rota.jobs.record import BackoffStrategy, Deferral
from rota.ops.overview import Alarm
from rota.server.pages.formats import (
    format_distance,
    format_instant,
    format_length,
    format_local,
    format_ms,
    read_wall,
    show_json,
    show_text,
)
from rota.server.pages.job import describe_policy, list_facts
from rota.server.pages.outlook import preview_task, show_occurrence
from rota.server.pages.overview import list_warnings
from rota.server.pages.rule_form import LONGEST_PAYLOAD, show_payload_text
from rota.server.pages.statuses import SIGNS, sign_of
from rota.server.pages.timeline import make_timeline
from rota.testing.builders import a_job

NOW = datetime(2026, 10, 23, 9, 41, 20, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (timedelta(0), "0 ms"),
        (timedelta(microseconds=999), "<1 ms"),
        (timedelta(milliseconds=250), "250 ms"),
        (timedelta(seconds=2.5), "2.5 s"),
        (5 * SECOND, "5 s"),
        (59 * SECOND, "59 s"),
        (90 * SECOND, "1 min 30 s"),
        (12 * MINUTE, "12 min"),
        (65 * MINUTE, "1 h 5 min"),
        (26 * HOUR, "1 d 2 h"),
        (4 * 24 * HOUR + 3 * HOUR, "4 d"),
        (-MINUTE, "-1 min"),
    ],
)
def test_a_length_has_two_units_at_most(length: timedelta, words: str) -> None:
    assert format_length(length) == words


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (0.0, "0 ms"),
        (0.04, "0.04 ms"),
        (0.25, "0.25 ms"),
        (2.0, "2 ms"),
        (9.96, "10 ms"),
        (12.4, "12 ms"),
        (1500.0, "1.5 s"),
    ],
)
def test_milliseconds_below_ten_have_a_fraction(milliseconds: float, words: str) -> None:
    assert format_ms(milliseconds) == words


@pytest.mark.parametrize(
    ("at", "words"),
    [
        (NOW, "now"),
        (NOW + 90 * SECOND, "in 1 min 30 s"),
        (NOW - timedelta(seconds=3.7), "3 s ago"),
        (PAUSED_UNTIL, "when resumed"),
        (NOW.replace(year=3000), "never"),
        (NOW.replace(year=1800), "long ago"),
    ],
)
def test_a_distance_says_on_which_side_of_now_it_lies(at: datetime, words: str) -> None:
    assert format_distance(at, NOW) == words


def test_an_instant_is_formatted_in_utc_and_in_a_zone() -> None:
    assert format_instant(NOW.astimezone(BERLIN)) == "2026-10-23 09:41:20 UTC"
    assert format_local(NOW, BERLIN) == "Fri 2026-10-23 11:41:20 CEST"
    assert format_local(NOW.replace(second=0), BERLIN) == "Fri 2026-10-23 11:41 CEST"


@pytest.mark.parametrize("text", ["x", "0001-01-01T00:00", "0001-01-01T00:00+05:00"])
def test_a_text_that_is_not_a_time_in_the_calendar_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="since must be a date and a time"):
        read_wall(text, "since", BERLIN)


def test_an_occurrence_names_the_day_in_utc_only_where_it_is_another() -> None:
    at = datetime(2026, 10, 23, 23, 30, tzinfo=UTC)
    assert show_occurrence(at, BERLIN, None).utc == "2026-10-23 23:30 UTC"
    assert show_occurrence(NOW.replace(second=0), BERLIN, None).utc == "09:41 UTC"


@pytest.mark.parametrize("zone", [UTC, ZoneInfo("Etc/GMT"), ZoneInfo("Atlantic/Reykjavik")])
def test_an_occurrence_in_utc_is_shown_once(zone: tzinfo) -> None:
    assert show_occurrence(NOW, zone, None).utc == ""


def test_a_task_is_foreseen_with_what_the_clocks_do() -> None:
    outlook = preview_task("30 2 * * *", BERLIN, NOW)
    assert outlook.description == "At 02:30 every day"
    assert [each.note for each in outlook.occurrences] == [
        "",
        "clocks go back: first 02:30",
        "clocks go back: second 02:30",
    ]
    assert "Invalid cron" in preview_task("no cron", BERLIN, NOW).problem


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"created_at": NOW}, "due"),
        ({"created_at": NOW, "due_at": NOW + HOUR}, "scheduled"),
        ({"created_at": NOW, "due_at": NOW + HOUR, "attempt_count": 1}, "retrying"),
        (
            {"due_at": NOW + HOUR, "deferral": Deferral(until=NOW + HOUR, reason="quiet hours")},
            "held",
        ),
        ({"due_at": PAUSED_UNTIL, "is_paused": True}, "paused"),
        ({"status": JobStatus.RUNNING, "created_at": NOW}, "running"),
        ({"status": JobStatus.RUNNING, "created_at": NOW - HOUR}, "stalled"),
        ({"status": JobStatus.COMPLETED}, "completed"),
        ({"status": JobStatus.FAILED, "ending": Ending.LOST}, "dead"),
        ({"status": JobStatus.FAILED, "ending": Ending.CANCELLED}, "cancelled"),
        ({"status": JobStatus.FAILED, "ending": Ending.DISCARDED}, "discarded"),
        ({"status": JobStatus.BLOCKED}, "blocked"),
        ({"status": JobStatus.PENDING}, "pending"),
    ],
)
def test_a_job_is_called_what_a_person_would_call_it(fields: dict[str, object], word: str) -> None:
    assert sign_of(a_job(**fields), NOW).word == word


def test_states_differ_without_colour() -> None:
    assert [sign.word for sign in SIGNS.values()] == list(JobState)
    assert len({sign.shape for sign in SIGNS.values()}) == len(JobState)


async def test_a_timeline_has_every_attempt_and_each_error_once(story: Story) -> None:
    retries = {"max_attempts": 3, "backoff_strategy": "FIXED", "base_delay_seconds": 60}
    job = await story.ask("Charge", ago=HOUR, retry_policy=retries)
    job = await story.die(job, MINUTE)
    attempts = await story.store.attempts("default", job.id)
    steps = make_timeline(job, attempts, NOW)
    assert [step.headline for step in steps] == [
        "Created",
        "Attempt 1 failed",
        "Attempt 2 failed",
        "Attempt 3 failed",
        "Dead",
    ]
    assert [step.error is not None for step in steps] == [False, True, False, False, False]
    assert steps[2].note == (
        "1 min 30 s after attempt 1, ran 30 s, on mail-7f2c, same error as before"
    )


async def test_a_timeline_shows_what_is_ahead(story: Story) -> None:
    job = await story.ask("Remind", ago=HOUR)
    job = await story.defer(job, NOW + HOUR, "quiet hours")
    steps = make_timeline(job, [], NOW)
    assert [(step.headline, step.is_ahead) for step in steps] == [
        ("Created", False),
        ("Held back until", True),
        ("Will be due", True),
    ]


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (RetryPolicy(max_attempts=1), "one attempt, no retry"),
        (RetryPolicy(), "10 s apart, doubling up to 5 min"),
        (RetryPolicy(backoff_strategy=BackoffStrategy.FIXED), "10 s apart"),
        (RetryPolicy(backoff_strategy=BackoffStrategy.LADDER), "after 1 min, 5 min, 15 min, 1 h"),
    ],
)
def test_a_retry_policy_is_described_in_words(policy: RetryPolicy, words: str) -> None:
    assert describe_policy(policy) == words


async def test_facts_of_a_series_name_its_rule_and_its_occurrence(story: Story) -> None:
    job = await story.ask("Digest", ago=HOUR, recurrence={"cron": "0 8 * * *", "zone": "UTC"})
    facts = {fact.name: fact.value for fact in list_facts(job, lambda *_, **__: "/")}
    assert facts["Recurs"] == "0 8 * * *"
    assert facts["Occurrence"] == "Sat 2026-10-24 08:00 UTC"


def test_texts_show_all_that_is_in_them() -> None:
    assert show_text("a\u202eb\n\tc\x1b[0m") == "a\\u202eb\n    c\\x1b[0m"
    assert show_json({"a": "\u202e"}) == '{\n  "a": "\\u202e"\n}'


def test_long_texts_are_cut_and_say_so() -> None:
    assert show_text("x" * 25_000).endswith("[… 5000 characters more]")


def test_a_payload_without_secrets_is_edited_as_it_is() -> None:
    assert show_payload_text({"a": [1]}, ["secret"]) == '{\n  "a": [\n    1\n  ]\n}'
    assert show_payload_text({"my_secret": 1}, ["secret"]) == ""


def test_a_long_payload_is_edited_whole_or_not_at_all() -> None:
    long = {"text": "x" * 30_000}
    assert msgspec.json.decode(show_payload_text(long, [])) == long
    assert show_payload_text({"text": "x" * LONGEST_PAYLOAD}, []) == ""


def test_alarms_name_each_problem_once_and_the_worst_first() -> None:
    alarms = [
        Alarm(concern="late", text="jobs are late", count=5, queue="mail"),
        *(Alarm(concern="dead_letters", text="", count=2, queue=f"q{n}") for n in range(5)),
        Alarm(concern="stalled", text="", count=1, queue="mail"),
        Alarm(concern="no_worker", text="", count=3, queue="a"),
        Alarm(concern="series", text="series x cannot continue: no zone"),
        Alarm(concern="tasks", text="task t has failed 2 times"),
    ]
    answer = [each.headline for each in list_warnings(alarms, lambda *_, **__: "/")]
    assert answer == [
        "1 job is stalled in queue mail.",
        "No worker takes from queue a.",
        "10 jobs have failed for good in 5 queues, among them q0, q1, q2, q3.",
        "A series cannot continue.",
        "5 jobs are late in queue mail.",
        "1 task is failing.",
    ]


def test_an_alarm_leaves_names_as_they_are_written() -> None:
    alarm = Alarm(concern="series", text="series Daily Digest cannot continue: no zone")
    (answer,) = list_warnings([alarm], lambda *_, **__: "/")
    assert answer.text == "Series Daily Digest cannot continue: no zone."


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1, "Its lease has expired, and no worker has rescued it yet."),
        (2, "Their leases have expired, and no worker has rescued them yet."),
    ],
)
def test_one_job_is_not_spoken_of_as_many(count: int, text: str) -> None:
    alarm = Alarm(concern="stalled", text="", count=count, queue="mail")
    (answer,) = list_warnings([alarm], lambda *_, **__: "/")
    assert answer.text == text
