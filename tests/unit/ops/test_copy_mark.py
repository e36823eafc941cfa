"""A store that is the target of a running copy refuses to be opened."""

from collections.abc import Sequence

import pytest

from rota.errors import CopyRefusedError, CopyUnfinishedError, StoreUnavailableError
from rota.ops.store_comparison import UNFINISHED, MarkedTarget, refuse_unfinished
from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentWrite
from rota.testing.portable_store_contract import dump_all


async def test_a_store_without_a_mark_is_not_refused() -> None:
    store = MemoryStore()
    await refuse_unfinished(store)
    assert await dump_all(store) == [], "and asking leaves nothing behind"


async def test_a_marked_store_is_refused_until_the_copy_is_finished() -> None:
    store = MemoryStore()
    marked = await MarkedTarget.begin(store, "sqlite:///a.db")
    with pytest.raises(CopyUnfinishedError, match=r"sqlite:///a\.db") as caught:
        await refuse_unfinished(store)
    assert caught.value.source == "sqlite:///a.db"
    await marked.advance("here", 5)
    with pytest.raises(CopyUnfinishedError):
        await refuse_unfinished(store)
    await marked.finish()
    await refuse_unfinished(store)
    assert await dump_all(store) == []


async def test_a_copy_that_was_cut_off_is_taken_over_where_it_was() -> None:
    store = MemoryStore()
    first = await MarkedTarget.begin(store, "a")
    assert not first.is_resumed
    await first.advance("here", 5)
    second = await MarkedTarget.begin(store, "a")
    assert (second.is_resumed, second.mark.cursor, second.mark.copied_count) == (True, "here", 5)
    assert not second.mark.is_copied
    await second.advance(None, 2)
    third = await MarkedTarget.begin(store, "a")
    assert (third.mark.is_copied, third.mark.copied_count) == (True, 7)


async def test_one_that_was_marked_and_no_more_is_resumed_too() -> None:
    store = MemoryStore()
    await MarkedTarget.begin(store, "a")
    assert (await MarkedTarget.begin(store, "a")).is_resumed


async def test_a_copy_from_elsewhere_is_refused_and_leaves_the_mark() -> None:
    store = MemoryStore()
    first = await MarkedTarget.begin(store, "a")
    with pytest.raises(CopyRefusedError, match="A copy from a into the target was begun"):
        await MarkedTarget.begin(store, "b")
    await first.advance("here", 1)


async def test_a_replaced_instance_writes_no_more() -> None:
    store = MemoryStore()
    first = await MarkedTarget.begin(store, "a")
    second = await MarkedTarget.begin(store, "a")
    for call in (first.advance("here", 1), first.finish()):
        with pytest.raises(CopyRefusedError, match="Another copy"):
            await call
    await second.finish()


async def test_a_mark_that_cannot_be_read_is_a_mark_all_the_same() -> None:
    store = MemoryStore()
    await store.write_each([DocumentWrite(UNFINISHED, "target", None, b"?")])
    with pytest.raises(CopyUnfinishedError, match="another store"):
        await refuse_unfinished(store)


class LosesConnection(MemoryStore):
    """The connection is lost when the mark is removed: on its way there, or on the way back."""

    def __init__(self, *, is_carried_out: bool, time_count: int = 1) -> None:
        super().__init__()
        self._is_carried_out = is_carried_out
        self._left_count = time_count

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        if writes[0].body is not None or not self._left_count:
            return await super().write_each(writes)
        self._left_count -= 1
        if self._is_carried_out:
            await super().write_each(writes)
        raise StoreUnavailableError("gone", {"outcome": "unknown"})


@pytest.mark.parametrize("is_carried_out", [True, False])
async def test_a_connection_lost_at_the_end_is_made_good(*, is_carried_out: bool) -> None:
    store = LosesConnection(is_carried_out=is_carried_out)
    await (await MarkedTarget.begin(store, "a")).finish()
    await refuse_unfinished(store)
    assert await dump_all(store) == []


async def test_a_connection_that_stays_lost_is_reported_and_the_mark_stays() -> None:
    store = LosesConnection(is_carried_out=False, time_count=2)
    marked = await MarkedTarget.begin(store, "a")
    with pytest.raises(StoreUnavailableError):
        await marked.finish()
    with pytest.raises(CopyUnfinishedError):
        await refuse_unfinished(store)
