"""The same lives on every sort of store: to the letter as in memory, and as the axioms say.

15 seeds each; ``STORY_SEEDS=30`` doubles them.
"""

import os
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from tests.simulation.distance import DistantStore, Elsewhere, StoreInStep, opened_elsewhere
from tests.verification.simulation import draw_story, try_story
from tests.verification.trace import Crashed, RunFailed, RunStarted, StopReturned, StorageFault

from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentWrite, Reach

FEW, MANY = range(5), range(5, int(os.environ.get("STORY_SEEDS", "15")))
seeds = pytest.mark.parametrize("seeds", [FEW, MANY], ids=["few", "many"])


class SharedMemory(MemoryStore):
    """A store in memory that is said to be as far away as another: what instances do differs."""

    def __init__(self, reach: Reach) -> None:
        super().__init__()
        self.reach = reach


@pytest.fixture
def there(store_url: str) -> Iterator[Elsewhere]:
    with opened_elsewhere(store_url) as opened:
        yield opened


@seeds
def test_a_story_is_the_same_on_every_store_to_the_letter(there: Elsewhere, seeds: range) -> None:
    for seed in seeds:
        story = draw_story(seed)
        expected = try_story(story, store=SharedMemory(there.store.reach)).verdict
        told = try_story(story, store=StoreInStep(there, f"story {seed}")).verdict
        told.assert_ok()
        assert told.trace == expected.trace, story.describe()


@seeds
def test_a_story_keeps_the_axioms_on_a_slow_store(there: Elsewhere, seeds: range) -> None:
    """Answers come when they come, so other things happen between them than in memory."""
    for seed in seeds[: len(seeds) // 2]:
        try_story(draw_story(seed), store=DistantStore(there, f"story {seed}")).verdict.assert_ok()


class Forgetful(StoreInStep):
    """Says that it has written, which every fifth time is not so."""

    call_count = 0

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        self.call_count += 1
        if self.call_count % 5:
            return await super().write_each(writes)
        return [write.next_version if write.body is not None else 0 for write in writes]


def test_a_store_that_forgets_is_found_out() -> None:
    with opened_elsewhere("memory://") as there:
        found = [
            try_story(draw_story(seed), store=Forgetful(there, f"story {seed}")).verdict.trace
            != try_story(draw_story(seed), store=SharedMemory(there.store.reach)).verdict.trace
            for seed in FEW
        ]
    assert sum(found) >= len(FEW) / 2


@pytest.mark.parametrize("seeds", [FEW, MANY], ids=["few", "many"])
def test_even_the_few_stories_contain_everything(seeds: range) -> None:
    stories = [try_story(draw_story(seed), store=SharedMemory(Reach.NETWORK)) for seed in seeds]
    seen = Counter(type(entry) for story in stories for entry in story.verdict.trace)
    assert {Crashed, RunFailed, RunStarted, StopReturned, StorageFault} <= set(seen)
    assert {story.story.edition for story in stories} == {"declarative", "polling"}
