"""Queues as operators see them: numbers, limits, and pauses that hold."""

from datetime import timedelta

import pytest
from tests.unit.ops.conftest import NOW

from rota.errors import InvalidInputError, NotFoundError
from rota.ops.explain import explain_job
from rota.ops.holds import find_holds
from rota.ops.notices import find_notices
from rota.ops.queues import find_queue, list_queues, set_queue_paused
from rota.policy.limits import Limit, Rate
from rota.rail.jobs import RailContext
from rota.rail.settings import clear_limit, list_limits, pause_queue, resume_queue, set_limit
from rota.stores.memory import MemoryStore
from rota.telemetry.stats_recorder import StatsRecorder
from rota.testing import VirtualClock, a_job
from rota.worker import Context, Worker

MINUTE = timedelta(minutes=1)


async def run_nothing(_: Context) -> None:
    """Succeeds."""


async def fail(_: Context) -> None:
    raise KeyError("x")


async def test_a_queue_shows_depth_age_throughput_limits_and_who_paused_it(
    store: MemoryStore, clock: VirtualClock
) -> None:
    worker = Worker(store, {"work": run_nothing, "fail": fail}, clock=clock)
    stats = StatsRecorder(store, clock)
    stats.follow(worker.events)
    await store.insert([a_job(queue="mail", kind=kind) for kind in ("work", "work", "fail")], NOW)
    await worker.run_once()
    await stats.flush()
    await store.insert([a_job(queue="mail", due_at=NOW - MINUTE) for _ in range(4)], NOW)
    rate = Rate(count=5, per=MINUTE)
    await set_limit(store, Limit(tenant="default", queue="mail", running=2, rate=rate), clock=clock)
    await set_limit(store, Limit(tenant="other", queue="secret", running=2), clock=clock)
    await pause_queue(store, "mail", tenant="default", who="ann", why="it is down", clock=clock)
    (mail,) = await list_queues(store, clock, "default")
    assert (mail.queue, mail.due_count, mail.oldest_due_at) == ("mail", 4, NOW - MINUTE)
    assert (mail.succeeded_count, mail.failed_count, mail.per_minute) == (2, 1, 0.2)
    assert mail.empty_in_seconds == pytest.approx(4 / 0.2 * 60)
    (limit,) = mail.limits
    assert (limit.whose, limit.running, limit.rate_count, limit.rate_seconds) == ("own", 2, 5, 60)
    (pause,) = mail.pauses
    assert (pause.at, pause.who, pause.why) == (NOW, "ann", "it is down")
    with pytest.raises(NotFoundError):
        await find_queue(store, clock, "default", "secret")
    with pytest.raises(InvalidInputError):
        await find_queue(store, clock, "default", "no such/queue")


async def test_a_paused_queue_starts_nothing_until_it_is_resumed_and_others_go_on(
    store: MemoryStore, clock: VirtualClock, around: RailContext
) -> None:
    ran: list[str] = []

    async def note(context: Context) -> None:
        ran.append(context.job.queue)

    worker = Worker(store, {"work": note}, clock=clock)
    await store.insert([a_job(queue=queue, kind="work") for queue in ("mail", "print")], NOW)
    await set_queue_paused(around, "mail", "own", paused=True, who="ann", why="")
    await worker.run_once()
    assert ran == ["print"]
    await set_queue_paused(around, "mail", "own", paused=False, who="ann", why="")
    await clock.advance(MINUTE)
    await worker.run_once()
    assert ran == ["print", "mail"]


async def test_a_pause_shows_in_the_banner_the_check_and_the_explanation(
    store: MemoryStore, clock: VirtualClock
) -> None:
    job = a_job(queue="mail")
    await store.insert([job, a_job(queue="print")], NOW)
    await pause_queue(store, "mail", who="ann", why="it is down", clock=clock)
    (hold,) = await find_holds(store, clock, "default")
    assert (hold.count, hold.queue) == (1, "mail")
    assert hold.text == (
        "a pause of queue mail by ann (it is down) holds back 1 job "
        "since Fri 2026-05-01 12:00:00 UTC until it is ended"
    )
    (notice,) = await find_notices(store, clock)
    assert (notice.concern, notice.source, notice.name) == ("held", "queue", "queue mail")
    found = await explain_job(store, clock, "default", job.id)
    assert any("queue mail was paused at" in reason.text for reason in found.reasons)
    await resume_queue(store, "mail", clock=clock)
    assert await find_holds(store, clock, "default") == ()


async def test_limits_and_pauses_of_a_queue_do_not_disturb_each_other(store: MemoryStore) -> None:
    limit = Limit(queue="mail", running=3)
    await pause_queue(store, "mail", who="ann")
    await set_limit(store, limit)
    (kept,) = (await list_limits(store)).limits
    assert (kept.running, kept.most_running) == (3, 0)
    await pause_queue(store, "mail", who="bob")
    (again,) = (await list_limits(store)).limits
    assert again.paused == kept.paused
    await resume_queue(store, "mail")
    assert (await list_limits(store)).limits == (limit,)
    await pause_queue(store, "mail")
    await clear_limit(store, queue="mail")
    (only,) = (await list_limits(store)).limits
    assert (only.is_limited, only.most_running) == (False, 0)
    await resume_queue(store, "mail")
    await resume_queue(store, "mail")
    assert (await list_limits(store)).limits == ()
