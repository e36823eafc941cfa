"""``rota shards`` on files."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from tests.contract.shards.factory import shards_of
from tests.unit.cli.conftest import RunRota

from rota import open_store
from rota.stores.shards.placement import Placement, choose_shard
from rota.stores.shards.view import Timing
from rota.testing import a_job
from rota.testing.job_store_fixture import NOW

NAMES = ("one", "two", "three")
SOURCE = Placement(NAMES).locate("acme")
TARGET = next(name for name in NAMES if name != SOURCE)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other process works on these stores."""
    monkeypatch.setattr(Timing, "settled_after", timedelta(0))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return shards_of(*(f"sqlite:///{tmp_path}/{name}.db" for name in NAMES))


def fill(url: str, **counts: int) -> None:
    async def run() -> None:
        async with await open_store(url) as store:
            jobs = [a_job(tenant=tenant) for tenant, count in counts.items() for _ in range(count)]
            await store.insert(jobs, NOW)

    asyncio.run(run())


def test_status_shows_what_waits_on_each_shard(rota: RunRota, url: str) -> None:
    fill(url, acme=3, b=2)
    outcome = rota("shards", "status", url)
    assert outcome.status == 0
    assert "one (home)" in outcome.out
    document = rota("shards", "status", url, "--tenants", "--json").document
    assert {each["name"]: each["due_count"] for each in document["shards"]}[SOURCE] >= 3
    assert document["tenants"][SOURCE]["acme"] == 3
    assert document["moves"] == []


def test_a_moved_tenant_is_on_its_new_shard(rota: RunRota, url: str) -> None:
    fill(url, acme=5)
    first = rota("shards", "move", "acme", TARGET, url)
    assert (first.status, first.out) == (0, f"Moved acme from {SOURCE} to {TARGET}: 5 jobs.\n")
    assert rota("shards", "move", "acme", TARGET, url).out == f"acme is on {TARGET} already.\n"
    document = rota("shards", "status", url, "--tenants", "--json").document
    assert document["tenants"] == {name: {"acme": 5} if name == TARGET else {} for name in NAMES}
    back = rota("shards", "move", "acme", SOURCE, url, "--json").document
    assert (back["is_moved"], back["job_count"], back["source"]) == (True, 5, TARGET)


def test_a_drained_shard_takes_no_new_tenants_until_it_is_added_again(
    rota: RunRota, url: str
) -> None:
    fill(url, acme=1, b=1, c=1)
    if NAMES[0] == SOURCE:
        rota("shards", "move", "acme", TARGET, url)
    drained = TARGET if NAMES[0] == SOURCE else SOURCE
    outcome = rota("shards", "drain", drained, url)
    assert outcome.status == 0
    assert outcome.out.startswith("Moved ")
    status = rota("shards", "status", url, "--tenants", "--json").document
    chosen = {each["name"]: each["takes_new_tenants"] for each in status["shards"]}
    assert chosen == {name: name != drained for name in NAMES}
    assert status["tenants"][drained] == {}
    assert rota("shards", "add", drained, url).out == f"New tenants may come to {drained}.\n"
    tenant = next(f"t{it}" for it in range(99) if choose_shard(f"t{it}", NAMES) == drained)
    fill(url, **{tenant: 1})
    status = rota("shards", "status", url, "--tenants", "--json").document
    assert status["tenants"][drained] == {tenant: 1}


def test_an_unknown_shard_is_refused(rota: RunRota, url: str, tmp_path: Path) -> None:
    outcome = rota("shards", "move", "acme", "four", url)
    assert outcome.status == 2
    assert '"four" is not a shard of this store; its shards are one, two, three' in outcome.err
    plain = rota("shards", "status", f"sqlite:///{tmp_path}/plain.db")
    assert plain.status == 2
    assert "does not begin with shards:" in plain.err
    assert not (tmp_path / "plain.db").exists()
