"""While nothing is due and nobody writes, asking for jobs leaves the file alone."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import apsw
import pytest

from rota.errors import StoreUnavailableError
from rota.stores.sqlite.connection import SqliteSettings
from rota.stores.sqlite.jobs import reading
from rota.stores.sqlite.jobs.leasing import lulls
from rota.stores.sqlite.jobs.leasing.lulls import Lull, Lulls, make_choice
from rota.stores.sqlite.store import SqliteStore
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import DAY, MINUTE, NOW, SECOND, names, take

ALL = make_choice(None, None)


async def test_in_a_lull_a_lease_needs_no_lock(
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


async def test_a_lull_is_found_again_without_a_look(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.insert([a_job(due_at=NOW + DAY)], NOW)
    await store.next_due_at(NOW, ["default", "other"])
    monkeypatch.delattr(reading, "next_due_at")
    assert await store.next_due_at(NOW + MINUTE, ["other", "default"]) == NOW + DAY
    with pytest.raises(AttributeError):
        await store.next_due_at(NOW + DAY, ["default", "other"])


async def test_a_lull_ends_when_the_next_job_is_due(store: SqliteStore) -> None:
    await store.insert([a_job(name="next", due_at=NOW + SECOND)], NOW)
    assert await store.next_due_at(NOW) == NOW + SECOND
    assert await take(store) == []
    assert names(await take(store, NOW + SECOND)) == ["next"]


async def test_a_lull_ends_when_this_store_writes(store: SqliteStore) -> None:
    assert await store.next_due_at(NOW) is None
    await store.insert([a_job(name="new")], NOW)
    assert await store.next_due_at(NOW) == NOW
    assert names(await take(store)) == ["new"]


async def test_a_lull_ends_when_another_store_writes(
    store: SqliteStore, sqlite_settings: SqliteSettings
) -> None:
    async with await SqliteStore.open(sqlite_settings) as other:
        assert await store.next_due_at(NOW) is None
        assert await take(store) == []
        await other.insert([a_job(name="new")], NOW)
        assert names(await take(store)) == ["new"]


async def test_what_is_written_while_a_lull_is_looked_for_is_found(
    store: SqliteStore, reach_in: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.insert([a_job(name="moved", due_at=NOW + DAY)], NOW)
    look = reading.next_due_at

    def look_too_early(*arguments: Any) -> datetime | None:
        found = look(*arguments)
        reach_in("UPDATE jobs SET due_at = 0")
        return found

    monkeypatch.setattr(reading, "next_due_at", look_too_early)
    assert await store.next_due_at(NOW) == NOW + DAY
    assert names(await take(store)) == ["moved"]


async def test_the_lull_of_one_choice_is_not_that_of_another(store: SqliteStore) -> None:
    await store.insert([a_job(name="there", queue="b", tenant="y")], NOW)
    assert await store.next_due_at(NOW, ["a"]) is None
    assert await store.next_due_at(NOW, None, ["x"]) is None
    assert await take(store, queues=["a"]) == []
    assert await take(store, tenants=["x"]) == []
    assert names(await take(store, queues=["a", "b"])) == ["there"]


async def test_it_is_no_lull_when_something_is_due(store: SqliteStore) -> None:
    """A clock that was set back would find it due all the same."""
    await store.insert([a_job(name="due")], NOW)
    assert await store.next_due_at(NOW + DAY) == NOW + DAY
    assert names(await take(store, NOW + MINUTE)) == ["due"]


async def test_without_a_version_the_file_is_looked_at(store: SqliteStore) -> None:
    assert await store.next_due_at(NOW) is None
    store._reader._watch.close()
    assert await store.next_due_at(NOW) is None
    await store.insert([a_job(name="new")], NOW)
    assert names(await take(store)) == ["new"]


def test_so_many_choices_are_remembered_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lulls, "MOST_CHOICES", 2)
    known = Lulls()
    for queue in "abc":
        known.note(1, make_choice([queue], None), Lull(None), NOW)
    found = [known.find(1, make_choice([queue], None), NOW) for queue in "abc"]
    assert found == [None, None, Lull(None)]


def test_the_lulls_of_another_version_are_forgotten() -> None:
    known = Lulls()
    known.note(1, ALL, Lull(NOW + DAY), NOW)
    assert known
    assert known.find(2, ALL, NOW) is None
    assert not known
    assert known.find(1, ALL, NOW) is None
