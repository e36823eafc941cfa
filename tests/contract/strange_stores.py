"""Stores with anything in them, for tests that take it elsewhere."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from rota.jobs import Attempt, Deferral, Ending, JobStatus, Lease, Recurrence, make_job_ids
from rota.stores.protocol import KeptDocument, KeptJob, Record, UnreadableJob
from rota.testing import a_job
from rota.testing.job_store_fixture import NOW

_SECONDS = st.integers(-(10**6), 10**6).map(lambda number: timedelta(seconds=number / 8))
_ENDS = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
_MOMENTS = _SECONDS.map(lambda offset: NOW + offset)
_INSTANTS = _MOMENTS | st.sampled_from(_ENDS)
_WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
_NAMES = st.sampled_from(["a", "b", "ä/😀", "with space", "{a}:*?[", "%00'\"\\", "\n\t"])
_PAYLOADS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | _WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=3),
    max_leaves=6,
)
_RECURRENCES = st.none() | st.builds(
    Recurrence, interval=st.sampled_from(["24h", "1h30m"]), start=_INSTANTS, count=st.just(5)
)
_DEFERRALS = st.none() | st.builds(
    Deferral, until=_INSTANTS, reason=_WORDS, count=st.integers(1, 9)
)
_DOCUMENTS = st.builds(KeptDocument, _NAMES, _NAMES, st.integers(1, 2**40), st.binary(max_size=40))


@st.composite
def _jobs(draw: st.DrawFn, job_id: str, earlier: list[str], place: int) -> Record:
    chosen = draw(st.lists(st.sampled_from(earlier), unique=True, max_size=3)) if earlier else []
    if draw(st.integers(0, 9)) == 0:
        content = draw(st.binary(max_size=9)).hex().encode()
        needed = tuple(sorted(chosen))
        return UnreadableJob(job_id, draw(_NAMES), draw(_NAMES), needed, b'"%s"' % content)
    told = draw(_fields())
    key = draw(st.none() | st.just(f"key {place}"))
    job = a_job(**told, id=job_id, dependencies=chosen, idempotency_key=key)
    return KeptJob(job, draw(_attempts(job_id)))


@st.composite
def _fields(draw: st.DrawFn) -> dict[str, Any]:
    status, token = draw(st.sampled_from([*JobStatus])), draw(st.integers(0, 2**31))
    created_at = draw(_MOMENTS)
    lease = Lease(token=token, worker=draw(_NAMES), taken_at=created_at, until=draw(_INSTANTS))
    return {
        "tenant": draw(_NAMES),
        "queue": draw(_NAMES),
        "name": draw(_WORDS),
        "kind": draw(_NAMES),
        "payload": draw(_PAYLOADS),
        "priority": draw(st.integers(1, 10)),
        "status": status,
        "due_at": draw(st.just(created_at) | _INSTANTS),
        "created_at": created_at,
        "updated_at": draw(_INSTANTS),
        "attempt_count": draw(st.integers(0, 5)),
        "loss_count": draw(st.integers(0, 2)),
        "last_error": draw(st.none() | _WORDS),
        "last_token": token,
        "deferral": draw(_DEFERRALS),
        "recurrence": draw(_RECURRENCES),
        "occurrence": draw(st.none() | _NAMES),
        "missed_count": draw(st.integers(0, 3)),
        "is_paused": draw(st.booleans()),
        "auto_remove": draw(st.booleans()),
        "lease": lease if status is JobStatus.RUNNING else None,
        "ending": draw(st.sampled_from([*Ending])) if status is JobStatus.FAILED else None,
    }


@st.composite
def _attempts(draw: st.DrawFn, job_id: str) -> tuple[Attempt, ...]:
    tokens = sorted(draw(st.sets(st.integers(1, 10**6), max_size=3)))
    return tuple(
        Attempt(
            job_id=job_id,
            number=number,
            token=token,
            worker=draw(_NAMES),
            started_at=draw(_INSTANTS),
            ended_at=draw(_INSTANTS),
            outcome=draw(_NAMES),
            error=draw(_WORDS),
        )
        for number, token in enumerate(tokens, 1)
    )


@st.composite
def strange_records(draw: st.DrawFn, most_jobs: int = 12) -> list[Record]:
    """Documents, and jobs at any stage that depend on any others, in any order."""
    count = draw(st.integers(0, most_jobs))
    ids = [*make_job_ids(NOW, random_bits=7, count=count)] if count else []
    jobs = [draw(_jobs(job_id, ids[:place], place)) for place, job_id in enumerate(ids)]
    documents = draw(st.lists(_DOCUMENTS, max_size=6, unique_by=lambda each: each[:2]))
    return draw(st.permutations([*jobs, *documents]))
