"""``rota queues``, ``rota limits``, ``rota errors`` and ``rota tenants``."""

import asyncio

from tests.unit.cli.conftest import NOW, RunRota

from rota import Worker, open_store
from rota.telemetry.stats_recorder import StatsRecorder
from rota.testing import VirtualClock
from rota.worker import Context


def fail_jobs() -> None:
    """A worker fails the jobs of the kind "fail"."""

    async def fail(context: Context) -> None:
        raise KeyError(context.job.queue)

    async def work() -> None:
        clock = VirtualClock(NOW)
        async with await open_store("sqlite:///rota.db") as store:
            worker, stats = Worker(store, {"fail": fail}, clock=clock), StatsRecorder(store, clock)
            stats.follow(worker.events)
            await worker.run_once()
            await stats.flush()

    asyncio.run(work())


def test_a_queue_is_limited_paused_and_resumed(rota: RunRota) -> None:
    rota("jobs", "create", "a letter", "--kind", "work", "--queue", "mail")
    text = "Limit of this tenant, mail: at most 2 running, 100 starts in 1m.\n"
    assert (
        rota("limits", "set", "--queue", "mail", "--running", "2", "--rate", "100/1m").out == text
    )
    paused = rota("queues", "pause", "mail", "--why", "it is down")
    assert paused.out == "Queue mail is paused; 1 due.\n"
    header, row, count = rota("queues", "list").out.splitlines()
    assert header.split() == [
        "Queue",
        "Due",
        "Oldest",
        "Running",
        "Not",
        "due",
        "Dead",
        "Per",
        "min",
        "State",
    ]
    assert row.startswith("mail   1")
    assert row.endswith(": it is down")
    assert count == "1 queue"
    shown = rota("queues", "show", "mail").out
    assert "at most 2 running, 100 starts in 1m" in shown
    assert "a pause of queue mail of tenant default by " in rota("check").out
    assert "100 starts in 1m, paused" in rota("limits", "list").out
    assert rota("queues", "resume", "mail").out == "Queue mail is resumed; 1 due.\n"
    assert rota("limits", "clear", "--queue", "mail").out == "No limit.\n"
    assert rota("limits", "list", "--json").document["items"] == []
    rota("limits", "set", "--queue", "sms", "--running", "1")
    assert "due          0\n" in rota("queues", "show", "sms").out
    rota("gates", "maintenance", "--reason", "moving")
    entry = rota("audit", "--action", "set_maintenance").out
    assert "why: moving" in entry
    assert "null" not in entry
    assert rota("queues", "pause", "no queue").status == 2
    assert rota("queues", "show", "unknown").status == 3


def test_a_limit_of_nothing_and_a_bad_rate_are_refused(rota: RunRota) -> None:
    rota("store", "migrate")
    nothing = rota("limits", "set", "--queue", "mail")
    assert (nothing.status, nothing.err) == (
        2,
        "error: give at least one of --running, --rate and --ageing\n",
    )
    burst = rota("limits", "set", "--running", "1", "--burst", "5")
    assert (burst.status, burst.err) == (2, "error: --burst needs --rate\n")
    ageing = rota("limits", "set", "--ageing", "5x").err
    assert ageing == 'error: --ageing "5x" is not a length of time, such as 90s, 5m or 1h30m\n'
    refused = rota("limits", "set", "--rate", "often")
    assert refused.status == 2
    assert "write a count and a time, such as 100/1m" in refused.err
    assert rota("limits", "set", "--rate", "5/h", "--json").document["rate"]["per_seconds"] == 3600


def test_errors_are_listed_in_groups_and_retried_or_discarded(rota: RunRota) -> None:
    once = ("--max-attempts", "1")
    for queue in ("mail", "print"):
        rota("jobs", "create", "a job", "--kind", "fail", "--queue", queue, *once)
    fail_jobs()
    (group,) = rota("errors", "list", "--json").document["items"]
    assert (group["name"], group["count"], group["dead_count"]) == ("KeyError", 2, 2)
    listed = rota("errors", "list", "--kind", "fail").out
    assert "KeyError at jobs/test_queues.py:fail" in listed
    assert listed.endswith("1 error group\n")
    shown = rota("errors", "show", group["id"]).out
    assert "dead letters  2" in shown
    dry = rota("errors", "retry", group["id"], "--dry-run").out
    assert dry == "2 dead letters would be retried.\n"
    assert rota("errors", "retry", group["id"], "--why", "fixed").out == "2 dead letters retried.\n"
    assert rota("errors", "discard", group["id"]).out == "0 dead letters discarded.\n"
    assert rota("errors", "show", "none").status == 3


def test_tenants_are_compared(rota: RunRota) -> None:
    rota("jobs", "create", "a job", "--kind", "fail", "--tenant", "acme")
    fail_jobs()
    items = rota("tenants", "--json").document["items"]
    assert {it["tenant"]: it["failed"] for it in items} == {"acme": 1, "default": 0}
    assert rota("tenants", "--hours", "24").out.endswith("2 tenants\n")
    assert rota("tenants", "--tenant", "acme").status == 5
