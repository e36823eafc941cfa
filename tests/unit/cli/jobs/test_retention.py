"""``rota retention``: shown, set and removed; and ``--keep``."""

import asyncio
from datetime import timedelta

from tests.unit.cli.conftest import NOW, RunRota

from rota import open_store
from rota.jobs import Succeeded, decide_outcome
from rota.stores.protocol import LeaseRequest
from rota.testing import a_job


async def end_a_job(days_ago: int) -> None:
    at = NOW - timedelta(days=days_ago)
    async with await open_store("sqlite:///rota.db") as store:
        await store.insert([a_job(kind="mail", due_at=at, created_at=at)], at)
        request = LeaseRequest(worker="w", limit=1, lease_for=timedelta(minutes=1))
        (leased,) = await store.lease(request, at)
        await store.apply([decide_outcome(leased, Succeeded(), at)], at)


def test_the_defaults_are_shown(rota: RunRota) -> None:
    rota("store", "migrate")
    shown = rota("retention", "show").out.splitlines()
    assert shown == [
        "Ended jobs    30d",
        "Dead letters  90d",
        "Results       with their job",
        "Attempts      with their job",
        "Audit log     365d",
        "Once-ledger   30d",
    ]


def test_a_rule_that_removes_jobs_asks_first(rota: RunRota) -> None:
    asyncio.run(end_a_job(days_ago=20))
    rule = ("retention", "set", "ended=10d", "--kind", "mail")
    assert rota(*rule, "--dry-run").out == "The rule would remove 1 job now.\n"
    refused = rota(*rule)
    assert refused.status == 2
    assert "This removes 1 job now. Add --yes to do it" in refused.err
    assert rota("retention", "show", "--json").document["items"] == []
    found = rota(*rule, "--yes", "--why", "space").out
    assert found.startswith("Rule for this tenant, kind mail: ended 10d (set ")
    assert found.endswith("by ada); it removes 1 job now.\n")
    assert "Rule for this tenant, kind mail: ended 10d" in rota("retention", "show").out


def test_a_rule_is_removed(rota: RunRota) -> None:
    asyncio.run(end_a_job(days_ago=40))
    assert rota("retention", "set", "forever", "--everywhere").status == 0
    assert rota("retention", "remove", "--everywhere").status == 2  # the default would remove it
    removed = rota("retention", "remove", "--everywhere", "--yes")
    assert removed.out == "The rule is removed.\n"
    assert rota("retention", "show", "--json").document["items"] == []


def test_an_invalid_retention_time_is_refused_with_a_reason(rota: RunRota) -> None:
    rota("store", "migrate")
    assert "ended: 'soon' is not a length of time" in rota("retention", "set", "ended=soon").err
    for command in ("work", "serve", "up"):
        refused = rota(command, "--keep", "done=1d")
        assert refused.status == 2
        assert '--keep: "done=1d" is not valid; write NAME=TIME' in refused.err
