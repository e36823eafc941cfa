"""``rota workers``, ``rota kinds`` and ``rota audit`` on a store."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from secrets import randbits

import pytest
from tests.unit.cli.conftest import NOW, Outcome, RunRota

from rota import Worker, WorkerSettings, open_store
from rota.clock.loop import turn
from rota.fleet.presence import list_workers
from rota.kinds import BUILT_IN
from rota.policy.audit import AuditedAction, TenantAudit, record_action
from rota.testing import VirtualClock
from rota.worker import Context
from rota.worker.registry import Work


def look_while_a_worker_runs(
    rota: RunRota, *commands: tuple[str, ...], also: Mapping[str, Work] | None = None
) -> list[Outcome]:
    """Run the commands while a worker has started a job of the kind "hold"."""

    async def work() -> list[Outcome]:
        clock, started, finish = VirtualClock(NOW), asyncio.Event(), asyncio.Event()

        async def hold(_context: Context) -> None:
            started.set()
            await finish.wait()

        settings = WorkerSettings(concurrency=3, queues=["mail"], labels=["v2"])
        async with await open_store("sqlite:///rota.db") as store:
            worker = Worker(store, {"hold": hold, **(also or {})}, clock=clock, settings=settings)
            running = asyncio.create_task(worker.run())
            await started.wait()
            while not await list_workers(store, NOW):
                await turn()
            looked = [await asyncio.to_thread(rota, *argv) for argv in commands]
            finish.set()
            worker.stop()
            await running
        return looked

    return asyncio.run(work())


def test_workers_are_listed_with_what_they_take_and_how_busy_they_are(rota: RunRota) -> None:
    rota("jobs", "create", "a letter", "--kind", "hold", "--queue", "mail")
    listed, document = look_while_a_worker_runs(rota, ("workers",), ("workers", "--json"))
    header, row, count = listed.out.splitlines()
    assert header.split() == [
        "Worker",
        "Host",
        "Version",
        "Running",
        "Seen",
        "Started",
        "Queues",
        "Labels",
        "Kinds",
    ]
    assert row.split()[3:] == ["1/3", "0s", "ago", "0s", "ago", "mail", "v2", "hold"]
    assert count == "1 worker"
    (worker,) = document.document["items"]
    assert (worker["busy_count"], worker["labels"]) == (1, ["v2"])
    assert row.split()[:2] == [worker["id"], worker["host"]]
    assert rota("workers").out == "0 workers\n"  # it has withdrawn its sign


def test_kinds_are_listed_with_the_fields_of_their_payloads(rota: RunRota) -> None:
    rota("jobs", "create", "a letter", "--kind", "hold", "--queue", "mail")
    commands = (("kinds", "list"), ("kinds", "show", "log.message"), ("kinds", "show", "unknown"))
    also = {"log.message": BUILT_IN["log.message"]}
    listed, shown, unknown = look_while_a_worker_runs(rota, *commands, also=also)
    rows = {line.split()[0]: line.split() for line in listed.out.splitlines()}
    assert rows["log.message"][1:] == [
        *("yes", "default", "5", "no"),
        *("message", "level", "fields", "-"),
    ]
    assert listed.out.splitlines()[-1].endswith(" kinds")
    assert "Served by a worker now    yes\n" in shown.out
    assert "Payload, as JSON Schema:" in shown.out
    assert "About" not in shown.out
    assert (unknown.status, unknown.out) == (3, "")


def record(*actions: str) -> None:
    """Entries of the audit log, a minute apart, the last one now."""

    async def write() -> None:
        async with await open_store("sqlite:///rota.db") as store:
            for ago, action in enumerate(reversed(actions)):
                clock = VirtualClock(NOW - timedelta(minutes=ago))
                around = TenantAudit(store, "default", clock, randbits)
                await record_action(around, AuditedAction(action=action, who="bob"))

    asyncio.run(write())


def test_the_newest_entries_of_the_audit_log_come_first(rota: RunRota) -> None:
    record("first", "second", "third")
    items = rota("audit", "--json").document["items"]
    assert [it["action"] for it in items] == ["third", "second", "first"]
    lines = rota("audit", "--limit", "2", "--zone", "Asia/Tokyo").out.splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["When", "Who", "Action", "Jobs", "Details"],
        ["Fri", "2027-03-26", "21:00:30", "JST", "bob", "third", "-", "-"],
        ["Fri", "2027-03-26", "20:59:30", "JST", "bob", "second", "-", "-"],
    ]
    assert lines[3] == "2 entries; there are more, see --limit"
    assert rota("audit", "--limit", "1").out.splitlines()[2].startswith("1 entry; there are more")


def test_an_entry_names_who_did_what_to_which_jobs_and_why(
    rota: RunRota, created: Callable[..., str]
) -> None:
    job_id = created("a letter", "--queue", "mail")
    rota("queues", "pause", "mail", "--why", "it is \x1b[31mdown")
    rota("jobs", "cancel", job_id, "--why", "sent by hand")
    paused, cancelled = sorted(rota("audit").out.splitlines()[1:3], key=lambda row: job_id in row)
    assert "  ada  pause_queue  " in paused
    assert paused.endswith("  why: it is \\x1b[31mdown, queue: mail")
    assert f"  {job_id}  why: sent by hand, " in cancelled
    narrow = rota("audit", width=80).out.splitlines()
    assert max(map(len, narrow)) <= 80
    assert any(line.startswith(f"    {job_id}") for line in narrow)
    for name in ("a", "b"):
        created(name, "--queue", "post")
    rota("jobs", "bulk", "act", "cancel", "--queue", "post", "--yes")
    assert " and 1 more  " in rota("audit", "--action", "bulk_cancel").out


def test_the_audit_log_is_filtered_by_action_and_job(
    rota: RunRota, created: Callable[..., str]
) -> None:
    job_id, other = created("a letter"), created("another")
    for each in (job_id, other):
        rota("jobs", "cancel", each)
    rota("queues", "pause", "mail")
    (paused,) = rota("audit", "--action", "pause_queue", "--json").document["items"]
    assert paused["details"] == {"queue": "mail"}
    (cancelled,) = rota("audit", "--job", job_id, "--json").document["items"]
    assert cancelled["job_ids"] == [job_id]
    assert rota("audit", "--action", "pause_queue", "--job", job_id).out == "0 entries\n"
    assert rota("audit", "--tenant", "acme").out == "0 entries\n"


def test_a_beginning_names_a_job_and_the_whole_id_a_deleted_one(
    rota: RunRota, created: Callable[..., str]
) -> None:
    job_id = created("a letter")
    rota("jobs", "cancel", job_id)
    assert rota("audit", "--job", job_id[:13]).out.endswith("\n1 entry\n")
    rota("jobs", "delete", job_id)
    assert rota("audit", "--job", job_id).out.endswith("\n2 entries\n")
    assert rota("audit", "--job", job_id[:13]).status == 3


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--job", "no id"), '--job "no id" is not a job id'),
        (("--limit", "0"), "--limit"),
        (("--zone", "Mars"), "Mars"),
    ],
)
def test_bad_options_of_audit_are_refused(rota: RunRota, argv: tuple[str, str], words: str) -> None:
    rota("store", "migrate")
    refused = rota("audit", *argv)
    assert refused.status == 2
    assert words in refused.err
