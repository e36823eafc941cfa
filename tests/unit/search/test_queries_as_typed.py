"""``parse_query``: what people type into the search field."""

import pytest

from rota.errors import InvalidInputError
from rota.jobs import Job, JobFilter, JobState, JobStatus
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
