"""Jobs, instants and happenings of every kind, for tests that hold for all of them."""

from datetime import UTC, datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st

from rota.jobs import (
    BackoffStrategy,
    Cancelled,
    Deferral,
    Discarded,
    Failed,
    Interrupted,
    Job,
    JobStatus,
    Lease,
    Lost,
    Outcome,
    Recurrence,
    RetryPolicy,
    Snoozed,
    Succeeded,
)
from rota.testing import a_job

START = datetime(2026, 1, 1, tzinfo=UTC)
always = settings(max_examples=50, deadline=None, derandomize=True)
"""The same examples in every run, however busy the machine."""

INSTANTS = st.integers(0, 10**13).map(lambda us: START + timedelta(microseconds=us))
TEXTS = st.text('aZ0 .:"\\é🌍', min_size=1, max_size=6)
IDS = st.uuids().map(str)
PAYLOADS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text('aZ0 \n"\\é🌍', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=4,
)


@st.composite
def policies(draw: st.DrawFn, *strategies: BackoffStrategy) -> RetryPolicy:
    base = draw(st.integers(1, 300))
    return RetryPolicy(
        max_attempts=draw(st.integers(1, 10)),
        backoff_strategy=draw(st.sampled_from(strategies or tuple(BackoffStrategy))),
        base_delay_seconds=base,
        max_delay_seconds=draw(st.integers(base, 3600)),
        ladder_seconds=tuple(draw(st.lists(st.integers(1, 604_800), min_size=1, max_size=10))),
    )


@st.composite
def recurrences(draw: st.DrawFn) -> Recurrence:
    text = draw(
        st.sampled_from(
            [
                {"cron": "*/7 * * * *"},
                {"cron": "30 1 * * *", "gap": "shift", "fold": "first"},
                {"rrule": "FREQ=WEEKLY;BYDAY=MO"},
                {"rrule": "FREQ=DAILY;COUNT=3"},
                {"interval": "1h30m"},
            ]
        )
    )
    return Recurrence(
        **text,  # type: ignore[arg-type] # the literals of gap and fold are texts here
        zone=draw(st.sampled_from(["UTC", "Europe/London"])),
        start=draw(INSTANTS).replace(microsecond=0),
        until=draw(st.none() | INSTANTS),
        count=draw(st.none() | st.integers(1, 50)),
    )


@st.composite
def jobs(draw: st.DrawFn, *statuses: JobStatus) -> Job:
    """Any job in one of these statuses, or in any."""
    status = draw(st.sampled_from(statuses or tuple(JobStatus)))
    token = draw(st.integers(1, 99))
    at = draw(INSTANTS)
    lease = Lease(token=token, worker=draw(TEXTS), taken_at=at, until=at + timedelta(minutes=1))
    recurrence = draw(st.none() | recurrences())
    policy = draw(policies())
    return a_job(
        id=draw(IDS),
        tenant=draw(st.sampled_from(["default", "guild-7"])),
        name=draw(TEXTS),
        payload=draw(PAYLOADS),
        priority=draw(st.integers(1, 10)),
        due_at=at,
        status=status,
        dependencies=draw(st.lists(IDS, max_size=3)),
        retry_policy=policy,
        attempt_count=draw(st.integers(0, policy.max_attempts - 1)),
        loss_count=draw(st.integers(0, 2)),
        last_error=draw(st.none() | TEXTS),
        lease=lease if status is JobStatus.RUNNING else None,
        last_token=token,
        deferral=draw(st.none() | st.builds(Deferral, until=INSTANTS, reason=TEXTS)),
        recurrence=recurrence,
        occurrence_at=None if recurrence is None else draw(INSTANTS),
        auto_remove=draw(st.booleans()),
        created_at=draw(INSTANTS),
        updated_at=draw(INSTANTS),
    )


OUTCOMES: st.SearchStrategy[Outcome] = st.one_of(
    st.just(Succeeded()),
    st.builds(Failed, st.text()),
    st.builds(Snoozed, st.timedeltas(min_value=timedelta(0))),
    st.builds(Discarded, st.text()),
    st.builds(Cancelled, st.text()),
    st.just(Lost()),
    st.just(Interrupted()),
)
CHANCES = st.floats(0, 1, exclude_max=True)
