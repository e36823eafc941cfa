"""Pollers on pages, in metrics, API and ``why``: what they hold, and what failed."""

import asyncio
from datetime import timedelta

from tests.server.service import JOBS, START, Visit, serve
from tests.unit.poller.polling import MINUTE, SECOND, ListedJobs, a_polled

from rota.errors import StoreUnavailableError
from rota.fleet.presence import GONE_AFTER, list_pollers
from rota.ops.explain import explain_job
from rota.poller import PolledJob, PolledJobs, Poller
from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentWrite
from rota.testing import VirtualClock


class Reports(ListedJobs):
    """A table of the user's own."""

    label = "table reports"


class Press:
    """A hook that fails on odd reports and waits with even ones."""

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()

    async def __call__(self, job: PolledJob) -> None:
        if job.id % 2:
            raise ValueError("out of <paper>")
        await self.goes_on.wait()


def make_poller(service: Visit, reports: Reports, press: Press) -> Poller:
    return Poller(
        reports,
        on_document=press,
        on_error=lambda _: None,
        idle_delay=SECOND,
        lock_duration=MINUTE,
        clock=service.clock,
        reports_to=service.store,
    )


async def test_a_poller_of_ones_own_table_is_shown_with_what_it_holds_and_what_failed(
    service: Visit,
) -> None:
    press = Press()
    poller = make_poller(service, Reports(a_polled(7), a_polled(8)), press)
    await poller.start()
    await service.clock.advance(3 * SECOND)
    client = service.client

    (shown,) = (await client.get("/api/v1/pollers")).json()["items"]
    assert (shown["source"], shown["processed_count"], shown["failed_count"]) == (
        "table reports", 0, 1,
    )  # fmt: skip
    assert (shown["holds"]["id"], shown["holds"]["until"]) == ("8", "2026-05-01T12:01:00Z")
    (failure,) = shown["failures"]
    assert (failure["id"], failure["error"]) == ("7", "ValueError: out of <paper>")

    page = (await client.get("/admin/workers")).text
    assert "table reports" in page
    assert "ValueError: out of &lt;paper&gt;" in page
    metrics = (await client.get("/metrics")).text
    assert 'rota_pollers{source="table reports"} 1.0' in metrics
    assert 'outcome="failed",poller="' in metrics

    held, failed = [
        await explain_job(service.store, service.clock, "default", it) for it in ("8", "7")
    ]
    assert (held.answer, failed.answer) == ("running", "failed")
    assert "processes it since" in held.sentence
    assert failed.next_at == START + MINUTE
    assert "out of <paper>" in str(failed)

    press.goes_on.set()
    await service.clock.advance(2 * SECOND)
    (shown,) = (await client.get("/api/v1/pollers")).json()["items"]
    assert (shown["processed_count"], shown["holds"]) == (1, None)
    await service.clock.run(poller.stop())
    assert (await client.get("/api/v1/pollers")).json()["items"] == []


async def test_jobs_of_a_queue_explain_themselves(service: Visit) -> None:
    jobs = PolledJobs(service.store, "mail", clock=service.clock)
    soon = await jobs.add({"n": 1}, sleep_until=START + MINUTE)
    now = await jobs.add({"n": 2})

    async def why(job_id: str) -> tuple[str, str]:
        found = (await service.client.get(f"{JOBS}/{job_id}/why")).json()
        return found["answer"], found["sentence"]

    unknown = await service.client.get(f"{JOBS}/{soon}/why")
    assert unknown.status_code == 404, "no poller has ever named the queue"
    press = Press()
    poller = Poller(
        jobs, on_document=lambda _: press.goes_on.wait(), idle_delay=SECOND, clock=service.clock
    )
    await poller.start()
    await service.clock.advance(SECOND)
    assert await why(soon) == ("will run", "It sleeps until Fri 2026-05-01 12:01:00 UTC.")
    answer, sentence = await why(now)
    assert answer == "running"
    assert "has locked it until Fri 2026-05-01 12:10:00 UTC" in sentence
    press.goes_on.set()
    await service.clock.advance(SECOND)
    assert (await why(now))[0] == "ran"
    await service.clock.run(poller.stop())


async def test_a_job_of_the_default_queue_waits_for_a_poller(service: Visit) -> None:
    job = await PolledJobs(service.store, clock=service.clock).add({})
    await service.clock.advance(MINUTE)
    answer = (await service.client.get(f"{JOBS}/{job}/why")).json()
    assert answer["answer"] == "due"
    assert [it["code"] for it in answer["reasons"]] == ["no_worker", "due"]


async def test_a_poller_that_was_killed_is_gone_after_a_while_and_swept(service: Visit) -> None:
    poller = make_poller(service, Reports(), Press())
    await poller.start()
    await service.clock.advance(SECOND)
    (sign,) = await list_pollers(service.store, service.clock.now())
    left = sign.gone_after
    body = (await service.store.read("pollers", [sign.id]))[sign.id].body
    await service.clock.run(poller.stop())
    await service.store.write_all([DocumentWrite("pollers", sign.id, None, body)])
    assert await list_pollers(service.store, sign.seen_at + left - SECOND) == [sign]
    assert await list_pollers(service.store, sign.seen_at + left) == []
    await service.clock.advance(left)
    other = make_poller(service, Reports(), Press())
    await other.start()
    await service.clock.advance(SECOND)
    kept = [document.key async for page in service.store.scan("pollers") for document in page]
    assert sign.id not in kept
    assert len(kept) == 1
    await service.clock.run(other.stop())


class MuteStore(MemoryStore):
    """Cannot be written to."""

    async def write_each(self, *_: object) -> list[int | None]:
        raise StoreUnavailableError("gone")


async def test_a_poller_polls_on_when_it_cannot_report() -> None:
    async with serve(MuteStore()) as service:
        reports = Reports(*(a_polled(2 * number) for number in range(3)))
        errors: list[BaseException] = []
        poller = Poller(
            reports,
            on_error=errors.append,
            idle_delay=SECOND,
            clock=service.clock,
            reports_to=service.store,
        )
        await poller.start()
        await service.clock.advance(timedelta(minutes=1))
        await service.clock.run(poller.stop())
    assert (len(reports.updates), errors) == (3, [])


async def test_an_idle_poller_does_not_stop_virtual_time_every_few_seconds() -> None:
    clock = VirtualClock(START)
    store = MemoryStore()
    poller = Poller(Reports(), idle_delay=timedelta(days=1), clock=clock, reports_to=store)
    await poller.start()
    await clock.advance(timedelta(hours=12))
    (sign,) = await list_pollers(store, clock.now())
    assert sign.gone_after > GONE_AFTER
    await clock.run(poller.stop())
