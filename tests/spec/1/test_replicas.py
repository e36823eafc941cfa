"""Several instances on one store: each occurrence once, and orphans only of the dead."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from tests.spec.stage import SpyStore, Stage, at, minutes, polling_state_of, seconds

from rota import POLLING, Scheduler, SchedulerPolicy, SchedulerSettings, open_store
from rota.events import TaskOrphaned, TaskRunDiscarded, TaskSkipped
from rota.scheduler import PollingState
from rota.stores.protocol import DocumentStore

HOUR = timedelta(hours=1)
WATCHFUL = SchedulerSettings(peers_checked_every=minutes(1), peer_silent_for=minutes(3))
PEER_CHECK = WATCHFUL.peers_checked_every


class Fleet(Stage):
    """A stage on which every instance opens the store for itself, where it can be opened twice."""

    def __init__(self, stores: list[DocumentStore]) -> None:
        super().__init__(stores[0])
        self._stores = iter([*stores] * 3)

    def instance(self, policy: SchedulerPolicy = POLLING) -> Scheduler:
        return self.scheduler(policy, store=next(self._stores), settings=WATCHFUL)


@pytest.fixture
async def fleet(store_url: str) -> AsyncIterator[Fleet]:
    store_count = 1 if store_url == "memory://" else 3
    stores = [await open_store(store_url) for _ in range(store_count)]
    made = Fleet(list(stores))
    yield made
    await made.close()
    for store in stores:
        await store.close()


@pytest.mark.parametrize("count", [2, 3])
async def test_each_occurrence_starts_once_with_many_instances(
    fleet: Fleet, policy: SchedulerPolicy, count: int
) -> None:
    registrations = [
        fleet.task("every minute"),
        fleet.task("slow", takes=seconds(90)),
        *[fleet.task(f"minute {number}", f"{number} * * * *") for number in range(6)],
    ]
    for _ in range(count):
        await fleet.instance(policy).initialize(registrations)
    await fleet.clock.advance(minutes(5.5))
    assert fleet.started("every minute") == [at(10, minute) for minute in range(6)]
    assert fleet.started("slow") == [at(10), at(10, 1, 30), at(10, 3), at(10, 4, 30)]
    for number in range(6):
        assert fleet.started(f"minute {number}") == [at(10, number)]
    assert not fleet.emitted(TaskOrphaned)


async def test_instances_that_initialize_at_the_same_time_agree(
    fleet: Fleet, policy: SchedulerPolicy
) -> None:
    registrations = [fleet.task(f"t{number}") for number in range(50)]
    await asyncio.gather(*(fleet.instance(policy).initialize(registrations) for _ in range(3)))
    await fleet.clock.advance(minutes(1))
    counts = Counter(fleet.starts)
    assert counts == {
        (f"t{number}", at(10, minute)): 1 for number in range(50) for minute in (0, 1)
    }
    await asyncio.gather(*(scheduler.stop() for scheduler in fleet.schedulers))


async def test_a_failed_run_is_retried_once(fleet: Fleet) -> None:
    registrations = [fleet.task(cron="0 10 * * *", delay=minutes(1), fails=[ValueError()] * 2)]
    for _ in range(3):
        await fleet.instance().initialize(registrations)
    await fleet.clock.advance(minutes(5))
    assert fleet.started() == [at(10), at(10, 1), at(10, 2)]


async def test_when_one_stops_another_takes_over_its_retries(fleet: Fleet) -> None:
    registrations = [fleet.task(cron="0 10 * * *", delay=minutes(3), fails=[ValueError()])]
    first, second = fleet.instance(), fleet.instance()
    await first.initialize(registrations)
    await second.initialize(registrations)
    await fleet.clock.advance(seconds(1))
    winner = await _runner(fleet, first, second)
    await winner.stop()
    await fleet.clock.advance(HOUR)
    assert fleet.started() == [at(10), at(10, 3)]


@pytest.mark.parametrize("count", [2, 3])
async def test_the_task_of_a_crashed_instance_is_restarted_once_by_another(
    fleet: Fleet, count: int
) -> None:
    registrations = [fleet.task(cron="0 10 * * *", takes=minutes(30))]
    instances = [fleet.instance() for _ in range(count)]
    for instance in instances:
        await instance.initialize(registrations)
    await fleet.clock.advance(minutes(5) + seconds(1))
    runner = await _runner(fleet, *instances)
    await fleet.crash(runner)
    await fleet.clock.advance(HOUR)
    began, again = fleet.started()
    assert began == at(10)
    assert at(10, 5, 1) <= again <= at(10, 5, 1) + PEER_CHECK
    assert fleet.ended() == [again + minutes(30)]


async def test_a_retry_of_a_crashed_instance_is_taken_over(fleet: Fleet) -> None:
    registrations = [fleet.task(cron="0 10 * * *", delay=minutes(3), fails=[ValueError()])]
    first, second = fleet.instance(), fleet.instance()
    await first.initialize(registrations)
    await second.initialize(registrations)
    await fleet.clock.advance(seconds(1))
    await fleet.crash(await _runner(fleet, first, second))
    await fleet.clock.advance(HOUR)
    assert fleet.started() == [at(10), at(10, 3)]


async def test_the_run_of_a_living_instance_is_not_an_orphan_for_a_new_one(
    fleet: Fleet, policy: SchedulerPolicy
) -> None:
    registrations = [fleet.task(cron="0 10 * * *", takes=minutes(30))]
    await fleet.instance(policy).initialize(registrations)
    await fleet.clock.advance(minutes(1))
    await fleet.instance(policy).initialize(registrations)
    await fleet.clock.advance(HOUR)
    assert fleet.started() == [at(10)]
    assert not fleet.emitted(TaskOrphaned)
    assert not fleet.emitted(TaskRunDiscarded)


async def test_the_run_of_a_new_instance_is_not_an_orphan_for_an_older_one(fleet: Fleet) -> None:
    await fleet.instance().initialize([fleet.task("a", "0,1 10 * * *", takes=minutes(30))])
    await fleet.clock.advance(seconds(1))
    await fleet.crash(fleet.schedulers[0])
    older, newer = fleet.instance(), fleet.instance()
    registrations = [fleet.task("b", "3 10 * * *", takes=minutes(30))]
    await older.initialize(registrations)
    await fleet.clock.advance_to(at(10, 2, 55))
    await newer.initialize(registrations)
    await fleet.clock.advance(HOUR)
    assert fleet.started("b") == [at(10, 3)]


async def test_an_instance_that_appears_while_another_reads_is_not_taken_for_dead(
    fleet: Fleet, policy: SchedulerPolicy
) -> None:
    registrations = [fleet.task(cron="0 10 * * *", takes=minutes(30))]
    spy = SpyStore(fleet.store, fleet.clock)
    spy.delays["scan scheduler.tasks"] = seconds(5)
    slow = fleet.scheduler(policy, store=spy)
    starting = slow.initialize(registrations)
    await fleet.clock.advance(seconds(1))
    await fleet.instance(policy).initialize(registrations)
    await fleet.clock.run(starting)
    spy.delays.clear()
    await fleet.clock.advance(HOUR)
    assert len(fleet.starts) == 1
    assert not fleet.emitted(TaskOrphaned)


async def test_a_task_that_another_instance_removed_or_changed_is_let_go(fleet: Fleet) -> None:
    old, new = fleet.instance(), fleet.instance()
    await old.initialize([fleet.task("gone"), fleet.task("changed"), fleet.task("kept")])
    await fleet.clock.advance(seconds(1))
    await new.initialize([fleet.task("changed", "30 * * * *"), fleet.task("kept")])
    fleet.starts.clear()
    await fleet.clock.advance_to(at(10, 31))
    assert fleet.started("gone") == []
    assert fleet.started("changed") == [at(10, 30)]
    assert fleet.started("kept") == [at(10, minute) for minute in range(1, 32)]
    reasons = {event.task_name: event.reason for event in fleet.emitted(TaskSkipped)}
    assert reasons == {
        "gone": "another instance removed it",
        "changed": "another instance registered it differently",
    }


async def test_polling_stops_when_another_instance_removed_the_last_task(fleet: Fleet) -> None:
    old = fleet.instance()
    await old.initialize([fleet.task()])
    await fleet.instance().initialize([])
    await fleet.clock.advance(minutes(2))
    assert polling_state_of(old) is PollingState.INACTIVE
    await old.stop()
    assert [name for name in fleet.names() if name.startswith("Polling")] == [
        *("PollingStarted", "PollingStopped")
    ]


async def test_the_result_of_a_task_that_was_taken_over_is_discarded(fleet: Fleet) -> None:
    first, second = fleet.instance(), fleet.instance()
    await first.initialize([fleet.task("a", takes=minutes(10))])
    await fleet.clock.advance(seconds(1))
    await second.initialize([fleet.task("b", "0 12 * * *")])
    await fleet.clock.advance(minutes(20))
    (discarded,) = fleet.emitted(TaskRunDiscarded)
    assert discarded.fields() == {"taskName": "a", "reason": "the task is no longer stored"}
    assert sorted(await fleet.documents()) == ["b"]


async def _runner(fleet: Fleet, *instances: Scheduler) -> Scheduler:
    """The instance whose name is on the task."""
    identifier = (await fleet.record())["schedulerIdentifier"]
    (found,) = [
        it for it in instances if it._session is not None and it._session.identifier == identifier
    ]
    return found
