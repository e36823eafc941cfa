"""Handles: results, failures, cancellations and retries."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from rota import JobStatus, Rota, Task
from rota.errors import (
    ConflictError,
    InvalidInputError,
    InvalidResultError,
    JobCancelledError,
    JobEndedError,
    JobFailedError,
    JobNotFoundError,
    ResultTimeoutError,
)
from rota.jobs import JobRequest, RetryPolicy, admit_job
from rota.stores.memory import MemoryStore
from rota.testing import VirtualClock

START = datetime(2026, 3, 1, tzinfo=UTC)
ONCE = RetryPolicy(max_attempts=1)
app = Rota("memory://")


@app.task
async def double(number: int) -> int:
    return number * 2


@app.task
def describe(number: int, unit: str = "m") -> dict[str, str]:
    return {"text": f"{number} {unit}"}


@app.task
async def merge(numbers: list[int]) -> int:
    return sum(numbers)


@app.task
async def lenient_merge(numbers: list[int | None]) -> int:
    return sum(each or 0 for each in numbers)


@app.task(retry=1)
async def fail(word: str) -> int:
    raise ValueError(f"no {word}")


@app.task
async def nothing() -> None: ...


@app.task(keep_result=False)
async def forget() -> int:
    return 3


@app.task
def mistyped() -> int:
    return "three"  # type: ignore[return-value]  # what is refused


@app.task
async def too_much() -> str:
    return "x" * 70_000


@asynccontextmanager
async def working() -> AsyncIterator[None]:
    """A worker runs, in virtual time that passes by itself."""
    async with app.opened(MemoryStore(), VirtualClock(START, auto_jump=True)):
        worker = app.worker()
        running = asyncio.create_task(worker.run())
        try:
            yield
        finally:
            worker.stop()
            await running


@asynccontextmanager
async def idle() -> AsyncIterator[None]:
    """No worker runs."""
    async with app.opened(MemoryStore(), VirtualClock(START, auto_jump=True)):
        yield


async def test_the_result_is_what_the_function_returned() -> None:
    async with working():
        assert await (await double.enqueue(21)).result() == 42
        assert await (await describe.enqueue(3)).result(timeout="10s") == {"text": "3 m"}
        empty: object = nothing
        assert isinstance(empty, Task)
        assert await (await empty.enqueue()).result() is None


async def test_a_result_that_is_not_kept_is_none_and_has_no_output() -> None:
    async with working():
        job = await forget.enqueue()
        assert await job.result() is None
        with pytest.raises(InvalidInputError, match="keeps no result"):
            _ = job.output


async def test_a_failure_has_the_error_and_the_traceback_of_the_last_attempt() -> None:
    async with working():
        job = await fail.enqueue("luck")
        with pytest.raises(JobFailedError, match="ValueError: no luck") as failed:
            await job.result()
        assert failed.value.error == "ValueError: no luck"
        assert failed.value.traceback is not None
        first, *_, last = failed.value.traceback.strip().splitlines()
        assert first == "Traceback (most recent call last):"
        assert "test_handle.py" in failed.value.traceback.splitlines()[1]
        assert last == "ValueError: no luck"


async def test_a_result_of_more_than_64_kib_fails_the_attempt() -> None:
    async with working():
        job = await too_much.using(retry=1).enqueue()
        with pytest.raises(JobFailedError, match="the result has 70002 bytes of JSON"):
            await job.result()


async def test_an_old_payload_fails_the_attempt_before_the_function_runs() -> None:
    async with working():
        session = await app.session()
        now = session.clock.now()
        request = JobRequest(
            name="old", kind=double.name, queue="default", payload={"count": 3}, retry_policy=ONCE
        )
        job_id = session.make_id(now)
        await session.store.insert([admit_job(request, job_id=job_id, now=now)], now)
        with pytest.raises(JobFailedError, match=r"InvalidArgumentsError: .*count: is not a param"):
            await double.handle(job_id).result()


async def test_waiting_for_a_result_ends_in_time() -> None:
    async with idle():
        job = await double.enqueue(1)
        with pytest.raises(ResultTimeoutError, match="has not ended within 90 s"):
            await job.result(timeout="90s")
        assert (await app.session()).clock.now() == START + timedelta(seconds=90)
        with pytest.raises(InvalidInputError, match="timeout: 3 is not a length of time"):
            await job.result(timeout=3)  # type: ignore[arg-type]  # what is refused


async def test_a_cancelled_job_has_no_result() -> None:
    async with idle():
        job = await double.using(delay="1h").enqueue(1)
        waiting = asyncio.create_task(job.result())
        await job.cancel()
        with pytest.raises(JobCancelledError, match="was cancelled"):
            await waiting
        with pytest.raises(JobEndedError):
            await job.cancel()


async def test_a_failed_job_is_retried_as_a_new_one() -> None:
    async with working():
        job = await fail.enqueue("luck")
        with pytest.raises(JobFailedError):
            await job.result()
        again = await job.retry()
        assert again != job
        with pytest.raises(JobFailedError, match=again.id):
            await again.result()


async def test_only_a_failed_job_can_be_retried() -> None:
    async with idle():
        job = await double.enqueue(1)
        with pytest.raises(ConflictError, match=f"Job {job.id} is due; only a failed job can be"):
            await job.retry()
        await job.cancel()
        with pytest.raises(ConflictError, match="is cancelled; only a failed job can be retried"):
            await job.retry()
    async with working():
        job = await double.enqueue(1)
        await job.result()
        with pytest.raises(ConflictError, match="is completed; only a failed job can be retried"):
            await job.retry()


async def test_a_result_of_another_type_than_annotated_says_so() -> None:
    async with working():
        job = await mistyped.enqueue()
        with pytest.raises(InvalidResultError) as refused:
            await job.result()
    assert refused.value.message == (
        f"The result of job {job.id} is not what tests.unit.test_handle.mistyped is annotated to "
        "return: Expected `int`, got `str`"
    )


@pytest.mark.parametrize("job_id", [None, 3, double])
def test_the_id_of_a_handle_is_a_text(job_id: object) -> None:
    with pytest.raises(InvalidInputError, match=r"job_id: .* is not the id of a job; write job.id"):
        double.handle(job_id)  # type: ignore[arg-type]  # what is refused


async def test_why_explains_the_job() -> None:
    async with idle():
        job = await double.using(delay="1h").enqueue(1)
        assert "2026-03-01 01:00" in str(await job.why())


async def test_a_handle_of_an_unknown_job_says_so() -> None:
    async with idle():
        job = double.handle("01890a5d-ac96-774b-bcce-b302099a8057")
        for asking in (job.status(), job.result(), job.why(), job.retry()):
            with pytest.raises(JobNotFoundError):
                await asking


async def test_an_output_is_replaced_by_the_result() -> None:
    async with working():
        parts = [await double.enqueue(each) for each in range(3)]
        total = await merge.enqueue([each.output for each in parts])
        assert await (await describe.enqueue(total.output)).result() == {"text": "6 m"}


async def test_a_flow_runs_from_end_to_end() -> None:
    async with working():
        async with app.flow("sum") as flow:
            parts = [flow.add(double, each) for each in range(200)]
            total = flow.add(merge, [each.output for each in parts])
            text = flow.add(describe, total.output, unit="km")
        assert await text.result() == {"text": f"{2 * sum(range(200))} km"}


async def test_a_failed_part_blocks_what_needs_it() -> None:
    async with working():
        part = await fail.enqueue("luck")
        total = await merge.enqueue([part.output])
        with pytest.raises(JobFailedError):
            await total.result()
        assert await total.status() is JobStatus.BLOCKED


async def test_a_dependent_that_runs_anyway_gets_none() -> None:
    async with working():
        part, other = await fail.enqueue("luck"), await double.enqueue(3)
        options = lenient_merge.using(on_parent_failure="run")
        assert await (await options.enqueue([part.output, other.output])).result() == 6
        strict = merge.using(on_parent_failure="run", retry=1)
        with pytest.raises(JobFailedError, match=r"numbers.*the output of a job without a result"):
            await (await strict.enqueue([part.output, other.output])).result()


async def test_a_skipped_dependent_is_cancelled() -> None:
    async with working():
        part = await fail.enqueue("luck")
        total = await merge.using(on_parent_failure="skip").enqueue([part.output])
        with pytest.raises(JobCancelledError):
            await total.result()


async def test_a_retried_dependent_has_its_outputs_again() -> None:
    async with working():
        part = await double.enqueue(3)
        await part.result()
        text = await broken_once.enqueue(part.output)
        with pytest.raises(JobFailedError):
            await text.result()
        FAULTS.clear()
        assert await (await text.retry()).result() == "6"


FAULTS = ["broken"]


@app.task(retry=1)
async def broken_once(number: int) -> str:
    if FAULTS:
        raise RuntimeError(FAULTS[0])
    return str(number)
