"""The real-time bounds R1 and R2, and that a long life keeps no more than a short one."""

import gc
from datetime import timedelta
from time import perf_counter

from tests.spec.stage import SELDOM, Stage, at, minutes, seconds

from rota import Scheduler
from rota.stores.memory import MemoryStore
from rota.testing import VirtualClock, seed_tasks

TASK_COUNT = 1_000
BOUND = TASK_COUNT * 0.006
"""Ten minutes for 100,000 tasks, as the document reckons: 6 ms of real time for each."""


async def test_due_tasks_start_at_the_boundary_and_within_the_bound(stage: Stage) -> None:
    names = [f"t{number}" for number in range(TASK_COUNT)]
    await stage.scheduler().initialize([stage.task(name, "1 10 * * *") for name in names])
    began = perf_counter()
    await stage.clock.advance(minutes(2))
    assert perf_counter() - began < BOUND
    assert sorted(stage.starts) == sorted((name, at(10, 1)) for name in names)


async def test_interrupted_tasks_start_after_a_restart_within_the_bound(stage: Stage) -> None:
    names = [f"t{number}" for number in range(TASK_COUNT)]
    record = {"cronExpression": "0 9 * * *", "retryDelayMs": 0, "lastAttemptAt": at(9)}
    await seed_tasks(
        stage.store, [{"name": name, "schedulerIdentifier": "gone", **record} for name in names]
    )
    began = perf_counter()
    await stage.scheduler().initialize(
        [stage.task(name, "0 9 * * *", timedelta(0)) for name in names]
    )
    await stage.clock.advance(seconds(1))
    assert perf_counter() - began < BOUND
    assert sorted(stage.starts) == sorted((name, at(10)) for name in names)


async def test_a_long_life_keeps_no_more_than_a_short_one() -> None:
    clock, runs = VirtualClock(at(10)), [0]

    async def run() -> None:
        runs[0] += 1
        if runs[0] % 10 == 0:
            raise ValueError("now and then")

    scheduler = Scheduler(MemoryStore(), clock=clock, settings=SELDOM)
    await scheduler.initialize([("a", "* * * * *", run, seconds(1))])
    counts = []
    for _ in range(3):
        await clock.advance(timedelta(minutes=150))
        gc.collect()
        counts.append(len(gc.get_objects()))
    assert runs[0] > 450
    assert counts[2] - counts[1] < 75  # one object kept for each run would be 150
    await scheduler.stop()
