"""``WORKER_MAX_ATTEMPTS``: how often new jobs are tried that do not say it themselves."""

from datetime import UTC, datetime

import pytest
from tests.server.service import serve

from rota import Rota
from rota.errors import InvalidConfigurationError
from rota.jobs import RAIL_RETRIES, RetryPolicy
from rota.rail import Rail
from rota.rail.environment import with_usual_attempts
from rota.stores.memory import MemoryStore
from rota.testing import VirtualClock

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def two_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKER_MAX_ATTEMPTS", "2")


@pytest.mark.usefixtures("two_attempts")
async def test_a_rail_tries_its_jobs_as_often_as_the_environment_says() -> None:
    store = MemoryStore()
    rail = Rail(store, clock=VirtualClock(NOW))
    usual = await rail.schedule_once("a", {}, run_at=NOW)
    own = await rail.schedule_once("b", {}, run_at=NOW, retry_policy={"max_attempts": 7})
    found = await store.get("default", [usual, own])
    assert found[usual].retry_policy == RetryPolicy(
        max_attempts=2, backoff_strategy=RAIL_RETRIES.backoff_strategy
    )
    assert found[own].retry_policy.max_attempts == 7


@pytest.mark.usefixtures("two_attempts")
async def test_tasks_of_an_app_are_tried_as_often_unless_they_say_otherwise() -> None:
    app = Rota("memory://")

    @app.task
    async def usual() -> None: ...

    @app.task(retry=7)
    async def own() -> None: ...

    assert usual.options.retry == RetryPolicy(max_attempts=2)
    assert own.options.retry.max_attempts == 7


@pytest.mark.usefixtures("two_attempts")
async def test_jobs_created_over_http_are_tried_as_often() -> None:
    async with serve(MemoryStore()) as service:
        usual = await service.make_job()
        own = await service.make_job(retry_policy={"max_attempts": 7})
    assert usual["retry_policy"]["max_attempts"] == 2
    assert own["retry_policy"]["max_attempts"] == 7


def test_a_value_that_is_not_valid_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKER_MAX_ATTEMPTS", "often")
    with pytest.raises(InvalidConfigurationError, match="WORKER_MAX_ATTEMPTS must be a whole"):
        Rail(MemoryStore())


def test_without_it_each_entrance_keeps_its_specified_number() -> None:
    assert with_usual_attempts(RAIL_RETRIES, {}) == RAIL_RETRIES
    assert with_usual_attempts(RetryPolicy(), {}).max_attempts == 3
