"""What holds due jobs back: maintenance, and series that are paused."""

from datetime import timedelta

import pytest
from tests.unit.ops.conftest import NOW

from rota.ops.holds import Hold, find_holds
from rota.ops.overview import take_overview
from rota.policy.gate_settings import EVERYTHING, Scope
from rota.policy.gates import Maintenance
from rota.rail import Rail
from rota.rail.settings import plan_maintenance, set_maintenance
from rota.stores.memory import MemoryStore
from rota.testing import VirtualClock, a_job

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


async def test_maintenance_says_how_many_jobs_wait_since_when_by_whom_and_why(
    store: MemoryStore, rail: Rail, clock: VirtualClock
) -> None:
    await store.insert([a_job(due_at=NOW), a_job(due_at=NOW), a_job(due_at=NOW + HOUR)], NOW)
    await rail.set_maintenance(True, reason="moving house", who="ada")
    await clock.advance(MINUTE)
    (hold,) = await find_holds(store, clock, "default")
    assert (hold.source, hold.count, hold.since, hold.until) == ("maintenance", 2, NOW, None)
    assert hold.text == (
        "maintenance of tenant default by ada (moving house) holds back 2 jobs "
        "since Fri 2026-05-01 12:00:00 UTC until it is ended"
    )
    assert await find_holds(store, clock, "other") == ()
    await rail.set_maintenance(False)
    assert await find_holds(store, clock) == ()


async def test_jobs_that_come_due_before_the_end_of_a_window_count(
    store: MemoryStore, clock: VirtualClock
) -> None:
    jobs = [a_job(queue=queue, due_at=NOW + HOUR) for queue in ("mail", "mail", "print")]
    await store.insert(jobs, NOW)
    mail = Maintenance(until=NOW + 2 * HOUR)
    await set_maintenance(store, Scope(queue="mail"), mail)
    await plan_maintenance(store, EVERYTHING, Maintenance(from_at=NOW + MINUTE), NOW)
    (hold,) = await find_holds(store, clock, "default")
    assert (hold.scope, hold.count, hold.until) == ("queue mail", 2, NOW + 2 * HOUR)
    await clock.advance(2 * MINUTE)
    held = await find_holds(store, clock)
    assert sorted((it.scope, it.count) for it in held) == [("everything", 0), ("queue mail", 2)]


async def test_a_paused_series_counts_once_its_time_has_come(
    store: MemoryStore, rail: Rail, clock: VirtualClock
) -> None:
    series_id = await rail.schedule_recurring("backup", {}, interval="1h", start_from=NOW + HOUR)
    await rail.pause(series_id, who="ada", why="disk full")
    assert await find_holds(store, clock) == ()
    await clock.advance(HOUR)
    (hold,) = await find_holds(store, clock)
    expected = Hold(
        source="pause",
        scope="series backup",
        tenant="default",
        count=1,
        since=NOW,
        who="ada",
        why="disk full",
        series_id=series_id,
        text=hold.text,
    )
    assert hold == expected
    assert (await find_holds(store, clock, "other")) == ()
    await rail.resume(series_id)
    assert await find_holds(store, clock) == ()


@pytest.mark.parametrize("ends_series", [True, False])
async def test_a_cancelled_series_holds_nothing_back(
    store: MemoryStore, rail: Rail, clock: VirtualClock, *, ends_series: bool
) -> None:
    series_id = await rail.schedule_recurring("backup", {}, interval="1h")
    await rail.pause(series_id)
    await rail.cancel(series_id, ends_series=ends_series)
    assert len(await find_holds(store, clock)) == 0


async def test_the_overview_is_red_while_jobs_are_held_back(
    store: MemoryStore, rail: Rail, clock: VirtualClock
) -> None:
    assert not (await take_overview(store, clock, "default")).is_red
    await rail.set_maintenance(True)
    assert not (await take_overview(store, clock, "default")).is_red
    await store.insert([a_job(due_at=NOW + MINUTE)], NOW)
    overview = await take_overview(store, clock, "default")
    assert (overview.is_red, overview.alarms) == (True, ())
