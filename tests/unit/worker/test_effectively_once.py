"""What handlers do effectively once."""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from rota.errors import InvalidInputError
from rota.jobs import RetryPolicy
from rota.rail import Rail
from rota.stores.memory import MemoryStore
from rota.testing import VirtualClock, a_job
from rota.worker import Context, Discard, Snooze, Worker, effectively_once

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
AGAIN = RetryPolicy(max_attempts=5, base_delay_seconds=1, max_delay_seconds=1)


class Stage:
    """A store, a rail and a worker, in virtual time."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.clock = VirtualClock(NOW)
        self.rail = Rail(self.store, "guild-7", clock=self.clock, draw_bits=Random(1).getrandbits)
        self.worker = Worker(self.store, clock=self.clock)

    async def attempt(self, times: int = 1) -> None:
        for _ in range(times):
            await self.worker.run_once()
            await self.clock.advance(MINUTE)

    async def schedule(self, **fields: Any) -> str:
        return await self.rail.schedule_once(
            "send", {}, run_at=NOW, **{"retry_policy": AGAIN, **fields}
        )


async def test_an_effect_is_not_repeated_when_its_job_is() -> None:
    stage = Stage()
    sent: list[str] = []
    results: list[object] = []

    @stage.worker.handler("send")
    async def send(context: Context) -> None:
        async def act() -> int:
            sent.append(context.tenant)
            return len(sent)

        results.append(await context.once("reminder:1", act))
        if context.attempt < 3:
            raise ConnectionError("after the effect")

    job_id = await stage.schedule()
    await stage.attempt(3)
    assert (sent, results) == (["guild-7"], [1, 1, 1])
    assert (await stage.rail.get(job_id)).state == "done"


async def test_a_job_whose_effect_is_done_is_settled_without_running() -> None:
    stage = Stage()
    runs: list[str] = []

    @stage.worker.handler("send")
    @effectively_once
    async def send(context: Context) -> None:
        runs.append(context.job.id)

    first = await stage.schedule(idempotency_key="k")
    await stage.attempt()
    await stage.store.delete("guild-7", first)
    second = await stage.schedule(idempotency_key="k")
    await stage.attempt()
    assert runs == [first]
    assert (await stage.rail.get(second)).state == "done"


async def test_a_handler_that_failed_or_put_it_off_has_done_nothing() -> None:
    stage = Stage()
    answers: list[object] = [Snooze(MINUTE), ConnectionError("no"), None]
    runs: list[object] = []

    @stage.worker.handler("send")
    @effectively_once
    async def send(_: Context) -> object:
        answer = answers[len(runs)]
        runs.append(answer)
        if isinstance(answer, Exception):
            raise answer
        return answer

    job_id = await stage.schedule()
    await stage.attempt(4)
    assert runs == answers
    job = await stage.rail.get(job_id)
    assert (job.state, job.attempts) == ("done", 1)


async def test_a_handler_that_gives_up_has_done_nothing() -> None:
    stage = Stage()

    @stage.worker.handler("send")
    @effectively_once
    async def send(_: Context) -> Discard:
        return Discard("hopeless")

    job_id = await stage.schedule()
    await stage.attempt()
    assert (await stage.rail.get(job_id)).state == "failed"


async def test_a_context_of_ones_own_making_has_no_ledger() -> None:
    with pytest.raises(InvalidInputError, match="without a ledger"):
        await Context(a_job(), NOW).once("k", lambda: None)
    with pytest.raises(InvalidInputError, match="without a ledger"):
        await Context(a_job(), NOW).once_within(None, "k", lambda: None)
