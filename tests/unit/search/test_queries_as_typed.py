"""``parse_query``: what people type into the search field."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from rota.errors import InvalidInputError
from rota.jobs import PAUSED_UNTIL, Job, JobFilter, JobState, JobStatus
from rota.search.query import JobQuery, drop_tenant, parse_query
from rota.testing import a_job

JOB = a_job(
    name="Send welcome mail",
    kind="email.send",
    queue="mail",
    payload={"order": 7, "customer": {"name": "Ada Lovelace"}},
    idempotency_key="order-7",
    status=JobStatus.FAILED,
    last_error="ConnectTimeout: the host is away",
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "welcome",
        "WELC send",
        "email.send",
        "kind:email.send",
        "kind:email*",
        "queue:mail state:failed",
        "payload.order=7",
        'payload.customer.name="ada lovelace"',
        "payload.customer.name=ada*",
        "error:ConnectTimeout",
        'error:"timeout away"',
        "error:conn",
        "key:order-7",
        "key:order* welcome",
        "order-7",
        'name:"welcome mail"',
        f"id:{JOB.id[:10]}",
        JOB.id[:10],
        JOB.id.upper(),
    ],
)
def test_a_job_is_found_by(text: str) -> None:
    assert accepts(parse_query(text), JOB)


@pytest.mark.parametrize(
    "text",
    [
        "elcome",
        "welcome other",
        "kind:email",
        "kind:EMAIL.send",
        "queue:other",
        "state:completed",
        "payload.order=70",
        "payload.order=8 welcome",
        "payload.customer=ada",
        "error:KeyError",
        "key:order",
        "id:ffff",
    ],
)
def test_a_job_is_not_found_by(text: str) -> None:
    assert not accepts(parse_query(text), JOB)


def accepts(query: JobQuery, job: Job) -> bool:
    return query.wanted.accepts(job) and query.accepts(job)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("colour:red", 'the field "colour"'),
        ("state:lost", "pending, scheduled, held, retrying"),
        ("payload.order", "payload.order=7"),
        ("kind:", "nothing after kind:"),
        ("id:xyz", 'the id "xyz"'),
        ("sort:random", "newest, oldest, due, duration"),
        ("x" * 256, "at most 255"),
        ("a b c d e f g h i j k l m n o p q", "at most 16"),
    ],
)
def test_a_mistake_is_named(text: str, part: str) -> None:
    with pytest.raises(InvalidInputError, match=r"^(q|state) ") as caught:
        parse_query(text)
    assert part in caught.value.message


def test_several_states_of_one_status_or_of_many() -> None:
    query = parse_query("state:dead,cancelled")
    assert query.wanted.status is JobStatus.FAILED
    assert query.states == {JobState.DEAD, JobState.CANCELLED}
    mixed = parse_query("state:due,running")
    assert mixed.wanted.status is None
    assert mixed.states == {JobState.DUE, JobState.RUNNING}
    assert parse_query("state:failed").states == frozenset()


def test_a_tenant_can_be_named_and_dropped() -> None:
    assert parse_query("tenant:acme welcome").wanted.tenant == "acme"
    assert drop_tenant('tenant:acme welcome "two words"') == 'welcome "two words"'


def test_a_filter_on_top_leaves_what_was_typed() -> None:
    query = parse_query("state:failed sort:oldest")
    narrowed = query.within(JobFilter(status=JobStatus.READY, queue="mail"))
    assert narrowed.wanted == JobFilter(status=JobStatus.FAILED, queue="mail")
    assert narrowed.sort == "oldest"
    assert parse_query("").is_plain
    assert not parse_query("x").is_plain


NOW = datetime(2026, 5, 10, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
TIMED = a_job(priority=7, created_at=NOW - 2 * HOUR, due_at=NOW + HOUR)


@pytest.mark.parametrize(
    "text",
    [
        "priority:7",
        "priority:7..",
        "priority:..7",
        "priority:2..10",
        "priority:2.. priority:..8",
        "created:2h..",
        "created:1d..90m",
        "created:..now",
        "created:2026-05-10",
        "created:2026-05-10..",
        "created:..2026-05-10",
        "created:2026-05-10T10:00Z..2026-05-10T10:01Z",
        "created:2026-05-10T12:00+02:00..",
        "created:3h.. created:..1h",
        "due:now..+2h",
        "due:+1h..",
        "due:2026-05-10",
        "due:now.. due:..+2h created:1d.. priority:7",
    ],
)
def test_a_job_is_in_the_range(text: str) -> None:
    assert accepts(parse_query(text, NOW), TIMED)


@pytest.mark.parametrize(
    "text",
    [
        "priority:6",
        "priority:8..",
        "priority:..6",
        "priority:7.. priority:..6",
        "created:119m..",
        "created:..2h",
        "created:..2026-05-09",
        "created:2026-05-11..",
        "created:3h.. created:..150m",
        "due:..now",
        "due:now..+1h",
        "due:+2h..",
        "due:now.. due:..+30m",
    ],
)
def test_a_job_is_not_in_the_range(text: str) -> None:
    assert not accepts(parse_query(text, NOW), TIMED)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("priority:high", ("priority:high", "a number from 1 to 10", "priority:7..")),
        ("priority:11", ("priority:11", "a number from 1 to 10")),
        ("priority:0..5", ("priority:0..5", "a number from 1 to 10")),
        ("priority:..", ("priority:..", "priority:2..5")),
        ("priority:1..2..3", ("priority:1..2..3", "priority:2..5")),
        ("priority:5..2", ("priority:5..2", "ends before it begins", "write priority:2..5")),
        ("created:<2h", ("created:<2h", "write from..to", "created:2h..")),
        ("created:2h", ("created:2h", "write from..to", "created:..7d")),
        ("created:..", ("created:..", "write from..to")),
        ("created:1d..2d..3d", ("created:1d..2d..3d", "write from..to")),
        ("created:1h..1d", ("ends before it begins", "write created:1d..1h")),
        ("created:2026-02-30", ("created:2026-02-30", "a date")),
        ("created:2026-02..", ("created:2026-02..", "a date")),
        ("created:..9999-12-31", ("created:..9999-12-31",)),
        ("created:999999999d..", ("created:999999999d..",)),
        ("due:soon..", ("due:soon..", "+1d", "now")),
        ("due:..+", ("due:..+", "+1d")),
        ("due:", ("nothing after due:",)),
    ],
)
def test_a_bad_range_is_named_with_the_fix(text: str, parts: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_query(text, NOW)
    assert caught.value.details["field"] == "q"
    for part in parts:
        assert part in caught.value.message


def test_a_range_of_times_needs_an_instant_to_be_relative_to() -> None:
    with pytest.raises(InvalidInputError, match=r"^as_of is missing: created:2h\.\. is"):
        parse_query("created:2h..")


def test_dates_are_in_the_zone_of_the_instant_and_lengths_are_real_time() -> None:
    after_spring = datetime(2026, 3, 29, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    day = parse_query("created:2026-03-29", after_spring).wanted
    assert day.created_after == datetime(2026, 3, 28, 23, tzinfo=UTC)
    assert day.created_before == datetime(2026, 3, 29, 22, tzinfo=UTC)
    length = parse_query("created:1d..", after_spring).wanted
    assert length.created_after == datetime(2026, 3, 28, 10, tzinfo=UTC)
    wall = parse_query("created:2026-03-29T09:00..", after_spring).wanted
    assert wall.created_after == datetime(2026, 3, 29, 7, tzinfo=UTC)


def test_a_filter_on_top_narrows_a_range() -> None:
    query = parse_query("created:7d.. priority:3..8", NOW)
    above = JobFilter(created_after=NOW - HOUR, priority_min=1, priority_max=5)
    narrowed = query.within(above).wanted
    assert narrowed == JobFilter(created_after=NOW - HOUR, priority_min=3, priority_max=5)


def test_a_paused_job_is_not_due_at_any_time() -> None:
    paused = a_job(due_at=PAUSED_UNTIL, created_at=NOW)
    assert not accepts(parse_query("due:+1d..", NOW), paused)


def test_the_store_answers_ranges_of_its_own_and_jobs_are_read_for_the_others() -> None:
    assert parse_query("priority:7.. created:1d..", NOW).is_plain
    assert not parse_query("due:..now", NOW).is_plain
    assert not parse_query("kind:mail due:..now", NOW).is_of_terms
