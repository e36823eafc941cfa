"""Workers under limits: nothing in excess, nothing forgotten, and no haste."""

from collections import Counter
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from tests.unit.worker.workshop import MINUTE, NOW, SECOND, Workshop, be_down, once

from rota.jobs import JobStatus
from rota.policy.limits import Limit, Rate
from rota.policy.watch import LeasedUnderLimits, LimitWatch
from rota.rail.settings import clear_limit, set_limit
from rota.worker import Context, Worker, WorkerSettings
from rota.worker.rest import choose_due_for


class Floor:
    """Who runs at the moment, and who ran when."""

    def __init__(self, shop: Workshop, takes: timedelta = timedelta(0)) -> None:
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.started: list[tuple[str, datetime]] = []
        self._shop = shop
        self._takes = takes

    async def work(self, context: Context) -> None:
        tenant = context.tenant
        self.started.append((tenant, self._shop.clock.now()))
        self.running[tenant] += 1
        self.most |= self.running
        await self._shop.clock.sleep(self._takes)
        self.running[tenant] -= 1

    def count(self, tenant: str) -> int:
        return sum(who == tenant for who, _ in self.started)


def make_worker(shop: Workshop, floor: Floor, poll_for: timedelta = SECOND) -> Worker:
    return shop.make_worker({"work": floor.work}, WorkerSettings(poll_for=poll_for))


@pytest.mark.parametrize(
    ("due_in", "allotment", "expected"),
    [
        (0, LeasedUnderLimits(()), 0),
        (0, LeasedUnderLimits((), is_limited=True), None),
        (0, LeasedUnderLimits((), is_limited=True, again_at=NOW + 5 * SECOND), 5),
        (3, LeasedUnderLimits((), is_limited=True, again_at=NOW + 5 * SECOND), 3),
        (None, LeasedUnderLimits((), is_limited=True, again_at=NOW + 5 * SECOND), None),
    ],
)
def test_due_jobs_under_a_rate_wait_for_the_next_token(
    due_in: int | None, allotment: LeasedUnderLimits, expected: int | None
) -> None:
    due_at = None if due_in is None else NOW + due_in * SECOND
    due_for = choose_due_for(due_at, allotment, NOW)
    assert due_for == (None if expected is None else expected * SECOND)


async def test_workers_together_never_run_more_than_a_limit_allows(shop: Workshop) -> None:
    await set_limit(shop.hooked, Limit(tenant="a", running=2), clock=shop.clock)
    floor = Floor(shop, takes=3 * SECOND)
    for _ in range(3):
        shop.start(make_worker(shop, floor))
    await shop.add_many(12, tenant="a")
    await shop.add_many(9, tenant="b")
    await shop.pass_time(MINUTE)
    assert floor.most["a"] == 2
    assert floor.most["b"] > 2
    assert (floor.count("a"), floor.count("b")) == (12, 9)


async def test_a_place_is_taken_again_as_soon_as_it_is_free(shop: Workshop) -> None:
    """The next one starts when the end of the last is written, not at the next poll."""
    await set_limit(shop.hooked, Limit(queue="default", running=1), clock=shop.clock)
    floor = Floor(shop, takes=SECOND)
    make_worker(shop, floor, poll_for=10 * MINUTE)
    await shop.add_many(5)
    shop.start()
    await shop.pass_time(5 * SECOND + SECOND / 2)
    assert len(floor.started) == 5


async def test_a_worker_that_is_held_back_does_not_ask_without_end(shop: Workshop) -> None:
    await set_limit(shop.hooked, Limit(queue="default", running=0), clock=shop.clock)
    floor = Floor(shop)
    make_worker(shop, floor)
    await shop.add_many(5)
    shop.start()
    await shop.pass_time(MINUTE)
    assert floor.started == []
    assert 60 <= len(shop.hooked.sizes("lease")) <= 80


async def test_a_limit_that_is_lifted_is_noticed_within_seconds(shop: Workshop) -> None:
    await set_limit(shop.hooked, Limit(tenant="default", running=0), clock=shop.clock)
    floor = Floor(shop)
    make_worker(shop, floor)
    job = await shop.add()
    shop.start()
    await shop.pass_time(MINUTE)
    assert floor.started == []
    await clear_limit(shop.hooked, tenant="default", clock=shop.clock)
    await shop.pass_time(3 * SECOND)
    assert (await shop.look(job)).status is JobStatus.COMPLETED


async def test_how_often_limits_are_looked_at_may_be_chosen(shop: Workshop) -> None:
    limits = LimitWatch(shop.hooked, refresh_for=MINUTE)
    floor = Floor(shop)
    shop.make_worker({"work": floor.work}, WorkerSettings(limits=limits))
    shop.start()
    await shop.pass_time(SECOND)
    await set_limit(shop.hooked, Limit(tenant="default", running=0), clock=shop.clock)
    await shop.add()
    await shop.pass_time(MINUTE)
    await shop.add()
    await shop.pass_time(MINUTE)
    assert len(floor.started) == 1


async def test_a_rate_is_kept_by_all_workers_together(shop: Workshop) -> None:
    rate = Rate(count=2, per=SECOND, burst=1)
    await set_limit(shop.hooked, Limit(tenant="a", rate=rate), clock=shop.clock)
    floor = Floor(shop)
    for _ in range(3):
        shop.start(make_worker(shop, floor))
    await shop.add_many(30, tenant="a")
    await shop.add(tenant="b")
    await shop.pass_time(10 * SECOND)
    times = [at for tenant, at in floor.started if tenant == "a"]
    assert 20 <= len(times) <= 21
    assert all(later - earlier >= SECOND / 2 for earlier, later in pairwise(times))
    assert floor.count("b") == 1


async def test_a_store_that_fails_is_asked_again_under_the_same_limits(shop: Workshop) -> None:
    await set_limit(shop.hooked, Limit(tenant="default", running=1), clock=shop.clock)
    floor = Floor(shop)
    make_worker(shop, floor)
    shop.hooked.before["lease"] = once(be_down)
    await shop.add_many(3)
    shop.start()
    await shop.pass_time(MINUTE)
    assert len(floor.started) == 3
    assert floor.most["default"] == 1
