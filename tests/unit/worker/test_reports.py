"""Results, tracebacks and logs of attempts."""

import logging
from typing import Any

import msgspec
import pytest
from tests.unit.worker.workshop import MINUTE, SECOND, Workshop

from rota.errors import InvalidInputError
from rota.events import JobFailed, JobSettled
from rota.jobs import Attempt, Job, JobStatus, RetryPolicy
from rota.telemetry.logs import JsonFormatter
from rota.worker import Context, Discard, WorkerSettings
from rota.worker.attempts import LARGEST_RESULT, format_traceback

LAST = RetryPolicy(max_attempts=1)


def keep(returned: Any) -> bytes | None:
    return None if returned is None else msgspec.json.encode(returned)


def fail(error: Exception) -> None:
    raise error


async def run_one(shop: Workshop, work: Any, **options: Any) -> Job:
    worker = shop.make_worker({})
    worker.handler("work", **options)(work)
    job = await shop.add("work", retry_policy=LAST)
    await shop.clock.run(worker.run_once())
    return await shop.look(job)


async def attempt_of(shop: Workshop, job: Job) -> Attempt:
    (attempt,) = await shop.store.attempts(job.tenant, job.id)
    return attempt


async def result_of(shop: Workshop, job: Job) -> bytes | None:
    return (await shop.store.results(job.tenant, [job.id])).get(job.id)


async def test_a_result_is_kept_as_its_encoder_writes_it(shop: Workshop) -> None:
    async def work(_: Context) -> dict[str, int]:
        return {"sent": 7}

    job = await run_one(shop, work, encode=keep)
    assert await result_of(shop, job) == b'{"sent":7}'


async def test_a_function_in_a_thread_has_a_result_too(shop: Workshop) -> None:
    def work(_: Context) -> list[int]:
        return [1, 2]

    job = await run_one(shop, work, encode=keep)
    assert await result_of(shop, job) == b"[1,2]"


async def test_without_an_encoder_nothing_is_kept(shop: Workshop) -> None:
    async def work(_: Context) -> object:
        return object()

    job = await run_one(shop, work)
    assert (job.status, await result_of(shop, job)) == (JobStatus.COMPLETED, None)


async def test_an_encoder_may_keep_nothing(shop: Workshop) -> None:
    async def work(_: Context) -> None:
        """Nothing to return."""

    job = await run_one(shop, work, encode=keep)
    assert (job.status, await result_of(shop, job)) == (JobStatus.COMPLETED, None)


async def test_a_discarded_job_has_no_result(shop: Workshop) -> None:
    async def work(_: Context) -> Discard:
        return Discard("useless")

    job = await run_one(shop, work, encode=keep)
    assert (job.status, await result_of(shop, job)) == (JobStatus.FAILED, None)


@pytest.mark.parametrize(("size", "status"), [(0, JobStatus.COMPLETED), (1, JobStatus.FAILED)])
async def test_a_result_has_at_most_64_kib(shop: Workshop, size: int, status: JobStatus) -> None:
    async def work(_: Context) -> str:
        return "x" * (LARGEST_RESULT - 2 + size)

    job = await run_one(shop, work, encode=keep)
    assert job.status is status
    assert (await result_of(shop, job) is None) is (status is JobStatus.FAILED)
    if status is JobStatus.FAILED:
        assert job.last_error == (
            "ResultTooLargeError: the result has 65537 bytes of JSON, at most 65536 are kept; "
            "store it elsewhere and return where it is"
        )


async def test_a_result_that_cannot_be_encoded_fails_the_attempt(shop: Workshop) -> None:
    async def work(_: Context) -> object:
        return object()

    job = await run_one(shop, work, encode=keep)
    assert job.status is JobStatus.FAILED
    assert "TypeError: Encoding objects of type object is unsupported" in (job.last_error or "")


def test_an_encoder_must_be_callable(shop: Workshop) -> None:
    with pytest.raises(InvalidInputError, match="encode of 'work' must be callable"):
        shop.worker.handler("work", encode=7)(lambda _: None)  # type: ignore[arg-type]


async def test_a_failed_attempt_keeps_its_traceback(shop: Workshop) -> None:
    async def work(_: Context) -> None:
        raise ValueError("boom")

    job = await run_one(shop, work)
    traceback = (await attempt_of(shop, job)).traceback or ""
    assert traceback.startswith("Traceback (most recent call last):\n")
    assert traceback.endswith("ValueError: boom\n")
    assert 'raise ValueError("boom")' in traceback
    assert "executor.py" not in traceback, "the frames of the worker only distract"


async def test_a_traceback_from_a_thread_shows_the_handler(shop: Workshop) -> None:
    def work(_: Context) -> None:
        raise ValueError("boom")

    job = await run_one(shop, work)
    traceback = (await attempt_of(shop, job)).traceback or ""
    assert "in work" in traceback
    assert traceback.endswith("ValueError: boom\n")


async def test_a_cause_is_part_of_the_traceback(shop: Workshop) -> None:
    async def work(_: Context) -> None:
        try:
            fail(KeyError("cause"))
        except KeyError as error:
            raise ValueError("boom") from error

    job = await run_one(shop, work)
    traceback = (await attempt_of(shop, job)).traceback or ""
    assert "KeyError: 'cause'" in traceback
    assert "direct cause of the following exception" in traceback


async def test_a_timeout_shows_where_the_handler_was(shop: Workshop) -> None:
    async def work(_: Context) -> None:
        await shop.clock.sleep(MINUTE)

    job = await run_one(shop, work, timeout=SECOND)
    attempt = await attempt_of(shop, job)
    assert attempt.error == "Timed out after 1 s"
    assert "await shop.clock.sleep(MINUTE)" in (attempt.traceback or "")


def test_a_long_traceback_is_cut_in_the_middle() -> None:
    with pytest.raises(ValueError, match="é") as caught:
        fail(ValueError("é" * 40_000))
    traceback = format_traceback(caught.value) or ""
    assert len(traceback.encode()) <= 16 * 1024
    assert traceback.startswith("Traceback (most recent call last):\n")
    assert "\n... cut ...\n" in traceback
    assert traceback.endswith("ééé\n")


def test_an_error_whose_code_fails_still_has_a_traceback() -> None:
    class OddError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    with pytest.raises(OddError) as caught:
        fail(OddError())
    traceback = format_traceback(caught.value) or ""
    assert "OddError: <exception str() failed>" in traceback


async def test_the_event_and_the_json_log_have_the_traceback(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(_: Context) -> None:
        raise ValueError("boom")

    await run_one(shop, work)
    (failed,) = shop.told(JobFailed)
    assert (failed.traceback or "").endswith("ValueError: boom\n")
    (record,) = [each for each in caplog.records if getattr(each, "event", "") == "JobFailed"]
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert msgspec.json.decode(line)["traceback"] == failed.traceback
    assert "Traceback" not in record.getMessage(), "a line of text stays one line"


async def test_a_success_keeps_when_the_handler_began_and_ended(shop: Workshop) -> None:
    async def work(_: Context) -> None:
        await shop.clock.sleep(SECOND)

    worker = shop.make_worker({"work": work}, WorkerSettings(concurrency=1))
    first, second = await shop.add_many(2)
    await shop.clock.run(worker.run_once())
    completions = [(await shop.look(job)).completion for job in (first, second)]
    begun = [each.started_at for each in completions if each is not None]
    assert begun[1] - begun[0] == SECOND, "leased together, they ran one after the other"
    assert [each.lasted_for for each in completions if each is not None] == [SECOND, SECOND]


async def test_the_log_of_an_attempt_is_kept_with_it(shop: Workshop) -> None:
    async def work(context: Context) -> None:
        context.log.info("sent %s", 7)

    job = await run_one(shop, work)
    attempt = await attempt_of(shop, job)
    assert attempt.outcome == "succeeded"
    assert "INFO rota.job: sent 7" in (attempt.log or "")
    (settled,) = shop.told(JobSettled)
    assert type(settled) is JobSettled, "a success with a log is not a failure"


async def test_the_log_of_a_failed_attempt_is_kept_too(shop: Workshop) -> None:
    async def work(_: Context) -> None:
        logging.getLogger("mine").warning("so far")
        raise ValueError("boom")

    job = await run_one(shop, work)
    assert "WARNING mine: so far" in ((await attempt_of(shop, job)).log or "")
