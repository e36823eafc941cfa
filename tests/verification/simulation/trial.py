"""One seed: drawn, played and judged."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from selectors import DefaultSelector, SelectorKey
from tempfile import TemporaryDirectory
from zoneinfo import ZoneInfo

from tests.verification.simulation.generator import draw_story
from tests.verification.simulation.stage import MakeScheduler, make_scheduler, play_story
from tests.verification.simulation.story import Story
from tests.verification.trace.actions import Entry
from tests.verification.trace.checker import check_trace
from tests.verification.trace.editions import DECLARATIVE_EDITION, POLLING_EDITION, Tolerance
from tests.verification.trace.report import Verdict

from rota.runtime.wiring import open_store
from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentStore

TOLERANCE = Tolerance(after_jump=timedelta(), after_fault=timedelta(seconds=31))
"""Under virtual time nothing is late, except by the scheduler's pause after a failing store."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A story and what the judge says of it."""

    story: Story
    verdict: Verdict


def try_seed(seed: int, make: MakeScheduler = make_scheduler) -> Trial:
    """Draw, play and judge the story of a seed."""
    return try_story(draw_story(seed), make)


def try_story(
    story: Story, make: MakeScheduler = make_scheduler, store: DocumentStore | None = None
) -> Trial:
    """Play a story in an event loop of its own, and judge it.

    A store that is given is used instead of the story's. It must be empty, and have its connections
    elsewhere than in this loop: in a story's end whatever the loop still does is cancelled.
    """
    with asyncio.Runner(loop_factory=_make_loop) as runner:
        played = _play(story, make) if store is None else play_story(story, store, make)
        trace = runner.run(played)
    verdict = check_trace(
        trace,
        zone=ZoneInfo(story.zone),
        edition=POLLING_EDITION if story.edition == "polling" else DECLARATIVE_EDITION,
        allowance=timedelta(),
        tolerance=TOLERANCE,
    )
    return Trial(story, verdict)


class LazySelector(DefaultSelector):
    """Asks the system for events only when the loop has nothing else to do.

    A story has no sockets, and thousands of turns; asking at each of them is what would take long.
    """

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        return [] if timeout is not None and timeout <= 0 else super().select(timeout)


def _make_loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(LazySelector())


async def _play(story: Story, make: MakeScheduler) -> tuple[Entry, ...]:
    if story.store == "memory":
        return await play_story(story, MemoryStore(), make)
    with TemporaryDirectory(prefix="rota-") as folder:
        async with await open_store(f"sqlite:///{Path(folder) / 'story.db'}") as store:
            return await play_story(story, store, make)
