"""The page of shards, as it is sent."""

from collections.abc import AsyncIterator

import httpx2
import pytest
from tests.contract.shards.factory import open_over_memory
from tests.server.pages.conftest import START, Knock

from rota.stores.opened import OpenStore
from rota.stores.shards.placement import Move
from rota.stores.shards.store import ShardedStore
from rota.testing import a_job


@pytest.fixture
async def store() -> AsyncIterator[OpenStore]:
    async with await open_over_memory() as opened:
        yield opened


@pytest.fixture
async def pages(knock: Knock) -> httpx2.AsyncClient:
    return knock()


async def test_the_page_lists_shards_with_their_depth(
    store: ShardedStore, pages: httpx2.AsyncClient
) -> None:
    await store.insert([a_job(tenant="a", due_at=START) for _ in range(41)], START)
    page = (await pages.get("/admin/shards")).text
    rows = [row for row in page.split("</tr>") if 'class="title"' in row]
    assert [">one<" in row for row in rows] == [True, False, False]
    (row,) = [row for row in rows if f">{store.shard_of('a')}<" in row]
    assert '<td data-label="Due" class="number">41</td>' in row
    assert sum(">41<" in each for each in rows) == 1
    (home,) = [row for row in rows if f">{store.shard_of('default')}<" in row]
    assert "default" in home


async def test_the_page_shows_tenants_that_move(
    store: ShardedStore, pages: httpx2.AsyncClient
) -> None:
    move = Move("three", "one", "somebody", START, START, phase="frozen")
    await store.view.change(lambda known: known.with_move("acme", move))
    page = (await pages.get("/admin/shards")).text
    assert "<strong>acme</strong> moves from three to one: frozen" in page
    assert "rota shards move acme one" in page


async def test_only_those_who_run_the_installation_see_it(knock: Knock) -> None:
    reader = knock("read+operate")
    await reader.post("/admin/sign-in", data={"token": "read+operate"})
    assert (await reader.get("/admin/shards")).status_code == 403


async def test_the_tenants_page_leads_to_the_shards(pages: httpx2.AsyncClient) -> None:
    assert 'href="/admin/shards"' in (await pages.get("/admin/tenants")).text
