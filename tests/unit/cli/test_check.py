"""``rota check`` on stores that are well, and on those that are not."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest
from tests.unit.cli.conftest import NOW, RunRota

from rota import open_store
from rota.jobs import Cancelled, Failed, Outcome, RetryPolicy, decide_outcome
from rota.policy.gate_settings import Scope
from rota.policy.gates import Maintenance
from rota.rail.settings import set_maintenance
from rota.scheduler.storage import SET_ASIDE
from rota.stores.opened import OpenStore
from rota.stores.protocol import DocumentWrite, LeaseRequest
from rota.testing import a_job

MINUTE = timedelta(minutes=1)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'rota.db'}"


def prepare(url: str, act: Callable[[OpenStore], Awaitable[object]]) -> None:
    async def run() -> None:
        async with await open_store(url) as store:
            await act(store)

    asyncio.run(run())


async def nothing(_: OpenStore) -> None:
    """Leave the store empty."""


async def leave_stalled(store: OpenStore) -> None:
    begun_at = NOW - 2 * MINUTE
    await store.insert([a_job(due_at=begun_at)], begun_at)
    await store.lease(LeaseRequest(worker="gone", limit=1, lease_for=MINUTE), begun_at)


def ended(outcome: Outcome, tenant: str) -> Callable[[OpenStore], Awaitable[object]]:
    async def act(store: OpenStore) -> None:
        job = a_job(tenant=tenant, due_at=NOW, retry_policy=RetryPolicy(max_attempts=1))
        await store.insert([job], NOW)
        (leased,) = await store.lease(LeaseRequest(worker="w", limit=1, lease_for=MINUTE), NOW)
        await store.apply([decide_outcome(leased, outcome, NOW)], NOW)

    return act


def test_a_store_without_worries_is_well(rota: RunRota, url: str) -> None:
    prepare(url, nothing)
    outcome = rota("check", "--store", url)
    assert (outcome.status, outcome.out) == (0, "All is well.\n")


def test_the_store_may_be_named_by_the_environment(
    rota: RunRota, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(url, leave_stalled)
    monkeypatch.setenv("ROTA_STORE", url)
    assert rota("check").status == 1


def test_stalled_jobs_are_something_to_look_at(rota: RunRota, url: str) -> None:
    prepare(url, leave_stalled)
    outcome = rota("check", "--store", url)
    assert outcome.status == 1
    expected = "1 job is stalled: its lease has run out, and no worker has rescued it\n"
    assert outcome.out == expected
    assert rota("check", "--store", url, "--stalled", "1").status == 0


def test_dead_letters_are_something_to_look_at(rota: RunRota, url: str) -> None:
    prepare(url, ended(Failed("no"), "guild-7"))
    outcome = rota("check", "--store", url)
    assert outcome.status == 1
    assert outcome.out == "1 dead letter: the job failed its last attempt\n"
    assert rota("check", "--store", url, "--dead-letters", "1").status == 0


def test_a_cancelled_job_is_not_a_dead_letter(rota: RunRota, url: str) -> None:
    prepare(url, ended(Cancelled("not wanted"), "guild-7"))
    outcome = rota("check", "--store", url, "--json")
    assert (outcome.status, outcome.document["dead_letters"]) == (0, 0)
    assert outcome.document["jobs"]["FAILED"] == 1


def test_with_tenants_named_only_dead_letters_of_theirs_count(rota: RunRota, url: str) -> None:
    prepare(url, ended(Cancelled("not wanted"), "guild-7"))
    prepare(url, ended(Failed("no"), "guild-8"))
    assert rota("check", "--store", url).status == 1
    assert rota("check", "--store", url, "--tenant", "guild-7").status == 0
    both = rota("check", "--store", url, "--tenant", "guild-7", "--tenant", "guild-8", "--json")
    assert (both.status, both.document["dead_letters"]) == (1, 1)


def test_untaken_jobs_are_late_after_a_while(rota: RunRota, url: str) -> None:
    prepare(url, lambda store: store.insert([a_job(due_at=NOW - 4 * MINUTE)], NOW))
    assert rota("check", "--store", url).status == 0
    outcome = rota("check", "--store", url, "--late-after", "200")
    assert outcome.status == 1
    assert outcome.out == "jobs are late: one is due since 2027-03-26T11:56:30Z, for 4 minutes\n"


def test_records_that_were_set_aside_are_a_finding(rota: RunRota, url: str) -> None:
    prepare(url, lambda store: store.write_all([DocumentWrite(SET_ASIDE, "a task", None, b"?")]))
    outcome = rota("check", "--store", url)
    assert outcome.status == 1
    assert "1 record is set aside" in outcome.out


def test_a_store_that_is_not_there_is_something_to_look_at_and_is_not_made(
    rota: RunRota, url: str, tmp_path: Path
) -> None:
    outcome = rota("check", "--store", url, "--json")
    assert outcome.status == 1
    assert [it["concern"] for it in outcome.document["findings"]] == ["store"]
    assert outcome.document["jobs"] is None
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_cannot_be_asked_is_at_fault(rota: RunRota) -> None:
    address = "postgresql://rota@127.0.0.1:1/rota?connect_timeout=1"
    outcome = rota("check", "--store", address, "--json")
    assert outcome.status == 6
    assert outcome.error["group"] == "store"


def test_an_address_that_names_no_store_is_bad_input(rota: RunRota) -> None:
    assert rota("check", "--store", "rota.db").status == 2


def test_programs_get_one_document(rota: RunRota, url: str) -> None:
    prepare(url, leave_stalled)
    document = rota("check", "--store", url, "--json").document
    assert document == {
        "is_well": False,
        "findings": [
            {
                "concern": "stalled",
                "count": 1,
                "text": "1 job is stalled: its lease has run out, and no worker has rescued it",
            }
        ],
        "jobs": {
            "PENDING": 0, "READY": 0, "RUNNING": 1, "COMPLETED": 0, "FAILED": 0, "BLOCKED": 0,
        },
        "dead_letters": 0,
        "stalled": 1,
        "oldest_due_seconds": 0.0,
        "set_aside": 0,
        "notes": [],
    }  # fmt: skip


def test_a_store_with_a_clock_of_its_own_is_judged_by_that(
    rota: RunRota, postgres_url: str
) -> None:
    async def leave_due(store: OpenStore) -> None:
        now = await store.read_clock()
        assert now is not None
        await store.insert([a_job(due_at=now - 4 * MINUTE)], now)

    prepare(postgres_url, leave_due)
    assert rota("check", "--store", postgres_url).status == 0
    outcome = rota("check", "--store", postgres_url, "--late-after", "200", "--json")
    assert outcome.status == 1
    assert [it["concern"] for it in outcome.document["findings"]] == ["late"]
    assert 240 <= outcome.document["oldest_due_seconds"] < 300


async def hold_back(store: OpenStore) -> None:
    await store.insert([a_job(due_at=NOW)], NOW)
    window = Maintenance(reason="moving house", who="ada", set_at=NOW - MINUTE)
    await set_maintenance(store, Scope(tenant="default"), window)


def test_jobs_that_maintenance_holds_back_have_their_own_exit_status(
    rota: RunRota, url: str
) -> None:
    prepare(url, hold_back)
    outcome = rota("check", "--store", url)
    assert outcome.status == 7
    assert outcome.out == (
        "maintenance of tenant default by ada (moving house) holds back 1 job "
        "since Fri 2027-03-26 11:59:30 UTC until it is ended\n"
    )
    answer = rota("check", "--store", url, "--json")
    assert (answer.status, answer.document["findings"][0]["concern"]) == (7, "held")
    prepare(url, leave_stalled)
    assert rota("check", "--store", url).status == 1


def test_top_names_what_holds_jobs_back(rota: RunRota, url: str) -> None:
    prepare(url, hold_back)
    lines = rota("top", "--once", "--store", url, width=200).out.splitlines()
    assert any(line.startswith("|| maintenance of tenant default by ") for line in lines)
