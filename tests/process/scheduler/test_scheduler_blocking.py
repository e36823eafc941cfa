"""Callbacks that keep the scheduler's loop, or themselves, busy for too long."""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rota import Scheduler, open_store
from rota.events import Event, TaskBlockedLoop
from rota.testing import VirtualClock

MINUTELY = "* * * * *"
LONG_ENOUGH = 2_000_000_000
"""This many turns of a loop take a minute or more on any machine."""


def find_warnings(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [it for it in caplog.records if getattr(it, "event", None) == "TaskBlockedLoop"]


@pytest.mark.process
async def test_a_callback_that_blocks_the_loop_is_named_in_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    has_blocked = asyncio.Event()

    complaints: list[Event] = []

    async def block() -> None:
        """Compute, without ever awaiting or calling, until somebody complains."""
        for _ in range(LONG_ENOUGH):
            if complaints:
                break
        has_blocked.set()

    async def behave() -> None:
        await has_blocked.wait()

    async with await open_store("memory://") as store:
        scheduler = Scheduler(store, zone=UTC)
        scheduler.events.subscribe(
            lambda it: complaints.append(it) if isinstance(it, TaskBlockedLoop) else None
        )
        delay = timedelta(minutes=1)
        await scheduler.initialize(
            [("behaving", MINUTELY, behave, delay), ("blocking", MINUTELY, block, delay)]
        )
        await has_blocked.wait()
        await scheduler.stop()

    warning, *_ = find_warnings(caplog)
    fields = warning.__dict__["fields"]
    assert warning.levelno == logging.WARNING
    assert fields["taskName"] == "blocking"
    assert fields["duration"] >= 1_000
    assert Path(__file__).name in fields["location"]
    assert {it.__dict__["fields"]["taskName"] for it in find_warnings(caplog)} == {"blocking"}


@pytest.mark.parametrize("hang", ["for ever", "fail"])
async def test_a_task_that_hangs_or_fails_does_not_delay_another(hang: str) -> None:
    clock = VirtualClock(datetime(2024, 3, 4, 10, 0, 30, tzinfo=UTC))
    started: list[datetime] = []

    async def misbehave() -> None:
        if hang == "fail":
            raise RuntimeError("as always")
        await asyncio.Event().wait()

    def note() -> None:
        started.append(clock.now())

    async with await open_store("memory://") as store:
        scheduler = Scheduler(store, clock=clock, zone=UTC)
        callbacks: dict[str, Callable[[], object]] = {"a": misbehave, "b": note, "c": misbehave}
        await scheduler.initialize(
            [(name, MINUTELY, call, timedelta()) for name, call in callbacks.items()]
        )
        await clock.advance(timedelta(minutes=5))
        first, *others = started
        assert first == datetime(2024, 3, 4, 10, 0, 30, tzinfo=UTC)
        assert others == [datetime(2024, 3, 4, 10, minute, tzinfo=UTC) for minute in range(1, 6)]
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
