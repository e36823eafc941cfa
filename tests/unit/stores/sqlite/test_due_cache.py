"""While nothing is due or written, asking for jobs does not touch the file."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import apsw
import pytest

from rota.errors import StoreUnavailableError
from rota.stores.sqlite import read
from rota.stores.sqlite.connection import SqliteSettings
from rota.stores.sqlite.read import DueCache, NextDue, make_choice
from rota.stores.sqlite.store import SqliteStore
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import DAY, MINUTE, NOW, SECOND, names, take

ALL = make_choice(None, None)


async def test_a_lease_needs_no_lock_while_nothing_is_due(
    store: SqliteStore, held_lock: Callable[[], apsw.Connection]
) -> None:
    await store.insert([a_job(due_at=NOW + DAY)], NOW)
    lock = held_lock()
    with pytest.raises(StoreUnavailableError):
        await take(store)
    assert await store.next_due_at(NOW) == NOW + DAY
    assert await take(store) == []
    assert await take(store, NOW - DAY) == []
    assert await take(store, NOW + DAY - SECOND) == []
    with pytest.raises(StoreUnavailableError):
        await take(store, NOW + DAY)
    lock.close()


async def test_the_next_due_time_is_not_read_twice(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.insert([a_job(due_at=NOW + DAY)], NOW)
    await store.next_due_at(NOW, ["default", "other"])
    monkeypatch.setattr(read.Reads, "next_due_at", None)
    assert await store.next_due_at(NOW + MINUTE, ["other", "default"]) == NOW + DAY
    with pytest.raises(TypeError):
        await store.next_due_at(NOW + DAY, ["default", "other"])


async def test_the_next_job_is_leased_when_it_is_due(store: SqliteStore) -> None:
    await store.insert([a_job(name="next", due_at=NOW + SECOND)], NOW)
    assert await store.next_due_at(NOW) == NOW + SECOND
    assert await take(store) == []
    assert names(await take(store, NOW + SECOND)) == ["next"]


async def test_a_write_of_this_store_ends_the_cache(store: SqliteStore) -> None:
    assert await store.next_due_at(NOW) is None
    await store.insert([a_job(name="new")], NOW)
    assert await store.next_due_at(NOW) == NOW
    assert names(await take(store)) == ["new"]


async def test_a_write_of_another_store_ends_the_cache(
    store: SqliteStore, sqlite_settings: SqliteSettings
) -> None:
    async with await SqliteStore.open(sqlite_settings) as other:
        assert await store.next_due_at(NOW) is None
        assert await take(store) == []
        await other.insert([a_job(name="new")], NOW)
        assert names(await take(store)) == ["new"]


async def test_a_write_during_the_look_is_found(
    store: SqliteStore, reach_in: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.insert([a_job(name="moved", due_at=NOW + DAY)], NOW)
    look = read.Reads.next_due_at

    async def look_too_early(*arguments: Any) -> datetime | None:
        found = await look(*arguments)
        reach_in("UPDATE jobs SET due_at = 0")
        return found

    monkeypatch.setattr(read.Reads, "next_due_at", look_too_early)
    assert await store.next_due_at(NOW) == NOW + DAY
    assert names(await take(store)) == ["moved"]


async def test_each_choice_has_its_own_due_time(store: SqliteStore) -> None:
    await store.insert([a_job(name="there", queue="b", tenant="y")], NOW)
    assert await store.next_due_at(NOW, ["a"]) is None
    assert await store.next_due_at(NOW, None, ["x"]) is None
    assert await take(store, queues=["a"]) == []
    assert await take(store, tenants=["x"]) == []
    assert names(await take(store, queues=["a", "b"])) == ["there"]


async def test_a_due_job_is_not_cached(store: SqliteStore) -> None:
    """A clock that was set back would find it due all the same."""
    await store.insert([a_job(name="due")], NOW)
    assert await store.next_due_at(NOW + DAY) == NOW + DAY
    assert names(await take(store, NOW + MINUTE)) == ["due"]


async def test_without_a_version_the_file_is_read(store: SqliteStore) -> None:
    assert await store.next_due_at(NOW) is None
    store._reader._watch.close()
    assert await store.next_due_at(NOW) is None
    await store.insert([a_job(name="new")], NOW)
    assert names(await take(store)) == ["new"]


def test_the_number_of_remembered_choices_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MOST_CHOICES", 2)
    known = DueCache()
    for queue in "abc":
        known.put(1, make_choice([queue], None), NextDue(None), NOW)
    found = [known.find(1, make_choice([queue], None), NOW) for queue in "abc"]
    assert found == [None, None, NextDue(None)]


def test_a_new_version_empties_the_cache() -> None:
    known = DueCache()
    known.put(1, ALL, NextDue(NOW + DAY), NOW)
    assert known.found
    assert known.find(2, ALL, NOW) is None
    assert not known.found
    assert known.find(1, ALL, NOW) is None
