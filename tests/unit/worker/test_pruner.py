"""Jobs that ended long ago are removed, a few at a time."""

from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from tests.unit.worker.workshop import MINUTE, NOW, SECOND, HookedStore, Workshop, succeed

from rota.clock.virtual import VirtualClock
from rota.events import EntriesPruned, EventEmitter, JobsPruned
from rota.fleet.outage import Outage
from rota.jobs import Job, JobStatus
from rota.jobs.retention import DEFAULT_KEEP, FOREVER, KEEP_EVERYTHING, Keep, RetentionRule
from rota.policy.audit import AuditedAction, TenantAudit, read_audit, record_action
from rota.policy.once import Ledger
from rota.policy.retention import RETENTION, StoredRule, encode_rule, read_progress, rule_key
from rota.policy.watch import GateWatch, LimitWatch
from rota.stores.protocol import DocumentWrite, Pruned
from rota.testing import a_job
from rota.worker import WorkerSettings
from rota.worker.pruner import CLAIMED_FOR, PRUNED_AT_ONCE, RESTARTED_EVERY, Pruner
from rota.worker.registry import Registry
from rota.worker.settings import Resources

DAY = timedelta(days=1)


async def test_jobs_are_removed_when_their_time_is_over(shop: Workshop) -> None:
    shop.make_worker({"work": succeed}, WorkerSettings(retention=10 * MINUTE))
    job = await shop.add()
    later = await shop.add(due_at=NOW + 8 * MINUTE)
    shop.start()
    await shop.pass_time(9 * MINUTE)
    assert (await shop.look(job)).status is JobStatus.COMPLETED
    await shop.pass_time(3 * MINUTE)
    kept = await shop.store.get(job.tenant, [job.id, later.id])
    assert set(kept) == {later.id}
    assert [event.count for event in shop.told(JobsPruned)] == [1]


async def test_without_retention_all_are_kept(shop: Workshop) -> None:
    shop.make_worker({"work": succeed})
    job = await shop.add()
    shop.start()
    await shop.pass_time(60 * MINUTE)
    assert (await shop.look(job)).status is JobStatus.COMPLETED


async def test_many_are_removed_in_batches_with_pauses(shop: Workshop) -> None:
    pruned_at = []
    whole = shop.hooked.prune

    async def prune(*asked: Any) -> Pruned:
        pruned = await whole(*asked)
        if pruned.removed:
            pruned_at.append((shop.clock.now(), pruned.removed))
        return pruned

    shop.hooked.prune = prune  # type: ignore[method-assign,assignment]  # looked at on the way
    done = [await shop.add(status=JobStatus.READY) for _ in range(PRUNED_AT_ONCE + 1)]
    settings = WorkerSettings(batch=1_000, concurrency=1_000, retention=SECOND)
    shop.make_worker({"work": succeed}, settings)
    shop.start()
    await shop.pass_time(2 * MINUTE)
    assert [count for _, count in pruned_at] == [PRUNED_AT_ONCE, 1]
    assert pruned_at[1][0] > pruned_at[0][0]
    assert await shop.store.get("default", [job.id for job in done]) == {}


class Watched(HookedStore):
    """Notes how many jobs each prune has looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.looked: list[int] = []

    async def prune(self, ended_before: datetime, limit: int, *more: Any) -> Pruned:
        pruned = await super().prune(ended_before, limit, *more)
        self.looked.append(pruned.looked)
        return pruned


class Stage:
    """Pruners on one store, and jobs that have ended."""

    def __init__(self) -> None:
        self.clock = VirtualClock(NOW)
        self.store = Watched()
        self.events: list[Any] = []

    def make_pruner(self, keep: Keep, name: str = "one") -> Pruner:
        events = EventEmitter("rota.worker")
        events.subscribe(self.events.append)
        random, registry = Random(1), Registry(None, ())
        settings, outage = WorkerSettings(), Outage(events)
        return Pruner(
            Resources(
                self.store,
                self.clock,
                settings,
                registry,
                events,
                random,
                name,
                outage,
                GateWatch(self.store),
                LimitWatch(self.store),
            ),
            keep,
        )

    async def add(self, status: JobStatus = JobStatus.COMPLETED, **fields: Any) -> Job:
        """A job that ended now."""
        job = a_job(status=status, updated_at=self.clock.now(), **fields)
        self.store._tables.put(job)
        return job

    async def set_rule(
        self, keep: Keep, tenant: str | None = None, kind: str | None = None
    ) -> None:
        stored = StoredRule(rule=RetentionRule(tenant=tenant, kind=kind, keep=keep))
        body = encode_rule(stored)
        await self.store.write_all([DocumentWrite(RETENTION, rule_key(tenant, kind), None, body)])

    async def names(self) -> list[str]:
        return sorted(job.name for job in (await self.store.find("default", limit=100)).items)

    def pass_time(self, duration: timedelta) -> Any:
        return self.clock.advance(duration)


@pytest.fixture
def stage() -> Stage:
    return Stage()


async def test_defaults_keep_dead_letters_longer_than_ended_jobs(stage: Stage) -> None:
    await stage.add(name="done")
    await stage.add(JobStatus.FAILED, name="dead")
    await stage.add(JobStatus.READY, name="live")
    pruner = stage.make_pruner(DEFAULT_KEEP)
    await stage.pass_time(29 * DAY)
    assert await pruner.run_once()
    assert await stage.names() == ["dead", "done", "live"]
    await stage.pass_time(2 * DAY)
    assert await pruner.run_once()
    assert await stage.names() == ["dead", "live"]
    await stage.pass_time(60 * DAY)
    assert await pruner.run_once()
    assert await stage.names() == ["live"]


async def test_a_stored_rule_comes_before_the_settings_of_the_process(stage: Stage) -> None:
    for kind in ("quick", "kept", "plain"):
        await stage.add(name=kind, kind=kind)
    await stage.set_rule(Keep(ended=MINUTE), "default", "quick")
    await stage.set_rule(Keep(ended=FOREVER), None, "kept")
    pruner = stage.make_pruner(Keep(ended=DAY))
    await stage.pass_time(2 * MINUTE)
    await pruner.run_once()
    assert await stage.names() == ["kept", "plain"]
    await stage.pass_time(2 * DAY)
    await pruner.run_once()
    assert await stage.names() == ["kept"]


async def test_jobs_that_stay_are_looked_at_once_and_not_every_minute(stage: Stage) -> None:
    for number in range(20):
        await stage.add(JobStatus.FAILED, name=str(number))
    pruner = stage.make_pruner(Keep(ended=MINUTE, dead=9 * DAY))
    await stage.pass_time(2 * MINUTE)
    for _ in range(10):
        await pruner.run_once()
        await stage.pass_time(MINUTE)
    assert sum(stage.store.looked) == 20
    await stage.pass_time(RESTARTED_EVERY)
    await pruner.run_once()
    assert sum(stage.store.looked) == 40


async def test_a_changed_rule_is_applied_to_all_jobs_again(stage: Stage) -> None:
    await stage.add(name="old", kind="quick")
    pruner = stage.make_pruner(Keep(ended=3 * MINUTE, dead=MINUTE))
    await stage.pass_time(2 * MINUTE)
    await pruner.run_once()
    assert await stage.names() == ["old"]
    await stage.set_rule(Keep(ended=MINUTE), kind="quick")
    await stage.pass_time(SECOND)
    await pruner.run_once()
    assert await stage.names() == []


async def test_of_several_processes_one_works_and_another_goes_on_after_its_death(
    stage: Stage,
) -> None:
    await stage.add(name="old")
    await stage.pass_time(DAY)
    first, second = (stage.make_pruner(Keep(ended=MINUTE), name) for name in ("one", "two"))
    assert await first.run_once()
    assert not await second.run_once()
    await stage.pass_time(CLAIMED_FOR)
    assert await second.run_once()
    assert [event.count for event in stage.events if isinstance(event, JobsPruned)] == [1]
    assert (await read_progress(stage.store)).progress.removed_count == 1


async def test_nothing_is_removed_while_a_rule_cannot_be_read(stage: Stage) -> None:
    await stage.add(name="old")
    await stage.store.write_all([DocumentWrite(RETENTION, "/", None, b"{")])
    await stage.pass_time(DAY)
    assert not await stage.make_pruner(Keep(ended=MINUTE)).run_once()
    assert await stage.names() == ["old"]


async def test_long_chains_go_to_their_end_in_one_turn(stage: Stage) -> None:
    previous: tuple[str, ...] = ()
    for _ in range(PRUNED_AT_ONCE + 100):
        job = await stage.add(dependencies=previous)
        previous = (job.id,)
    await stage.pass_time(DAY)
    run = stage.clock.run(stage.make_pruner(Keep(ended=MINUTE)).run_once())
    await run
    assert await stage.names() == []


async def test_audit_entries_and_effects_go_after_their_time(stage: Stage) -> None:
    for tenant in ("default", "kept"):
        audit = TenantAudit(stage.store, tenant, stage.clock, Random(1).getrandbits)
        await record_action(audit, AuditedAction(action="cancel"))
        await Ledger(stage.store, stage.clock).confirm(tenant, "paid", 7)
    await stage.set_rule(Keep(audit=FOREVER, effects=FOREVER), "kept")
    keep = Keep(ended=DAY, dead=3 * DAY, audit=2 * DAY, effects=DAY).over(KEEP_EVERYTHING)
    pruner, ledger = stage.make_pruner(keep), Ledger(stage.store, stage.clock)
    await stage.pass_time(3 * DAY)
    await pruner.run_once()
    assert [entry async for entry in read_audit(stage.store, "default")] == []
    assert len([entry async for entry in read_audit(stage.store, "kept")]) == 1
    assert await ledger.find("default", "paid") is not None  # a dead letter may still ask for it
    await stage.pass_time(2 * DAY)
    await pruner.run_once()
    assert await ledger.find("default", "paid") is None
    assert await ledger.find("kept", "paid") is not None
    pruned = [event for event in stage.events if isinstance(event, EntriesPruned)]
    assert [(event.source, event.count) for event in pruned] == [("audit", 1), ("effects", 1)]
