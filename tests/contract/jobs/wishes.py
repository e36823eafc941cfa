"""What may be wished for of a store of jobs: few choices, so that wishes meet each other often."""

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from hypothesis import strategies as st
from msgspec.structs import replace

from rota.jobs import (
    BackoffStrategy,
    Job,
    JobFilter,
    JobId,
    JobRequest,
    JobStatus,
    OnParentFailure,
    Recurrence,
    RetryPolicy,
    admit_job,
    make_job_id,
)
from rota.stores.protocol import Cap

EPOCH = datetime(2026, 1, 1, 12, tzinfo=UTC)
TENANTS = ("default", "acme", "Zoo")
QUEUES = ("mail", "reports")
KINDS = ("send", "bill")
LABELS = ("v1", "v2")
WORKERS = ("worker-1", "worker-2", "worker-3")

PAYLOADS: tuple[Any, ...] = (
    {},
    {"n": 1, "to": "ä😀"},
    {"to": "ä😀", "n": 1.5},
    [None, "x'\"\\"],
    "",
)
POLICIES = (
    RetryPolicy(),
    RetryPolicy(max_attempts=1),
    RetryPolicy(max_attempts=2, backoff_strategy=BackoffStrategy.LADDER, ladder_seconds=(1, 20)),
)
SERIES = (
    Recurrence(interval="10m", start=EPOCH),
    Recurrence(interval="1h", start=EPOCH, count=2, overlap="queue"),
    Recurrence(cron="*/5 * * * *", zone="Europe/Berlin", start=EPOCH, overlap="allow"),
    Recurrence(rrule="FREQ=DAILY;COUNT=3", start=EPOCH),
)

picks = st.integers(min_value=0, max_value=60)
"""One of what there is at that moment, counted round and round."""
tenants = st.sampled_from(TENANTS)
moments = st.sampled_from(
    [
        timedelta(hours=-1),
        timedelta(0),
        timedelta(microseconds=1),
        timedelta(seconds=31, microseconds=250_001),
        timedelta(minutes=10),
        timedelta(days=400),
    ]
)
"""From now on."""
choices = st.none() | st.lists(st.sampled_from([*QUEUES, "idle"]), max_size=2)
tenant_choices = st.none() | st.lists(st.sampled_from([*TENANTS, "nobody"]), max_size=3)

kind_choices = st.none() | st.lists(st.sampled_from([*KINDS, "other"]), max_size=2)
label_choices = st.none() | st.lists(st.sampled_from([*LABELS, "v3"]), max_size=2)

caps = st.lists(
    st.builds(
        Cap,
        tenant=st.none() | st.sampled_from(TENANTS),
        queue=st.none() | st.sampled_from(QUEUES),
        running=st.none() | st.integers(0, 6),
        count=st.none() | st.integers(0, 4),
    ),
    max_size=3,
).map(tuple)
ageings = st.dictionaries(
    st.sampled_from(QUEUES), st.sampled_from([timedelta(seconds=5), timedelta(minutes=7)])
)


class JobWish(NamedTuple):
    """A job to be handed in; what it refers to is picked when it is."""

    tenant: str
    queue: str
    kind: str
    label: str | None
    payload: Any
    priority: int
    due_in: timedelta | None
    dependencies: tuple[int, ...]
    key: str | None
    occurrence: str | None
    series: Recurrence | None
    policy: RetryPolicy
    on_parent_failure: OnParentFailure
    auto_remove: bool
    under_id: int | None
    """The id of a job that may be there already."""


job_wishes = st.builds(
    JobWish,
    tenant=st.sampled_from([*TENANTS, TENANTS[0], TENANTS[0]]),
    queue=st.sampled_from(QUEUES),
    kind=st.sampled_from(KINDS),
    label=st.none() | st.none() | st.sampled_from(LABELS),
    payload=st.sampled_from(PAYLOADS),
    priority=st.sampled_from([1, 5, 5, 10]),
    due_in=st.none() | moments,
    dependencies=st.lists(picks, max_size=3).map(tuple) | st.just(()),
    key=st.none() | st.none() | st.sampled_from(["key", "schlüssel"]),
    occurrence=st.none() | st.just("monday"),
    series=st.none() | st.none() | st.sampled_from(SERIES),
    policy=st.sampled_from(POLICIES),
    on_parent_failure=st.sampled_from(["block", "block", "run", "skip"]),
    auto_remove=st.booleans(),
    under_id=st.none() | st.none() | st.none() | picks,
)


def number_id(number: int) -> JobId:
    """The id of the job with this number; not all sort by their age."""
    return make_job_id(EPOCH + timedelta(milliseconds=number * 7 % 50), number)


def make_wished(
    wish: JobWish, job_id: JobId, dependencies: tuple[JobId, ...], now: datetime
) -> Job:
    """The job as it is handed in. A series says itself when it is due."""
    request = JobRequest(
        name=f"{wish.kind} it",
        queue=wish.queue,
        kind=wish.kind,
        payload=wish.payload,
        priority=wish.priority,
        due_at=None if wish.series or wish.due_in is None else now + wish.due_in,
        retry_policy=wish.policy,
        idempotency_key=wish.key,
        occurrence=wish.occurrence,
        recurrence=wish.series,
        auto_remove=wish.auto_remove,
        on_parent_failure=wish.on_parent_failure,
        label=wish.label,
    )
    job = admit_job(request, job_id=job_id, now=now, tenant=wish.tenant)
    return replace(job, dependencies=dependencies)  # whatever they are: the store must see to them


filters = st.none() | st.builds(
    JobFilter,
    queue=st.none() | st.sampled_from(QUEUES),
    status=st.none() | st.sampled_from(JobStatus),
    priority_min=st.none() | st.just(5),
    priority_max=st.none() | st.just(5),
    created_after=st.none() | st.just(EPOCH + timedelta(seconds=1)),
    created_before=st.none() | st.just(EPOCH + timedelta(minutes=10)),
    tenant=st.none() | tenants,
)

amendments = st.fixed_dictionaries(
    {},
    optional={
        "priority": st.sampled_from([1, 10, 11]),
        "queue": st.sampled_from(QUEUES),
        "kind": st.sampled_from(KINDS),
        "label": st.none() | st.sampled_from(LABELS),
        "notifies": st.none() | st.booleans(),
        "name": st.sampled_from(["renamed", "ä"]),
        "payload": st.sampled_from(PAYLOADS),
        "retry_policy": st.sampled_from(POLICIES),
        "auto_remove": st.booleans(),
        "is_paused": st.booleans(),
        "tenant": tenants,
    },
)
