"""An app under test: virtual time, what was enqueued, what ran, and faults."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota import Context, JobStatus, Rota
from rota.clock.loop import turn
from rota.errors import AppUseError, InvalidInputError, JobFailedError, StoreUnavailableError
from rota.testing.faults import Failure, Fault, faults_on, scripted_faults
from rota.testing.virtual_app import MONDAY
from rota.worker import CallNext


@dataclass
class Address:
    street: str
    number: int


def make_app(**options: Any) -> Rota:
    app = Rota("postgresql://nowhere.invalid/db", **options)

    @app.task(name="greet")
    async def greet(user_id: int, locale: str = "en") -> str:
        return f"{locale} {user_id}"

    @app.task(name="post")
    async def post(to: Address) -> None: ...

    @app.task(name="fan")
    async def fan(count: int) -> None:
        for number in range(count):
            await greet.enqueue(number)

    @app.task(name="fail", retry={"max_attempts": 3, "backoff_strategy": "FIXED"})
    def fail() -> None:
        raise ValueError("no")

    @app.task(name="wait")
    async def wait(context: Context) -> str:
        await context.state["clock"].sleep(timedelta(hours=2))
        return "waited"

    return app


async def test_enqueued_jobs_can_be_listed_before_they_run() -> None:
    app = make_app()
    greet = app.tasks["greet"]
    async with app.testing() as rota:
        await greet.enqueue(7)
        await greet.using(delay="1h").enqueue(8, locale="de")
        for _ in range(5):
            await turn()
        assert [job.status for job in rota.enqueued(greet)] == [JobStatus.READY] * 2
        assert [job.payload["user_id"] for job in rota.enqueued(greet)] == [7, 8]
        assert len(rota.enqueued(greet, user_id=7)) == 1
        assert len(rota.enqueued("greet", user_id=8, locale="de")) == 1
        assert rota.enqueued(greet, user_id=9) == rota.enqueued(app.tasks["post"]) == []


async def test_arguments_are_compared_as_they_are_stored() -> None:
    app = make_app()
    post = app.tasks["post"]
    async with app.testing() as rota:
        await post.enqueue(Address("Main Street", 1))
        assert rota.enqueued(post, to=Address("Main Street", 1))
        assert rota.enqueued(post, to={"street": "Main Street", "number": 1})
        assert not rota.enqueued(post, to=Address("Main Street", 2))
        with pytest.raises(InvalidInputError, match="to cannot be an argument"):
            rota.enqueued(post, to=object())


async def test_a_question_that_no_job_can_answer_is_refused() -> None:
    app = make_app()
    greet = app.tasks["greet"]
    async with app.testing() as rota:
        with pytest.raises(InvalidInputError, match="usr_id is not a parameter of greet"):
            rota.enqueued(greet, usr_id=7)
        with pytest.raises(InvalidInputError, match="task must be a task or the name of one, got"):
            rota.enqueued(greet.function)
        with pytest.raises(InvalidInputError, match="verbs has no 'isnert' of the store"):
            rota.faults("isnert").__enter__()


async def test_run_all_runs_what_is_due_and_what_that_enqueues_and_time_stands_still() -> None:
    app = make_app()
    async with app.testing() as rota:
        await app.tasks["fan"].enqueue(25)
        later = await app.tasks["greet"].using(delay="1s").enqueue(1)
        ran = await rota.run_all()
        assert rota.now == MONDAY
        assert [job.kind for job in ran] == ["fan"] + ["greet"] * 25
        assert {job.status for job in ran} == {JobStatus.COMPLETED}
        assert await later.status() is JobStatus.READY
        assert await rota.run_all() == []


async def test_results_are_those_of_the_jobs_that_ran() -> None:
    app = make_app()
    async with app.testing() as rota:
        job = await app.tasks["greet"].enqueue(7)
        await rota.run_all()
        assert await job.result() == "en 7"
        other = await app.tasks["greet"].using(delay="3d").enqueue(8)
        assert await rota.run(other.result()) == "en 8"
        assert rota.now == MONDAY + timedelta(days=3)


async def test_time_passes_with_everything_at_its_own_instant() -> None:
    app, at = make_app(), datetime(2026, 10, 25, tzinfo=UTC)
    async with app.testing(at=at) as rota:
        assert rota.now == at
        await app.tasks["greet"].using(delay="6h").enqueue(1)
        (job,) = await rota.advance("1d")
        assert rota.now == at + timedelta(days=1)
        assert job.completion is not None
        assert job.completion.started_at == at + timedelta(hours=6)
        assert await rota.advance_to("2026-10-27T00:00:00Z") == []
        assert rota.now == datetime(2026, 10, 27, tzinfo=UTC)


async def test_retries_happen_when_they_are_due() -> None:
    app = make_app()
    async with app.testing() as rota:
        job = await app.tasks["fail"].enqueue()
        (failed,) = await rota.run_all()
        assert (failed.status, failed.attempt_count) == (JobStatus.READY, 1)
        (dead,) = await rota.advance("1h")
        assert (dead.status, dead.attempt_count) == (JobStatus.FAILED, 3)
        with pytest.raises(JobFailedError, match="ValueError: no"):
            await job.result()


async def test_a_handler_that_waits_is_waited_for() -> None:
    @asynccontextmanager
    async def lifespan() -> AsyncIterator[dict[str, Any]]:
        session = await app.session()
        yield {"clock": session.clock}

    app = make_app(lifespan=lifespan)
    async with app.testing() as rota:
        job = await app.tasks["wait"].enqueue()
        await rota.run_all()
        assert await job.result() == "waited"
        assert rota.now == MONDAY + timedelta(hours=2)


async def test_middleware_surrounds_each_run() -> None:
    seen: list[str] = []

    async def note(context: Context, call_next: CallNext) -> Any:
        seen.append(context.job.kind)
        return await call_next()

    app = make_app(middleware=[note])
    async with app.testing() as rota:
        await app.tasks["greet"].enqueue(1)
        await rota.run_all()
    assert seen == ["greet"]


async def test_an_outage_is_survived() -> None:
    app = make_app()
    greet = app.tasks["greet"]
    async with app.testing() as rota:
        job = await greet.enqueue(7)
        with rota.faults():
            with pytest.raises(StoreUnavailableError):
                await greet.enqueue(8)
            assert await rota.advance("5m") == []
        await rota.advance("1m")
        assert await job.result() == "en 7"
        assert len(rota.enqueued(greet)) == 1


async def test_chosen_calls_fail() -> None:
    app = make_app()
    greet = app.tasks["greet"]
    async with app.testing() as rota:
        with rota.faults("insert"), pytest.raises(StoreUnavailableError):
            await greet.enqueue(1)
        job = await greet.enqueue(7)
        lost = faults_on(["apply"], scripted_faults({1: Fault(Failure.AFTER)}))
        with rota.faults(script=lost):
            await rota.advance("1m")
        assert rota.store.injected[-1][1].failure is Failure.AFTER
        assert await job.result() == "en 7"
        assert [it.name for it in rota.events].count("JobSettled") == 1


async def test_a_day_of_an_idle_app_costs_little(monkeypatch: pytest.MonkeyPatch) -> None:
    app, stop_count = make_app(), 0
    async with app.testing() as rota:
        move = rota.clock._move_to

        def count(instant: datetime) -> None:
            nonlocal stop_count
            stop_count += 1
            move(instant)

        monkeypatch.setattr(rota.clock, "_move_to", count)
        await rota.advance("30d")
    assert stop_count <= 300


async def test_threads_may_enqueue_and_the_loop_of_the_test_may_not_block() -> None:
    app = make_app()
    greet = app.tasks["greet"]
    async with app.testing() as rota:
        job = await asyncio.to_thread(greet.enqueue_sync, 7)
        with pytest.raises(AppUseError):
            greet.enqueue_sync(8)
        await rota.run_all()
        assert await job.result() == "en 7"


async def test_a_lifespan_that_fails_fails_the_test() -> None:
    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        raise OSError("no database")
        yield

    app = make_app(lifespan=lifespan)
    with pytest.raises(OSError, match="no database"):
        async with app.testing():
            pytest.fail("it cannot start")


async def test_one_app_may_be_tested_again_and_again() -> None:
    app = make_app()
    for _ in range(2):
        async with app.testing() as rota:
            await app.tasks["greet"].enqueue(1)
            assert len(await rota.run_all()) == len(rota.enqueued("greet")) == 1


async def test_schedules_run_at_their_instants() -> None:
    app, runs = make_app(), []

    @app.schedule("*/20 * * * *", name="often")
    async def often(context: Context) -> None:
        runs.append(context.scheduled_for)

    async with app.testing() as rota:
        await rota.advance("1h30m")
        assert len(rota.enqueued(often)) == len(runs) + 1
    minutes = [(at - MONDAY) // timedelta(minutes=1) for at in runs]
    assert minutes == [0, 20, 40, 60, 80]
