"""A copy's own records are not content; they reveal one store with two names."""

import pytest

from rota.errors import InvalidInputError
from rota.ops.store_comparison import (
    PROBE,
    UNFINISHED,
    content_counts,
    refuse_same_store,
    without_traces,
)
from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentWrite, KeptDocument
from rota.testing.portable_store_contract import dump_all


def test_mark_and_probe_are_not_content() -> None:
    document = KeptDocument("tasks", "target", 1, b"")
    own = [document._replace(collection=each) for each in (UNFINISHED, PROBE)]
    assert without_traces([*own, document]) == [document]
    assert content_counts({UNFINISHED: 1, PROBE: 1, "tasks": 2, "gone": 0}) == {"tasks": 2}


async def test_two_stores_are_not_one_and_nothing_stays_behind() -> None:
    source, target = MemoryStore(), MemoryStore()
    await refuse_same_store(source, target)
    assert await dump_all(source) == await dump_all(target) == []


async def test_one_store_is_found_and_left_as_it_was() -> None:
    store = MemoryStore()
    with pytest.raises(InvalidInputError, match="the same store by two addresses"):
        await refuse_same_store(store, store)
    assert await dump_all(store) == []


async def test_leftovers_of_a_killed_copy_do_no_harm() -> None:
    source, target = MemoryStore(), MemoryStore()
    for store in (source, target):
        await store.write_each([DocumentWrite(PROBE, "target", None, b"left behind")])
    await refuse_same_store(source, target)
    assert await dump_all(target) == []
    with pytest.raises(InvalidInputError):
        await refuse_same_store(source, source)
