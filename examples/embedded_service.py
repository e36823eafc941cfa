"""A shop with Rota inside: its own routes, and Rota's API and pages under /rota.

Worker and scheduler start and stop with the service. ``uvicorn embedded_service:shop`` serves it on
a SQLite file. Here everything runs in one process with a virtual clock and a store in memory, so an
evening passes at once.

It prints:

    an order is taken: 202
    Mon 18:00 order 7 is confirmed
    Rota without a token: 401
    Rota with a token: confirm is COMPLETED
    Mon 19:00 the report of the day is sent
    workers: 1
    all is stopped
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from rota import Context, Rail, Scheduler, Worker, open_store
from rota.auth.caller import Scope
from rota.auth.tokens import TokenBook
from rota.clock import Clock, SystemClock
from rota.server import create_app
from rota.stores.opened import OpenStore
from rota.telemetry.stats_recorder import StatsRecorder
from rota.testing import VirtualClock
from rota.worker import list_workers

MONDAY = datetime(2027, 6, 7, 18, 0, tzinfo=UTC)


def make_shop(address: str, clock: Clock) -> Starlette:
    """The service. It opens nothing before it starts."""

    async def take_order(request: Request) -> JSONResponse:
        order = await request.json()
        rail = Rail(request.app.state.store, "default", clock=clock)
        job_id = await rail.schedule_once("confirm", order, run_at=clock.now())
        return JSONResponse({"job": job_id}, status_code=202)

    async def confirm(context: Context) -> None:
        print(f"{clock.now():%a %H:%M} order {context.payload['order']} is confirmed")

    async def send_report() -> None:
        print(f"{clock.now():%a %H:%M} the report of the day is sent")

    @asynccontextmanager
    async def live(app: Starlette) -> AsyncIterator[None]:
        async with await open_store(address) as store:
            rota = create_app(store, TokenBook(store, clock), clock=clock)
            app.mount("/rota", rota)
            app.state.store = store
            worker = Worker(store, {"confirm": confirm}, clock=clock)
            rota.state.metrics.follow(worker.events)
            scheduler = Scheduler(store, clock=clock, zone=UTC)
            report = ("report", "0 19 * * *", send_report, timedelta(minutes=5))
            await scheduler.initialize([report])
            async with working(worker, StatsRecorder(store, clock)):
                yield
                rota.state.http_leases.close()  # ends requests that wait for jobs
            await scheduler.stop()

    return Starlette(routes=[Route("/orders", take_order, methods=["POST"])], lifespan=live)


@asynccontextmanager
async def working(worker: Worker, tally: StatsRecorder) -> AsyncIterator[None]:
    """Run the worker and count its outcomes for the pages; at the end, let it finish first."""
    tally.follow(worker.events)
    run, count = asyncio.create_task(worker.run()), asyncio.create_task(tally.run())
    try:
        yield
    finally:
        worker.stop()
        await asyncio.wait({run})
        count.cancel()
        await asyncio.wait({count})


shop = make_shop("sqlite:///shop.db", SystemClock())


async def visit(app: Starlette, store: OpenStore, clock: VirtualClock) -> None:
    issued = await TokenBook(store, clock).issue("default", [Scope.READ], "the shop's keeper")
    token = {"Authorization": f"Bearer {issued.secret.reveal()}"}
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        taken = await client.post("/orders", json={"order": 7})
        print("an order is taken:", taken.status_code)
        await clock.advance(timedelta(seconds=1))
        refused = await client.get("/rota/api/v1/jobs")
        print("Rota without a token:", refused.status_code)
        found = (await client.get("/rota/api/v1/jobs", headers=token)).json()["items"]
        print("Rota with a token:", found[0]["name"], "is", found[0]["status"])
    await clock.advance(timedelta(hours=1))


async def main() -> None:
    clock = VirtualClock(MONDAY)
    app = make_shop("memory://", clock)
    async with app.router.lifespan_context(app):
        store = app.state.store
        await visit(app, store, clock)
        print("workers:", len(await list_workers(store, clock.now())))
    print("all is stopped")


if __name__ == "__main__":
    asyncio.run(main())
