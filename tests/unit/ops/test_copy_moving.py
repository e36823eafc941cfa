"""A copy brings everything, goes on where it was cut off, and finds what is not equal."""

from collections.abc import Sequence
from datetime import datetime

import pytest

from rota.errors import CopyDiffersError, CopyRefusedError
from rota.ops import store_copy
from rota.ops.store_comparison import PROBE, UNFINISHED, MarkedTarget, Phase
from rota.ops.store_copy import CopyReport, copy_everything, recognise_copy
from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentWrite, KeptDocument, KeptJob, Portion, Record
from rota.testing import a_job
from rota.testing.job_store_fixture import NOW
from rota.testing.portable_store_contract import dump_all, expect_same, records_of_every_sort


class CutOffError(Exception):
    """The process is gone."""


class SmallPortions(MemoryStore):
    """A store whose portions are of two, and which dies at a call of the test's choice."""

    def __init__(self) -> None:
        super().__init__()
        self.call_count = 0
        self.dies_at: int | None = None

    async def dump(self, cursor: str | None = None, limit: int = 1000) -> Portion:
        self._live()
        return await super().dump(cursor, min(2, limit))

    async def load(self, records: Sequence[Record], now: datetime) -> int:
        self._live()
        loaded = await super().load(records, now)
        self._live()
        return loaded

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        self._live()
        written = await super().write_each(writes)
        self._live()
        return written

    def _live(self) -> None:
        self.call_count += 1
        if self.call_count == self.dies_at:
            raise CutOffError


def ignore(_phase: Phase, _count: int) -> None:
    pass


async def filled() -> SmallPortions:
    store = SmallPortions()
    await store.load(records_of_every_sort(), NOW)
    return store


async def copy(source: MemoryStore, target: MemoryStore, name: str = "source") -> CopyReport:
    marked = await MarkedTarget.begin(target, name)
    return await copy_everything(source, target, marked, NOW, ignore)


async def test_everything_is_there_afterwards_and_the_mark_is_gone() -> None:
    source, target = await filled(), SmallPortions()
    report = await copy(source, target)
    expect_same(await dump_all(target), await dump_all(source))
    assert (report.content.job_count, report.content.document_count) == (8, 3)
    assert not report.is_resumed


async def test_leftovers_of_an_abandoned_copy_are_not_copied() -> None:
    source, target = await filled(), SmallPortions()
    before = await dump_all(source)
    await source.write_each([DocumentWrite(PROBE, "target", None, b"left behind")])
    report = await copy(source, target)
    expect_same(await dump_all(target), before)
    assert report.content.document_count == 3
    assert await source.read(PROBE, ["target"]), "the source is only read"


async def test_an_empty_store_is_copied_too() -> None:
    assert (await copy(MemoryStore(), MemoryStore())).content.job_count == 0


async def test_progress_is_reported() -> None:
    source, target = await filled(), SmallPortions()
    found: dict[Phase, int] = dict.fromkeys(Phase, 0)

    def note(phase: Phase, count: int) -> None:
        found[phase] += count

    marked = await MarkedTarget.begin(target, "source")
    await copy_everything(source, target, marked, NOW, note)
    assert found == dict.fromkeys(Phase, 11)


async def test_a_copy_that_dies_anywhere_goes_on_and_is_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store_copy, "NOTED_AFTER", 3)
    source = await filled()
    before, outcomes = await dump_all(source), set()
    for dies_at in range(1, 200):
        target = SmallPortions()
        target.dies_at = dies_at
        try:
            await copy(source, target)
        except CutOffError:
            is_marked = bool(await target.read(UNFINISHED, ["target"]))
        else:
            break
        outcomes.add((is_marked, target.call_count))
        is_whole = [*map(str, await dump_all(target))] == [*map(str, before)]
        assert is_marked or is_whole or await dump_all(target) == []
        if is_marked:
            await copy(source, target)
        elif is_whole:
            assert (await recognise_copy(source, target, ignore)).was_finished
        if is_marked or is_whole:
            expect_same(await dump_all(target), before)
    assert {is_marked for is_marked, _ in outcomes} == {True, False}
    assert len(outcomes) > 20
    expect_same(await dump_all(source), before)


async def test_a_store_that_is_not_a_copy_is_left_alone() -> None:
    source, target = await filled(), SmallPortions()
    strangers = [*await dump_all(source)][:-1]
    await target.load([*strangers, KeptJob(a_job())], NOW)
    before = await dump_all(target)
    with pytest.raises(CopyRefusedError, match=r"not a copy of the source: .*missing"):
        await recognise_copy(source, target, ignore)
    expect_same(await dump_all(target), before)


async def test_changes_in_the_source_during_a_copy_are_named() -> None:
    source, target = await filled(), SmallPortions()
    target.dies_at = 12
    with pytest.raises(CutOffError):
        await copy(source, target)
    await source.write_each([DocumentWrite("tasks", "a", 7, b"moved on")])
    gone = next(each for each in await dump_all(target) if isinstance(each, KeptDocument))
    assert gone.key == "a"
    with pytest.raises(CopyDiffersError, match='document "a" of "tasks" differs') as caught:
        await copy(source, target)
    assert caught.value.differences == ['document "a" of "tasks" differs']
    assert await target.read(UNFINISHED, ["target"]), "it cannot be used yet"


async def test_missing_and_extra_records_are_named() -> None:
    source, target = await filled(), SmallPortions()
    marked = await MarkedTarget.begin(target, "source")
    await marked.advance(None, 0)  # as if all had been copied
    extra = a_job()
    await target.load([KeptJob(extra)], NOW)
    with pytest.raises(CopyDiffersError) as caught:
        await copy(source, target)
    found = caught.value.differences
    assert any(each.endswith("is missing in the target") for each in found)
    assert len(found) <= 10
    await source.load([KeptJob(a_job())], NOW)
    fresh = SmallPortions()
    await (await MarkedTarget.begin(fresh, "source")).advance(None, 0)
    await fresh.load([*await dump_all(source), KeptJob(extra)], NOW)
    with pytest.raises(CopyDiffersError, match=f"job {extra.id} is only in the target"):
        await copy(source, fresh)


@pytest.mark.parametrize("count", [1, 3])
async def test_records_in_the_target_before_the_mark_are_left_alone(count: int) -> None:
    target = SmallPortions()
    strangers = [KeptDocument("zoo", f"{each}", 1, b"") for each in range(count)]
    await target.load(strangers, NOW)
    with pytest.raises(CopyRefusedError, match='not empty: it holds document "0" of "zoo"'):
        await copy(await filled(), target)
    expect_same(await dump_all(target), strangers)


class WithListings(MemoryStore):
    """A store that looks for its jobs in several places, of which the first are empty."""

    async def dump(self, cursor: str | None = None, limit: int = 1000) -> Portion:
        place = -1 if cursor is None else int(cursor)
        if place < 0:
            documents = [each for each in await self._all() if isinstance(each, KeptDocument)]
            return Portion(documents[:limit], "0")
        if place < 2:
            return Portion((), str(place + 1))
        return Portion([each for each in await self._all() if isinstance(each, KeptJob)], None)

    async def _all(self) -> Sequence[Record]:
        first = await super().dump()
        return [*first.records, *(await super().dump(first.cursor)).records]


async def test_jobs_in_the_target_are_met_wherever_it_keeps_them() -> None:
    target, stranger = WithListings(), a_job()
    await target.insert([stranger], NOW)
    with pytest.raises(CopyRefusedError, match=f"it holds job {stranger.id}"):
        await copy(await filled(), target)
    assert await target.count("default") == 1


async def test_jobs_only_in_the_target_are_reported_too() -> None:
    target = SmallPortions()
    await target.insert([a_job()], NOW)
    with pytest.raises(CopyRefusedError, match="it holds job "):
        await copy(MemoryStore(), target)
