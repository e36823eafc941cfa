"""What a handler sees of its job, and what it may answer."""

from datetime import timedelta
from typing import Any

import pytest
from tests.unit.worker.workshop import MINUTE, NOW, Workshop

from rota.errors import InvalidInputError
from rota.jobs import JobStatus, RetryPolicy
from rota.policy.audit import read_audit
from rota.testing import a_job
from rota.worker import CancelReason, Context, Discard, Snooze


def make_context(**fields: Any) -> Context:
    job = a_job(created_at=NOW, status=JobStatus.RUNNING, **fields)
    return Context(job, NOW + MINUTE)


def test_a_handler_gets_tenant_payload_and_time() -> None:
    context = make_context(tenant="guild-7", payload={"event": 1})
    assert (context.tenant, context.payload, context.now) == ("guild-7", {"event": 1}, NOW + MINUTE)


def test_attempts_count_from_one_and_the_last_one_knows_it() -> None:
    policy = RetryPolicy(max_attempts=2)
    first = make_context(retry_policy=policy)
    second = make_context(retry_policy=policy, attempt_count=1)
    assert (first.attempt, first.is_last_attempt) == (1, False)
    assert (second.attempt, second.is_last_attempt) == (2, True)


def test_the_token_of_the_lease_is_shown_for_fencing() -> None:
    assert make_context(last_token=9).token == 9


def test_a_deferred_job_keeps_its_occurrence() -> None:
    context = make_context(due_at=NOW + MINUTE, occurrence_at=NOW)
    assert (context.scheduled_for, context.late_for) == (NOW, MINUTE)


def test_a_job_without_an_occurrence_is_for_when_it_is_due() -> None:
    context = make_context(due_at=NOW + 2 * MINUTE)
    assert (context.scheduled_for, context.late_for) == (NOW + 2 * MINUTE, timedelta(0))


def test_only_a_lost_lease_makes_a_job_lost() -> None:
    context = make_context()
    assert not context.is_lost
    context.cancel_reason = CancelReason.STOPPING
    assert not context.is_lost
    context.cancel_reason = CancelReason.LOST
    assert context.is_lost


def test_a_context_says_which_job_it_is_about() -> None:
    context = make_context()
    assert context.job.id in repr(context)


@pytest.mark.parametrize("value", [timedelta(minutes=90), "90m", "1h30m"])
def test_a_snooze_takes_a_length_of_time_or_its_text(value: timedelta | str) -> None:
    assert Snooze(value).delay == timedelta(minutes=90)


@pytest.mark.parametrize("value", [timedelta(seconds=-1), 5, None, "soon", "-5m"])
def test_a_senseless_snooze_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInputError, match="for_"):
        Snooze(value)


def test_a_discard_needs_a_reason_in_words() -> None:
    with pytest.raises(InvalidInputError, match="reason"):
        Discard(None)  # type: ignore[arg-type]  # refused, which is what is tested


async def test_a_handler_writes_to_the_audit_log(shop: Workshop) -> None:
    async def announce(context: Context) -> None:
        await context.audit("broadcast", why="release", details={"people": 3})

    job = await shop.add(tenant="guild-7")
    shop.make_worker({"work": announce})
    await shop.worker.run_once()
    (entry,) = [entry async for entry in read_audit(shop.store, "guild-7")]
    assert (entry.action, entry.who, entry.why) == ("broadcast", "work", "release")
    assert (entry.job_ids, entry.details, entry.at) == ((job.id,), {"people": 3}, NOW)


async def test_an_audit_entry_that_is_not_valid_fails_the_attempt(shop: Workshop) -> None:
    async def announce(context: Context) -> None:
        await context.audit("broadcast", details={"people": object()})

    await shop.add()
    shop.make_worker({"work": announce})
    (settled,) = await shop.worker.run_once()
    assert "details must be JSON" in (settled.job.last_error or "")


async def test_a_context_without_a_worker_has_no_audit_log() -> None:
    with pytest.raises(InvalidInputError, match="without a worker"):
        await make_context().audit("broadcast")
