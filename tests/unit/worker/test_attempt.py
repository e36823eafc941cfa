"""What handlers return and raise, and how their jobs end."""

import asyncio
import contextvars
from collections.abc import Awaitable
from datetime import datetime
from typing import Any

import pytest
from tests.unit.worker.workshop import MINUTE, NOW, SECOND, Workshop, succeed

from rota.events import HandlerLeaked, JobDeferred, JobFailed, JobSettled, JobStarted
from rota.jobs import Ending, Job, JobStatus, RetryPolicy
from rota.policy.gate_settings import EVERYTHING
from rota.policy.gates import Closed, Maintenance, Open, Verdict
from rota.rail.settings import set_maintenance
from rota.worker import CancelReason, Context, Discard, Snooze, WorkerSettings
from rota.worker.registry import Work

LAST = RetryPolicy(max_attempts=1)


async def run_one(shop: Workshop, work: Work, **fields: Any) -> Job:
    """The job as one attempt by this handler leaves it."""
    shop.make_worker({"work": work})
    job = await shop.add(**fields)
    await shop.clock.run(shop.worker.run_once())
    return await shop.look(job)


@pytest.mark.parametrize("value", [None, 0, False, "done", {"a": 1}, Snooze, ValueError("no")])
async def test_any_return_value_of_a_handler_completes_its_job(
    shop: Workshop, value: object
) -> None:
    async def answer(_: Context) -> object:
        return value

    assert (await run_one(shop, answer)).status is JobStatus.COMPLETED


async def test_a_snooze_puts_the_job_off_and_spends_nothing(shop: Workshop) -> None:
    async def snooze(_: Context) -> Snooze:
        return Snooze(MINUTE)

    job = await run_one(shop, snooze)
    assert (job.status, job.due_at, job.attempt_count) == (JobStatus.READY, NOW + MINUTE, 0)
    assert [event.outcome for event in shop.told(JobSettled)] == ["snoozed"]


async def test_a_discard_ends_the_job_with_attempts_left(shop: Workshop) -> None:
    async def discard(_: Context) -> Discard:
        return Discard("the account is closed")

    job = await run_one(shop, discard)
    assert (job.status, job.ending) == (JobStatus.FAILED, Ending.DISCARDED)
    assert job.last_error == "the account is closed"
    (event,) = shop.told(JobFailed)
    assert (event.err_code, event.outcome, event.state) == ("Discarded", "discarded", "failed")


class OddError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("boom"), "ValueError: boom"),
        (KeyError(), "KeyError"),
        (OddError(), "OddError: (no text: RuntimeError)"),
        (SystemExit(3), "SystemExit: 3"),
        (GeneratorExit("closed"), "GeneratorExit: closed"),
        (asyncio.CancelledError("mine"), "CancelledError: mine"),
        (TimeoutError("theirs"), "TimeoutError: theirs"),
        (BaseException("base"), "BaseException: base"),
    ],
)
@pytest.mark.parametrize("is_async", [True, False])
async def test_any_exception_of_a_handler_fails_the_attempt(
    shop: Workshop, error: BaseException, text: str, is_async: bool
) -> None:
    def fail(_: Context) -> None:
        raise error

    async def fail_later(_: Context) -> None:
        raise error

    job = await run_one(shop, fail_later if is_async else fail)
    assert (job.status, job.attempt_count) == (JobStatus.READY, 1)
    assert job.last_error == text
    assert [event.err_code for event in shop.told(JobFailed)] == [type(error).__name__]


def test_an_interrupt_of_the_program_is_not_a_failure_of_the_job() -> None:
    async def interrupt(_: Context) -> None:
        raise KeyboardInterrupt

    async def run() -> None:
        shop = Workshop()
        shops.append(shop)
        shop.make_worker({"work": interrupt})
        jobs.append(await shop.add())
        await shop.worker.run_once()

    shops: list[Workshop] = []
    jobs: list[Job] = []
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(run())
    kept = shops[0].hooked._tables.jobs[jobs[0].id]
    assert (kept.attempt_count, kept.last_error) == (0, None)


async def test_an_interrupt_that_a_thread_raises_itself_fails_the_attempt(shop: Workshop) -> None:
    """Signals reach the main thread only: a job like this would end every worker that runs it."""

    def interrupt(_: Context) -> None:
        raise KeyboardInterrupt

    job = await run_one(shop, interrupt)
    assert (job.status, job.attempt_count) == (JobStatus.READY, 1)
    assert job.last_error == "RuntimeError: The task raised KeyboardInterrupt"


async def test_a_runner_goes_on_after_a_handler_that_called_itself_cancelled(
    shop: Workshop,
) -> None:
    async def wait_for_the_cancelled(_: Context) -> None:
        task = asyncio.create_task(asyncio.Event().wait())
        task.cancel()
        await task

    shop.make_worker(
        {"odd": wait_for_the_cancelled, "work": succeed}, WorkerSettings(concurrency=1)
    )
    odd, work = await shop.add("odd"), await shop.add()
    await shop.worker.run_once()
    assert (await shop.look(odd)).attempt_count == 1
    assert (await shop.look(work)).status is JobStatus.COMPLETED


async def test_an_unknown_kind_is_an_error_that_is_retried(shop: Workshop) -> None:
    shop.make_worker({}, WorkerSettings(takes_any_kind=True))
    job = await shop.add("mystery")
    await shop.worker.run_once()
    kept = await shop.look(job)
    assert (kept.status, kept.last_error) == (JobStatus.READY, "No handler for type=mystery")
    assert [event.err_code for event in shop.told(JobFailed)] == ["NoHandler"]


async def test_plain_functions_run_in_threads_and_are_as_good(shop: Workshop) -> None:
    seen: list[object] = []

    def work(context: Context) -> Snooze:
        seen.append(context.payload)
        return Snooze(SECOND)

    job = await run_one(shop, work, payload={"a": 1})
    assert (job.due_at, seen) == (NOW + SECOND, [{"a": 1}])


async def test_a_plain_function_that_returns_a_coroutine_has_it_awaited(shop: Workshop) -> None:
    async def snooze(_: Context) -> Snooze:
        return Snooze(SECOND)

    def wrap(context: Context) -> Awaitable[Snooze]:
        return snooze(context)

    assert (await run_one(shop, wrap)).due_at == NOW + SECOND


async def test_context_variables_do_not_leak_from_job_to_job(shop: Workshop) -> None:
    variable = contextvars.ContextVar("variable", default="clean")
    seen: list[str] = []

    async def mark(_: Context) -> None:
        seen.append(variable.get())
        variable.set("used")
        await shop.clock.sleep(SECOND)
        seen.append(variable.get())

    shop.make_worker({"work": mark}, WorkerSettings(concurrency=1))
    await shop.add_many(2)
    await shop.clock.run(shop.worker.run_once())
    assert seen == ["clean", "used"] * 2


class Shutter:
    """A gate that is closed until an instant to those who notify."""

    def __init__(self, until: datetime) -> None:
        self.until = until
        self.asked: list[tuple[str, bool]] = []

    def judge(self, job: Job, now: datetime, *, notifies: bool) -> Verdict:
        self.asked.append((job.kind, notifies))
        return Closed(self.until, "quiet") if notifies and now < self.until else Open()


async def test_a_closed_gate_defers_and_spends_nothing(shop: Workshop) -> None:
    calls: list[str] = []

    async def note(context: Context) -> None:
        calls.append(context.job.kind)

    gate = Shutter(NOW + MINUTE)
    settings = WorkerSettings(gate=gate)
    shop.make_worker({"loud": note, "still": note}, settings, notifies={"loud"})
    loud, still = await shop.add("loud"), await shop.add("still")
    shop.start()
    await shop.pass_time(SECOND)
    kept = await shop.look(loud)
    assert (kept.status, kept.due_at, kept.attempt_count) == (JobStatus.READY, NOW + MINUTE, 0)
    assert calls == ["still"]
    (event,) = shop.told(JobDeferred)
    assert (event.job_id, event.until, event.reason) == (loud.id, NOW + MINUTE, "quiet")
    await shop.pass_time(MINUTE)
    assert (await shop.look(loud)).status is JobStatus.COMPLETED
    assert (await shop.look(still)).status is JobStatus.COMPLETED


async def test_a_gate_is_asked_before_a_handler_is_looked_for(shop: Workshop) -> None:
    shop.make_worker({}, WorkerSettings(gate=Shutter(NOW + MINUTE)), notifies={"work"})
    job = await shop.add()
    await shop.worker.run_once()
    assert (await shop.look(job)).last_error is None


async def test_a_gate_that_fails_lets_nothing_pass(shop: Workshop) -> None:
    class Broken:
        def judge(self, job: Job, now: datetime, *, notifies: bool) -> Verdict:
            raise RuntimeError(f"no verdict on {job.kind}, {notifies}, {now:%H:%M}")

    shop.make_worker({"work": succeed}, WorkerSettings(gate=Broken()))
    job = await shop.add()
    await shop.worker.run_once()
    assert (await shop.look(job)).last_error == "RuntimeError: no verdict on work, False, 12:00"


async def test_gates_in_the_store_are_minded_besides_ones_own(shop: Workshop) -> None:
    await set_maintenance(
        shop.store, EVERYTHING, Maintenance(until=NOW + 2 * MINUTE, reason="upgrade", who="ops")
    )
    shop.make_worker(
        {"work": succeed}, WorkerSettings(gate=Shutter(NOW + MINUTE)), notifies={"work"}
    )
    job = await shop.add()
    await shop.worker.run_once()
    assert (await shop.look(job)).due_at == NOW + 2 * MINUTE


async def test_a_gate_that_reads_the_store_is_refreshed_before_jobs_pass(shop: Workshop) -> None:
    class Reading(Shutter):
        async def refresh(self, now: datetime) -> None:
            self.until = now + MINUTE

    gate = Reading(NOW)
    shop.make_worker({"work": succeed}, WorkerSettings(gate=gate), notifies={"work"})
    job = await shop.add()
    await shop.worker.run_once()
    assert (await shop.look(job)).due_at == NOW + MINUTE


async def overrun(shop: Workshop, work: Work, **fields: Any) -> Job:
    shop.make_worker({})
    shop.worker.handler("work", timeout=5 * SECOND)(work)
    job = await shop.add(**fields)
    await shop.clock.run(shop.worker.run_once())
    return await shop.look(job)


async def test_an_attempt_that_takes_too_long_is_cut_short_and_has_failed(shop: Workshop) -> None:
    reasons: list[CancelReason | None] = []

    async def linger(context: Context) -> None:
        try:
            await shop.clock.sleep(MINUTE)
        finally:
            reasons.append(context.cancel_reason)

    job = await overrun(shop, linger)
    assert (job.attempt_count, job.last_error) == (1, "Timed out after 5 s")
    assert (shop.clock.now(), reasons) == (NOW + 5 * SECOND, [CancelReason.TIMED_OUT])
    (event,) = shop.told(JobFailed)
    assert (event.err_code, event.duration_ms) == ("TimedOut", 5_000.0)


@pytest.mark.parametrize("end", ["return", "raise"])
async def test_a_handler_cannot_turn_its_timeout_into_a_success(shop: Workshop, end: str) -> None:
    async def excuse(_: Context) -> None:
        try:
            await shop.clock.sleep(MINUTE)
        except asyncio.CancelledError:
            if end == "raise":
                raise ValueError("not my fault") from None

    assert (await overrun(shop, excuse)).last_error == "Timed out after 5 s"


async def test_a_run_within_its_time_is_not_cut_short(shop: Workshop) -> None:
    async def hurry(_: Context) -> None:
        await shop.clock.sleep(4 * SECOND)

    assert (await overrun(shop, hurry)).status is JobStatus.COMPLETED
    assert shop.clock.sleeper_count == 0


async def test_a_handler_that_will_not_end_is_given_up_and_has_timed_out(shop: Workshop) -> None:
    released = asyncio.Event()

    async def defy(_: Context) -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    job = await overrun(shop, defy, retry_policy=LAST)
    assert (job.status, job.last_error) == (JobStatus.FAILED, "Timed out after 5 s")
    assert [event.reason for event in shop.told(HandlerLeaked)] == ["timed out"]
    released.set()


async def test_every_attempt_is_reported_with_names_numbers_and_times(shop: Workshop) -> None:
    async def fail(_: Context) -> None:
        await shop.clock.sleep(SECOND)
        raise ValueError("boom")

    shop.make_worker({"mail.send": fail})
    job = await shop.add("mail.send", tenant="guild-7", queue="mail", retry_policy=LAST)
    await shop.pass_time(2 * SECOND)
    await shop.clock.run(shop.worker.run_once())
    named = {
        "tenant": "guild-7",
        "jobId": job.id,
        "kind": "mail.send",
        "queue": "mail",
        "attempt": 1,
        "waitMs": 2_000.0,
    }
    (started,), (failed,) = shop.told(JobStarted), shop.told(JobFailed)
    assert started.fields() == named
    assert failed.traceback is not None
    assert failed.fields() == named | {
        "traceback": failed.traceback,
        "outcome": "failed",
        "state": "dlq",
        "durationMs": 1_000.0,
        "errCode": "ValueError",
        "error": "ValueError: boom",
        "dueAt": "2026-05-01T12:00:00Z",
    }


async def test_nothing_is_waited_for_that_a_kind_without_timeout_did_not_ask_for(
    shop: Workshop,
) -> None:
    async def look(_: Context) -> None:
        names = {task.get_name().rstrip(" 0123456789") for task in asyncio.all_tasks()}
        assert {name for name in names if name.startswith("rota")} == {
            "rota completer",
            "rota heartbeat",
            "rota lease watch",
            "rota slot",
        }

    assert (await run_one(shop, look)).status is JobStatus.COMPLETED
