"""The scheduler's main behaviours on a store that others share, in virtual time."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from tests.spec.stage import Stage, at, minutes, seconds

from rota import POLLING, Scheduler, SchedulerPolicy, SchedulerSettings, open_store
from rota.events import TaskOrphaned
from rota.scheduler.keeping.ledger import TASKS
from rota.stores.protocol import DocumentStore, Reach

WATCHFUL = SchedulerSettings(peers_checked_every=minutes(1), peer_silent_for=minutes(3))
HOUR = timedelta(hours=1)


class Fleet(Stage):
    """A stage on which every instance opens the store for itself."""

    def __init__(self, stores: list[DocumentStore]) -> None:
        super().__init__(stores[0])
        self._stores = iter(stores)

    def instance(self, policy: SchedulerPolicy = POLLING) -> Scheduler:
        return self.scheduler(policy, store=next(self._stores), settings=WATCHFUL)


class SchedulerOnServer:
    """A subclass has a fixture ``store_url``: the address of an empty store."""

    @pytest.fixture
    async def fleet(self, store_url: str) -> AsyncIterator[Fleet]:
        stores = [await open_store(store_url) for _ in range(3)]
        made = Fleet(list(stores))
        yield made
        await made.close()
        for store in stores:
            await store.close()

    @pytest.mark.clause("D-51", "P-17")
    async def test_initialize_brings_the_stored_tasks_in_line(self, fleet: Fleet) -> None:
        first = fleet.instance()
        await first.initialize([fleet.task("kept"), fleet.task("gone"), fleet.task("changed")])
        await first.stop()
        await fleet.instance().initialize(
            [fleet.task("kept"), fleet.task("changed", "30 * * * *"), fleet.task("new")]
        )
        assert fleet.store.reach is Reach.NETWORK
        assert sorted(await fleet.documents(TASKS)) == ["changed", "kept", "new"]
        assert (await fleet.record("changed"))["cronExpression"] == "30 * * * *"

    @pytest.mark.clause("D-53")
    async def test_a_task_starts_exactly_at_its_minutes(self, fleet: Fleet) -> None:
        await fleet.instance().initialize([fleet.task(cron="0,5,10,15 * * * *", takes=seconds(30))])
        await fleet.clock.advance(minutes(16))
        assert fleet.started() == [at(10, minute) for minute in (0, 5, 10, 15)]
        assert fleet.ended() == [at(10, minute, 30) for minute in (0, 5, 10, 15)]

    @pytest.mark.clause("D-29")
    async def test_a_failed_run_is_retried_after_its_delay(self, fleet: Fleet) -> None:
        registrations = [fleet.task(cron="0 10 * * *", delay=minutes(3), fails=[ValueError()] * 2)]
        await fleet.instance().initialize(registrations)
        await fleet.clock.advance(HOUR)
        assert fleet.started() == [at(10), at(10, 3), at(10, 6)]

    @pytest.mark.clause("D-29", "D-53")
    async def test_after_a_restart_what_was_missed_runs_once_and_what_was_done_does_not(
        self, fleet: Fleet
    ) -> None:
        registrations = [fleet.task("hourly", "0 * * * *"), fleet.task("daily", "0 10 * * *")]
        first = fleet.instance()
        await first.initialize(registrations)
        await fleet.clock.advance(minutes(1))
        await first.stop()
        await fleet.clock.advance(3 * HOUR + minutes(29))
        await fleet.instance().initialize(registrations)
        await fleet.clock.advance(HOUR)
        assert fleet.started("hourly") == [at(10), at(13, 30), at(14)]
        assert fleet.started("daily") == [at(10)]

    @pytest.mark.clause("D-53", "D-55", "D-58", "P-24")
    @pytest.mark.parametrize("count", [2, 3])
    async def test_each_occurrence_starts_once_however_many_instances_there_are(
        self, fleet: Fleet, count: int
    ) -> None:
        registrations = [fleet.task(f"t{number}") for number in range(20)]
        instances = [fleet.instance() for _ in range(count)]
        await asyncio.gather(*(each.initialize(registrations) for each in instances))
        await fleet.clock.advance(minutes(3.5))
        assert Counter(fleet.starts) == {
            (f"t{number}", at(10, minute)): 1 for number in range(20) for minute in range(4)
        }
        assert not fleet.told(TaskOrphaned)

    @pytest.mark.clause("D-51", "D-53", "D-64")
    async def test_the_task_of_a_crashed_instance_is_restarted_once_by_another(
        self, fleet: Fleet
    ) -> None:
        registrations = [fleet.task(cron="0 10 * * *", takes=minutes(30))]
        instances = [fleet.instance(), fleet.instance()]
        for instance in instances:
            await instance.initialize(registrations)
        await fleet.clock.advance(minutes(5) + seconds(1))
        runs_on = (await fleet.record())["schedulerIdentifier"]
        for instance in instances:
            if instance._session is not None and instance._session.identifier == runs_on:
                await fleet.crash(instance)
        await fleet.clock.advance(HOUR)
        began, again = fleet.started()
        assert began == at(10)
        assert at(10, 5, 1) <= again <= at(10, 6, 1)
        assert fleet.ended() == [again + minutes(30)]
