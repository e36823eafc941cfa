"""Where tenants lie, and which stores may be opened together."""

from collections import Counter
from collections.abc import Mapping

import pytest

from rota.errors import InvalidInputError, StoreDamagedError
from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentWrite
from rota.stores.shards.placement import COLLECTION, PLACEMENT, Placement
from rota.stores.shards.view import join

NAMES = ("one", "two", "three")
TENANTS = [f"tenant-{number}" for number in range(3_000)]


def some_stores(*names: str) -> Mapping[str, MemoryStore]:
    return {name: MemoryStore() for name in names}


def test_tenants_spread_evenly() -> None:
    counts = Counter(Placement(NAMES).locate(tenant) for tenant in TENANTS)
    assert all(900 < counts[name] < 1_100 for name in NAMES)


def test_the_order_of_the_names_does_not_matter() -> None:
    one, other = Placement(NAMES), Placement(NAMES[::-1])
    assert [one.locate(each) for each in TENANTS] == [other.locate(each) for each in TENANTS]


def test_a_new_shard_takes_only_its_own_part() -> None:
    before, after = Placement(NAMES), Placement((*NAMES, "four"))
    moved = [each for each in TENANTS if before.locate(each) != after.locate(each)]
    assert {after.locate(each) for each in moved} == {"four"}
    assert 650 < len(moved) < 850


def test_an_exception_wins() -> None:
    tenant = "acme"
    elsewhere = next(name for name in NAMES if name != Placement(NAMES).locate(tenant))
    assert Placement(NAMES, {tenant: elsewhere}).locate(tenant) == elsewhere


async def test_shards_are_known_again() -> None:
    stores = some_stores(*NAMES)
    assert await join(stores) == await join(stores) == Placement(NAMES)


async def test_the_order_of_the_other_shards_may_change() -> None:
    stores = some_stores(*NAMES)
    await join(stores)
    turned = {name: stores[name] for name in ("one", "three", "two")}
    assert (await join(turned)).hashed == NAMES


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda it: {"one": it["one"], "two": it["three"], "three": it["two"]}, 'is shard "three"'),
        (
            lambda it: {"two": it["two"], "one": it["one"], "three": it["three"]},
            'home shard is "one"',
        ),
        (lambda it: {"one": it["one"], "two": it["two"]}, "shards are missing: three"),
        (lambda it: {**it, "two": it["one"]}, 'the store named "two" is shard "one"'),
    ],
)
async def test_stores_that_do_not_belong_together_are_refused(change: object, reason: str) -> None:
    stores = some_stores(*NAMES)
    await join(stores)
    with pytest.raises(InvalidInputError, match="not the shards of one store") as refusal:
        await join(change(stores))  # type: ignore[operator]  # one of the functions above
    assert reason in str(refusal.value)


async def test_a_placement_that_cannot_be_read_is_reported() -> None:
    stores = some_stores(*NAMES)
    await stores["one"].write_each([DocumentWrite(COLLECTION, PLACEMENT, None, b"?")])
    with pytest.raises(StoreDamagedError, match="placement"):
        await join(stores)
