"""The simulation itself: repeatable, varied, quick to explain, and able to fail."""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from io import StringIO
from zoneinfo import ZoneInfo

import msgspec
import pytest
from rich.console import Console
from tests.verification.simulation import (
    MakeScheduler,
    Story,
    draw_story,
    make_scheduler,
    try_seed,
)
from tests.verification.simulation.__main__ import read_seeds, run
from tests.verification.simulation.campaign import run_seeds
from tests.verification.simulation.schedules import transitions_of
from tests.verification.trace import (
    Axiom,
    Crashed,
    InitializeFailed,
    InitializeReturned,
    RunFailed,
    RunStarted,
    StopReturned,
    StorageFault,
)

from rota.clock.protocol import Clock
from rota.clock.virtual import VirtualClock
from rota.scheduler import Scheduler
from rota.scheduler import loop as scheduler_loop
from rota.scheduler.task import Start, StartReason, TaskState, decide_start, record_failure
from rota.stores.protocol import DocumentStore

SEEDS_TO_CATCH_WITHIN = 300


@pytest.mark.parametrize("seed", range(0, 400, 10))
def test_the_same_seed_gives_the_same_trace(seed: int) -> None:
    assert draw_story(seed) == draw_story(seed)
    assert try_seed(seed).verdict.trace == try_seed(seed).verdict.trace


def test_a_story_on_sqlite_repeats_itself_too() -> None:
    seed = next(seed for seed in range(10_000) if draw_story(seed).store == "sqlite")
    first, second = try_seed(seed).verdict.trace, try_seed(seed).verdict.trace
    assert first == second
    assert len(first) > 1


def test_the_stories_contain_everything() -> None:
    stories = [draw_story(seed) for seed in range(500)]
    deeds = Counter(type(step.deed).__name__ for story in stories for step in story.steps)
    assert min(deeds.values()) > 50
    assert deeds.keys() == {
        "CallInitialize",
        "CallStop",
        "Crash",
        "CrashAtCall",
        "Jump",
        "Release",
    }
    assert {story.edition for story in stories} == {"declarative", "polling"}
    assert {story.store for story in stories} == {"memory", "sqlite"}
    assert sum(_crosses_a_transition(story) for story in stories) > 150


def _crosses_a_transition(story: Story) -> bool:
    end = story.start + sum((step.after for step in story.steps), timedelta())
    return any(story.start <= each.at <= end for each in transitions_of(story.zone))


def test_the_traces_contain_everything() -> None:
    seen: Counter[type] = Counter()
    for seed in range(150):
        seen.update(type(entry) for entry in try_seed(seed).verdict.trace)
    for kind in (
        Crashed,
        InitializeFailed,
        InitializeReturned,
        RunFailed,
        RunStarted,
        StopReturned,
        StorageFault,
    ):
        assert seen[kind] > 50


class AheadOfTime:
    """A clock that shows a second more than it is."""

    ERROR = timedelta(seconds=1)

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> datetime:
        return self._clock.now() + self.ERROR

    async def sleep(self, duration: timedelta) -> None:
        await self._clock.sleep(duration)

    async def sleep_until(self, instant: datetime) -> None:
        await self._clock.sleep_until(instant - self.ERROR)


def start_early(store: DocumentStore, clock: VirtualClock, story: Story) -> Scheduler:
    return Scheduler(store, clock=AheadOfTime(clock), zone=ZoneInfo(story.zone))


class Hasty(Scheduler):
    """Says that it has stopped as soon as it is asked to."""

    async def stop(self) -> None:
        self._lagging = asyncio.create_task(super().stop())


def stop_without_waiting(store: DocumentStore, clock: VirtualClock, story: Story) -> Scheduler:
    return Hasty(store, clock=clock, zone=ZoneInfo(story.zone))


def start_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every third start is followed by another one for the same occurrence."""
    starts: Counter[str] = Counter()

    def decide(
        state: TaskState,
        last_due_at: datetime | None,
        now: datetime,
        *,
        is_interrupted: bool = False,
    ) -> Start | None:
        start = decide_start(state, last_due_at, now, is_interrupted=is_interrupted)
        starts[state.name] += 1
        if start is None and not state.running and last_due_at and starts[state.name] % 3 == 0:
            return Start(StartReason.OCCURRENCE, last_due_at)
        return start

    monkeypatch.setattr(scheduler_loop, "decide_start", decide)


def forget_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    def record(state: TaskState, at: datetime) -> TaskState:
        return msgspec.structs.replace(record_failure(state, at), pending_retry_until=None)

    monkeypatch.setattr(scheduler_loop, "record_failure", record)


def never_catch_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def decide(
        state: TaskState,
        last_due_at: datetime | None,
        now: datetime,
        *,
        is_interrupted: bool = False,
    ) -> Start | None:
        start = decide_start(state, last_due_at, now, is_interrupted=is_interrupted)
        is_late = start is not None and start.reason is StartReason.CATCH_UP
        return None if is_late else start

    monkeypatch.setattr(scheduler_loop, "decide_start", decide)


@pytest.mark.parametrize(
    ("sabotage", "make", "expected"),
    [
        (None, start_early, "S1"),
        (start_again, make_scheduler, "S2"),
        (forget_retries, make_scheduler, "L1"),
        (None, stop_without_waiting, "S3"),
        (never_catch_up, make_scheduler, "L1"),
    ],
    ids=["early start", "double start", "lost retry", "stop not waiting", "missed catch-up"],
)
def test_a_broken_scheduler_is_caught(
    monkeypatch: pytest.MonkeyPatch,
    sabotage: Callable[[pytest.MonkeyPatch], None] | None,
    make: MakeScheduler,
    expected: Axiom,
) -> None:
    if sabotage is not None:
        sabotage(monkeypatch)
    caught = Counter(
        axiom
        for seed in range(SEEDS_TO_CATCH_WITHIN // 3)
        if draw_story(seed).edition == "declarative"
        for axiom in try_seed(seed, make).verdict.axioms
    )
    assert caught[expected] >= 3, f"caught only {caught}"


def test_seeds_are_tried_in_order_on_several_cores() -> None:
    alone = list(run_seeds(range(60)))
    assert list(run_seeds(range(60), job_count=2)) == alone
    assert [progress.story_count for progress in alone] == [50, 10]


def test_a_story_that_cannot_be_played_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise RuntimeError("no stage")

    monkeypatch.setattr("tests.verification.simulation.campaign.try_seed", fail)
    (progress,) = run_seeds(range(7, 8))
    (failure,) = progress.failures
    assert (failure.seed, failure.axioms) == (7, ())
    assert "no stage" in failure.report


def command(*arguments: str) -> tuple[int, str]:
    text = StringIO()
    status = run(arguments, Console(file=text, width=200))
    return status, text.getvalue()


def a_quiet_seed() -> int:
    return next(seed for seed in range(100) if try_seed(seed).verdict.ok)


def test_one_seed_can_be_shown() -> None:
    seed = a_quiet_seed()
    status, text = command("--seed", str(seed), "--show")
    assert status == 0
    assert f"seed {seed}: {draw_story(seed).edition} edition" in text
    assert "initialize called call=1" in text
    assert "no violation in" in text


def test_a_failing_seed_is_named_with_the_command_that_replays_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    never_catch_up(monkeypatch)
    status, text = command("--seeds", "0:50")
    assert status == 1
    assert "L1" in text
    assert "python -m tests.verification.simulation --seed" in text


@pytest.mark.parametrize("text", ["x", "5:1", "1:2:3", ""])
def test_a_bad_range_of_seeds_is_refused(text: str) -> None:
    with pytest.raises(SystemExit):
        command("--seeds", text)


def test_ranges_of_seeds() -> None:
    assert read_seeds("3:6") == range(3, 6)
    assert read_seeds("3") == range(3, 4)
