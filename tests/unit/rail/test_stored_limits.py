"""Limits as they are kept: set, cleared and listed, with who and why."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.errors import InvalidInputError, StaleVersionError
from rota.policy.limits import LIMIT_CHANGES, LIMITS, Limit, Rate
from rota.rail import read_audit
from rota.rail.settings import EVERYBODY, clear_limit, list_limits, set_limit
from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentWrite
from rota.testing import VirtualClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOURLY = Rate(count=5, per=timedelta(hours=1))


async def test_limits_are_listed_as_they_were_set() -> None:
    store = MemoryStore()
    limits = (
        Limit(running=9),
        Limit(queue="mail", running=2, ageing=timedelta(hours=1)),
        Limit(tenant="a", rate=HOURLY),
        Limit(tenant="a", queue="mail", running=0),
    )
    for limit in reversed(limits):
        await set_limit(store, limit)
    assert (await list_limits(store)).limits == limits


async def test_a_limit_replaces_what_held_before() -> None:
    store = MemoryStore()
    await set_limit(store, Limit(tenant="a", running=3, rate=HOURLY))
    await set_limit(store, Limit(tenant="a", running=4))
    assert (await list_limits(store)).limits == (Limit(tenant="a", running=4),)


async def test_a_limit_that_is_cleared_is_gone_and_others_stay() -> None:
    store = MemoryStore()
    await set_limit(store, Limit(tenant="a", running=3))
    await set_limit(store, Limit(tenant="a", queue="mail", running=1))
    await clear_limit(store, tenant="a")
    await clear_limit(store, tenant="a")
    assert (await list_limits(store)).limits == (Limit(tenant="a", queue="mail", running=1),)


async def test_the_audit_records_who_and_why() -> None:
    store, clock, later = MemoryStore(), VirtualClock(NOW), VirtualClock(NOW + HOURLY.per)
    limit = Limit(tenant="a", queue="mail", running=1, rate=HOURLY)
    await set_limit(store, limit, who="ann", why="too loud", clock=clock)
    await clear_limit(store, tenant="a", queue="mail", who="bob", clock=later)
    await set_limit(store, Limit(queue="mail", running=1), clock=clock)
    first, second = [entry async for entry in read_audit(store, "a")]
    assert (first.action, first.who, first.why, first.at) == ("set_limit", "ann", "too loud", NOW)
    assert first.details == {
        "queue": "mail",
        "running": 1,
        "rate": {"count": 5, "per": "PT3600S"},
    }
    assert (second.action, second.who, second.details) == ("clear_limit", "bob", {"queue": "mail"})
    assert [entry.who async for entry in read_audit(store, EVERYBODY)] == ["unknown"]


async def test_a_name_that_cannot_be_is_refused_before_anything_is_written() -> None:
    store = MemoryStore()
    with pytest.raises(InvalidInputError, match="tenant"):
        await clear_limit(store, tenant="*")
    with pytest.raises(InvalidInputError, match="queue"):
        await clear_limit(store, queue="a/b")
    with pytest.raises(InvalidInputError, match="who"):
        await set_limit(store, Limit(running=1), who="")
    assert [page async for page in store.scan(LIMITS)] == []
    assert [entry async for entry in read_audit(store, EVERYBODY)] == []


async def test_every_change_is_reported() -> None:
    store = MemoryStore()
    for count in (1, 2):
        await set_limit(store, Limit(running=count))
    await clear_limit(store)
    assert (await store.read(LIMIT_CHANGES, ["latest"]))["latest"].version == 3


async def test_unreadable_values_are_reported_and_replaced() -> None:
    store = MemoryStore()
    await store.write_all([DocumentWrite(LIMITS, "all", None, b"?")])
    assert [damage.key for damage in (await list_limits(store)).damages] == ["all"]
    await set_limit(store, Limit(running=1))
    assert await list_limits(store) == ((Limit(running=1),), ())


async def test_a_writer_that_never_gets_the_lock_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()

    async def refuse(writes: list[DocumentWrite]) -> list[None]:
        return [None for _ in writes]

    monkeypatch.setattr(store, "write_each", refuse)
    with pytest.raises(StaleVersionError):
        await set_limit(store, Limit(running=1))
