"""The service inside FastAPI: mounted by its lifespan, under a prefix, beside the routes there."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Annotated

import httpx2
import pytest
from fastapi import Depends, FastAPI, Header, HTTPException, Request, Response
from starlette.middleware.base import RequestResponseEndpoint

from rota import Context, Rail, Worker, open_store
from rota.auth.caller import EVERY_SCOPE
from rota.auth.tokens import TokenBook
from rota.clock import SystemClock
from rota.server import create_app

CLOCK = SystemClock()
JOBS = "/rota/api/v1/jobs"


def require_key(x_key: Annotated[str | None, Header()] = None) -> None:
    """What guards the routes of the shop; it does not guard what is mounted."""
    if x_key != "of the shop":
        raise HTTPException(403)


def make_shop(done: list[object]) -> FastAPI:
    async def confirm(context: Context) -> None:
        done.append(context.payload)

    @asynccontextmanager
    async def live(app: FastAPI) -> AsyncIterator[None]:
        async with await open_store("memory://") as store:
            book = TokenBook(store, CLOCK)
            rota = create_app(store, book)
            app.mount("/rota", rota)
            issued = await book.issue("default", EVERY_SCOPE, "keeper")
            app.state.store, app.state.token = store, issued.secret.reveal()
            worker = Worker(store, {"confirm": confirm})
            run = asyncio.create_task(worker.run())
            await CLOCK.sleep(timedelta(0))  # it begins: before that, there is nothing to stop
            try:
                yield
            finally:
                rota.state.http_leases.close()
                worker.stop()
                done.append((await run).manner)

    shop = FastAPI(lifespan=live, dependencies=[Depends(require_key)])

    @shop.post("/orders/{number}", status_code=202)
    async def take(number: int, request: Request) -> dict[str, str]:
        rail = Rail(request.app.state.store, "default")
        job_id = await rail.schedule_once("confirm", {"order": number}, run_at=CLOCK.now())
        return {"job": job_id}

    return shop


@asynccontextmanager
async def visit(shop: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    async with shop.router.lifespan_context(shop):
        transport = httpx2.ASGITransport(app=shop)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client


def bearer(shop: FastAPI) -> dict[str, str]:
    return {"Authorization": f"Bearer {shop.state.token}"}


@pytest.mark.timeout(60)
async def test_a_job_of_the_host_service_runs_and_shows_under_the_prefix() -> None:
    done: list[object] = []
    shop = make_shop(done)
    async with visit(shop) as client:
        taken = await client.post("/orders/7", headers={"X-Key": "of the shop"})
        assert taken.status_code == 202
        path = f"{JOBS}/{taken.json()['job']}"
        while (await client.get(path, headers=bearer(shop))).json()["status"] != "COMPLETED":
            await CLOCK.sleep(timedelta(milliseconds=5))
    assert done == [{"order": 7}, "finished"]


async def test_links_and_descriptions_keep_to_the_prefix() -> None:
    shop = make_shop([])
    async with visit(shop) as client:
        assert (await client.get("/rota/admin")).headers["location"] == "/rota/admin/sign-in"
        assert (await client.get("/rota/openapi.json")).json()["servers"] == [{"url": "/rota"}]
        assert list((await client.get("/openapi.json")).json()["paths"]) == ["/orders/{number}"]
        page = await client.get("/rota/admin/sign-in")
        assert 'action="/rota/admin/sign-in"' in page.text


async def test_dependencies_there_do_not_guard_what_is_mounted() -> None:
    """As the guide warns: only tokens, or a middleware, keep people out of Rota."""
    shop = make_shop([])
    async with visit(shop) as client:
        assert (await client.post("/orders/7")).status_code == 403
        assert (await client.get(JOBS, headers=bearer(shop))).status_code == 200
        assert (await client.get(JOBS)).status_code == 401


async def test_a_middleware_there_does() -> None:
    shop = make_shop([])

    @shop.middleware("http")
    async def guard(request: Request, go_on: RequestResponseEndpoint) -> Response:
        is_known = request.headers.get("x-key") == "of the shop"
        return await go_on(request) if is_known else Response(status_code=403)

    async with visit(shop) as client:
        assert (await client.get(JOBS, headers=bearer(shop))).status_code == 403
        known = bearer(shop) | {"X-Key": "of the shop"}
        assert (await client.get(JOBS, headers=known)).status_code == 200
