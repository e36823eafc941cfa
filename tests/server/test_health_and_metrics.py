"""Whether the service lives, can work, and what it tells Prometheus."""

from datetime import timedelta
from functools import partial
from pathlib import Path

from tests.server.service import Visit, serve

from rota.errors import StoreUnavailableError
from rota.events import JobsLeased
from rota.jobs import Job
from rota.runtime.wiring import inspect_store, open_store
from rota.server import ServerSettings
from rota.server.http.metrics import SURVEYED_EVERY
from rota.stores.memory import MemoryStore
from rota.stores.protocol import QueueDepth


class AwayStore(MemoryStore):
    """Cannot be reached."""

    async def get(self, *_: object) -> dict[str, Job]:
        raise StoreUnavailableError("gone")

    async def survey(self, *_: object) -> list[QueueDepth]:
        raise StoreUnavailableError("gone")


async def test_a_service_lives_and_can_work(service: Visit) -> None:
    live, ready = [await service.client.get(f"/health/{name}") for name in ("live", "ready")]
    assert (live.status_code, live.json()) == (200, {"status": "alive"})
    assert (ready.status_code, ready.json()) == (200, {"status": "ready"})


async def test_a_service_without_its_store_lives_and_cannot_work() -> None:
    async with serve(AwayStore()) as service:
        live, ready = [await service.client.get(f"/health/{name}") for name in ("live", "ready")]
        metrics = (await service.client.get("/metrics")).text
    assert live.status_code == 200
    assert (ready.status_code, ready.json()["code"]) == (503, "UNAVAILABLE")
    assert "rota_store_up 0.0" in metrics


async def test_metrics_show_queue_depths(service: Visit) -> None:
    await service.make_job(queue="mail")
    answer = await service.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert 'rota_queue_depth{queue="mail",state="due"} 1.0' in answer.text
    assert "rota_store_up 1.0" in answer.text
    assert "rota_jobs{" not in answer.text


async def test_the_store_is_not_asked_at_every_scrape(service: Visit) -> None:
    await service.client.get("/metrics")
    await service.make_job(queue="mail")
    assert 'queue="mail"' not in (await service.client.get("/metrics")).text
    await service.clock.advance(SURVEYED_EVERY)
    assert 'queue="mail"' in (await service.client.get("/metrics")).text


async def test_workers_of_the_process_are_measured_too(service: Visit) -> None:
    service.app.state.metrics.observe(JobsLeased(worker="w", count=3))
    await service.clock.advance(timedelta(seconds=1))
    assert "rota_jobs_picked_total 3.0" in (await service.client.get("/metrics")).text


async def test_jobs_are_counted_where_the_store_can_be_inspected(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'rota.db'}"
    settings = ServerSettings(inspect=partial(inspect_store, url))
    async with serve(await open_store(url), settings=settings) as service:
        await service.make_job()
        text = (await service.client.get("/metrics")).text
    assert 'rota_jobs{status="READY"} 1.0' in text
