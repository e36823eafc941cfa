"""Middleware and the lifespan around the runs of a worker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import pytest
from tests.unit.worker.workshop import MINUTE, SECOND, Workshop, succeed

from rota.errors import InvalidInputError
from rota.jobs import JobStatus, RetryPolicy
from rota.worker import CallNext, CancelReason, Context, Snooze, WorkerSettings


async def test_the_first_middleware_is_outermost_and_sees_the_result(shop: Workshop) -> None:
    seen: list[object] = []

    def make(name: str) -> Any:
        async def around(context: Context, call_next: CallNext) -> Any:
            seen.append((name, context.job.kind))
            result = await call_next()
            seen.append((name, result))
            return result

        return around

    async def work(_: Context) -> str:
        seen.append("work")
        return "done"

    settings = WorkerSettings(middleware=[make("outer"), make("inner")])
    shop.make_worker({"work": work}, settings)
    await shop.add()
    await shop.worker.run_once()
    assert seen == [
        ("outer", "work"), ("inner", "work"), "work", ("inner", "done"), ("outer", "done"),
    ]  # fmt: skip


@pytest.mark.parametrize("is_async", [True, False])
async def test_middleware_gets_the_exception_itself(shop: Workshop, is_async: bool) -> None:
    raised, caught = KeyError("missing"), []

    async def fail(_: Context) -> None:
        raise raised

    def fail_in_thread(_: Context) -> None:
        raise raised

    async def catch(_: Context, call_next: CallNext) -> Any:
        try:
            return await call_next()
        except KeyError as error:
            caught.append(error)
            raise

    settings = WorkerSettings(middleware=[catch])
    shop.make_worker({"work": fail if is_async else fail_in_thread}, settings)
    job = await shop.add(retry_policy=RetryPolicy(max_attempts=1))
    await shop.worker.run_once()
    assert caught == [raised]
    assert (await shop.look(job)).last_error == "KeyError: 'missing'"


async def test_the_result_of_the_middleware_decides_about_the_attempt(shop: Workshop) -> None:
    async def decide(context: Context, call_next: CallNext) -> Any:
        if context.payload["do"] == "snooze":
            return Snooze(MINUTE)
        if context.payload["do"] == "refuse":
            raise PermissionError("not today")
        with pytest.raises(ZeroDivisionError):
            await call_next()
        return None

    async def divide(_: Context) -> None:
        raise ZeroDivisionError

    shop.make_worker({"work": divide}, WorkerSettings(middleware=[decide]))
    jobs = [await shop.add(payload={"do": it}) for it in ("snooze", "refuse", "swallow")]
    await shop.worker.run_once()
    snoozed, refused, swallowed = [await shop.look(job) for job in jobs]
    assert (snoozed.status, snoozed.attempt_count) == (JobStatus.READY, 0)
    assert refused.last_error == "PermissionError: not today"
    assert swallowed.status is JobStatus.COMPLETED


@pytest.mark.parametrize("is_async", [True, False])
async def test_handlers_see_the_context_variables_of_middleware(
    shop: Workshop, is_async: bool
) -> None:
    span: ContextVar[str] = ContextVar("span", default="none")
    seen: list[str] = []

    async def trace(context: Context, call_next: CallNext) -> Any:
        span.set(context.payload["span"])
        return await call_next()

    async def look(_: Context) -> None:
        seen.append(span.get())

    def look_in_thread(_: Context) -> None:
        seen.append(span.get())

    settings = WorkerSettings(middleware=[trace], concurrency=1)
    shop.make_worker({"work": look if is_async else look_in_thread}, settings)
    for name in ("a", "b"):
        await shop.add(payload={"span": name})
    await shop.worker.run_once()
    assert (seen, span.get()) == (["a", "b"], "none")


async def test_a_timeout_cancels_middleware_too(shop: Workshop) -> None:
    reasons: list[object] = []

    async def note(context: Context, call_next: CallNext) -> Any:
        try:
            return await call_next()
        except asyncio.CancelledError:
            reasons.append(context.cancel_reason)
            raise

    shop.make_worker({}, WorkerSettings(middleware=[note]))

    @shop.worker.handler("work", timeout=SECOND)
    async def linger(_: Context) -> None:
        await shop.clock.sleep(MINUTE)

    job = await shop.add()
    await shop.clock.run(shop.worker.run_once())
    assert reasons == [CancelReason.TIMED_OUT]
    assert (await shop.look(job)).last_error == "Timed out after 1 s"


async def test_the_value_of_the_lifespan_is_the_state_of_every_run(shop: Workshop) -> None:
    seen: list[object] = []

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[dict[str, str]]:
        seen.append("opened")
        yield {"pool": "ten connections"}
        seen.append("closed")

    async def work(context: Context) -> None:
        await shop.clock.sleep(SECOND)
        seen.append(context.state["pool"])

    shop.make_worker({"work": work}, WorkerSettings(lifespan=lifespan))
    await shop.add()
    shop.start()
    await shop.pass_time()
    await shop.finish()  # the job ends within the grace, before the pool is closed
    assert seen == ["opened", "ten connections", "closed"]


async def test_a_lifespan_that_fails_keeps_the_worker_from_starting(shop: Workshop) -> None:
    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        raise OSError("no database")
        yield

    shop.make_worker({"work": succeed}, WorkerSettings(lifespan=lifespan))
    job = await shop.add()
    with pytest.raises(OSError, match="no database"):
        await shop.clock.run(shop.start())
    assert (await shop.look(job)).status is JobStatus.READY
    assert not shop.worker.is_running


async def test_without_a_lifespan_there_is_no_state(shop: Workshop) -> None:
    states: list[object] = []
    shop.make_worker({"work": lambda context: states.append(context.state)})
    await shop.add()
    await shop.worker.run_once()
    assert states == [None]


@pytest.mark.parametrize(
    ("field", "value"), [("middleware", "text"), ("middleware", [1]), ("lifespan", 5)]
)
def test_bad_settings_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(InvalidInputError, match=field):
        WorkerSettings(**{field: value})  # type: ignore[arg-type]
