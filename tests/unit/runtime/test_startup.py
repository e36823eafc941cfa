"""A whole runtime, as a plan describes it, on a store in memory and under made-up time."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest

from rota.auth.tokens import is_well_formed
from rota.errors import AddressUnusableError, InvalidConfigurationError, InvalidStoreUrlError
from rota.events import Event, JobSettled, JobStalled
from rota.jobs import JobStatus
from rota.kinds import BUILT_IN
from rota.runtime.configuration import Webhook
from rota.runtime.engines import WorkPlan
from rota.runtime.plan import Binding, Reporter, RuntimePlan, TaskPlan, listen_on
from rota.runtime.startup import open_runtime, show_address
from rota.runtime.web import REFUSES_ALL, UNENCRYPTED
from rota.runtime.wiring import inspect_store, open_store
from rota.stores.protocol import LeaseRequest
from rota.testing import VirtualClock, a_job

NOW = datetime(2027, 3, 26, 12, tzinfo=UTC)


class Ear:
    """Hears everything that a runtime has to say."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.events: list[Event] = []
        self.tokens: list[str] = []
        self.reporter = Reporter(self.said.append, self.events.append, self.tokens.append)

    @property
    def url(self) -> str:
        (line,) = [line for line in self.said if line.startswith("Pages: ")]
        return line.removeprefix("Pages: ").removesuffix("/admin")


@pytest.fixture
def ear() -> Ear:
    return Ear()


async def test_a_webhook_that_may_not_be_called_is_refused_before_a_store_is_made(
    ear: Ear, tmp_path: Path
) -> None:
    plan = RuntimePlan(
        store_url=f"sqlite:///{tmp_path}/rota.db",
        binding=Binding(port=0),
        work=WorkPlan(built_in=BUILT_IN),
        webhook=Webhook("http://127.0.0.1/alerts"),
    )
    with pytest.raises(InvalidConfigurationError, match="alert-webhook url must begin with https"):
        async with open_runtime(plan, ear.reporter):
            pass
    assert (ear.said, ear.tokens) == ([], [])
    assert not (await inspect_store(plan.store_url)).exists


async def test_a_new_store_is_given_a_token_and_a_first_job_that_runs(ear: Ear) -> None:
    clock = VirtualClock(NOW)
    plan = RuntimePlan(
        store_url="memory://",
        binding=Binding(port=0),
        work=WorkPlan(built_in=BUILT_IN),
        tasks=TaskPlan(lambda _store, _clock: [], UTC),
        greets=True,
    )
    async with open_runtime(plan, ear.reporter, clock) as runtime:
        (token,) = ear.tokens
        assert is_well_formed(token)
        assert not any(token in line for line in ear.said)
        running = asyncio.create_task(runtime.run())
        await clock.advance(timedelta(seconds=5))
        headers = {"authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(base_url=ear.url, headers=headers, trust_env=False) as web:
            ready = await web.get("/health/ready")
            jobs = await web.get("/api/v1/jobs")
            metrics = await web.get("/metrics")
            audit = await web.get("/api/v1/audit")
        runtime.stop()
        await clock.advance(timedelta(seconds=5))
        await running
    assert (ready.status_code, ready.json()["status"]) == (200, "ready")
    (job,) = jobs.json()["items"]
    assert (job["kind"], job["status"]) == ("log.message", "COMPLETED")
    (act,) = audit.json()["items"]
    assert (act["action"], act["who"]) == ("token.issue", "rota up")
    assert act["why"] == "the store had no token"
    assert 'rota_jobs_succeeded_total{kind="log.message",queue="default"} 1.0' in metrics.text
    assert [event.kind for event in ear.events if isinstance(event, JobSettled)] == ["log.message"]


async def test_a_process_that_only_serves_rescues_jobs_of_lost_workers(
    ear: Ear, tmp_path: Path
) -> None:
    url, clock, job = f"sqlite:///{tmp_path}/rota.db", VirtualClock(NOW), a_job(due_at=NOW)
    wish = LeaseRequest(worker="w", limit=1, lease_for=timedelta(seconds=10))
    async with await open_store(url) as store:
        await store.insert([job], NOW)
        assert await store.lease(wish, NOW)
        async with open_runtime(
            RuntimePlan(store_url=url, binding=Binding(port=0)), ear.reporter, clock
        ) as runtime:
            running = asyncio.create_task(runtime.run())
            await clock.advance(timedelta(seconds=60))
            runtime.stop()
            await clock.advance(timedelta(seconds=5))
            await running
        kept = (await store.get(job.tenant, [job.id]))[job.id]
    assert (kept.status, kept.loss_count) == (JobStatus.READY, 1)
    assert [event.job_id for event in ear.events if isinstance(event, JobStalled)] == [job.id]


async def test_a_connection_without_a_handshake_is_refused(ear: Ear) -> None:
    plan = RuntimePlan(store_url="memory://", binding=Binding(port=0))
    clock = VirtualClock(NOW)
    async with open_runtime(plan, ear.reporter, clock) as runtime:
        running = asyncio.create_task(runtime.run())
        await clock.advance(timedelta(seconds=1))
        async with httpx2.AsyncClient(base_url=ear.url, trust_env=False) as web:
            answer = await web.get("/api/v1/jobs")
        runtime.stop()
        await clock.advance(timedelta(seconds=1))
        await running
    assert answer.status_code == 401
    assert ear.tokens == []
    assert REFUSES_ALL in ear.said
    assert UNENCRYPTED not in ear.said


async def test_listening_for_other_hosts_warns_about_encryption(ear: Ear) -> None:
    plan = RuntimePlan(store_url="memory://", binding=Binding(host="0.0.0.0", port=0))  # noqa: S104 - the point
    async with open_runtime(plan, ear.reporter, VirtualClock(NOW)):
        pass
    assert UNENCRYPTED in ear.said


async def test_a_taken_port_is_reported_before_the_store_opens(ear: Ear) -> None:
    with listen_on(Binding(port=0)).socket as taken:
        binding = Binding(port=taken.getsockname()[1])
        plan = RuntimePlan(store_url="sqlite:///never-made.db", binding=binding)
        with pytest.raises(AddressUnusableError):
            async with open_runtime(plan, ear.reporter):
                pass
    assert ear.said == []


async def test_a_store_that_is_none_leaves_the_port_free(ear: Ear) -> None:
    with listen_on(Binding(port=0)).socket as found:
        port = found.getsockname()[1]
    plan = RuntimePlan(store_url="nowhere://", binding=Binding(port=port))
    with pytest.raises(InvalidStoreUrlError):
        async with open_runtime(plan, ear.reporter):
            pass
    listen_on(Binding(port=port)).socket.close()


def test_an_address_is_shown_without_what_must_not_be_seen() -> None:
    shown = show_address("postgresql://rota:secret@db.example/rota?sslpassword=other")
    assert "secret" not in shown
    assert "other" not in shown
    assert "db.example/rota" in shown
