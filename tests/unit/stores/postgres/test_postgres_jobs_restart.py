"""A server that is killed and started again: listeners hear, keepers keep, jobs are still there."""

import asyncio
from datetime import UTC, datetime, timedelta

from tests.servers.postgres import PostgresServer

from rota.clock.system import SystemClock
from rota.errors import StoreUnavailableError
from rota.jobs import decide_complete
from rota.stores.postgres.address import read_address
from rota.stores.postgres.store import PostgresStore
from rota.stores.protocol import HeldLease, LeaseRequest
from rota.testing.builders import a_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
CLOCK, A_MOMENT = SystemClock(), timedelta(milliseconds=50)


async def until_back(store: PostgresStore) -> None:
    while True:
        try:
            await store.read_clock()
        except StoreUnavailableError:
            await CLOCK.sleep(A_MOMENT)
        else:
            return


async def test_listeners_and_keepers_outlive_the_server(own_postgres: PostgresServer) -> None:
    settings = read_address(own_postgres.url)
    async with (
        await PostgresStore.open(settings) as store,
        await PostgresStore.open(settings) as elsewhere,
        elsewhere.listen(queues=["mail"]) as listener,
    ):
        await store.insert([a_job()], NOW)
        (job,) = await store.lease(LeaseRequest(worker="w", limit=1, lease_for=MINUTE), NOW)
        keeper = store.make_keeper()
        held = [HeldLease(job.id, job.last_token)]
        assert await asyncio.to_thread(keeper.extend, held, NOW + MINUTE, NOW) == [True]
        own_postgres.kill()
        own_postgres.restart()
        async with asyncio.timeout(30):
            await until_back(store)
            await listener.wait()  # woken because something may have been missed
            await store.insert([a_job(queue="mail")], NOW)
            await listener.wait()
        assert await asyncio.to_thread(keeper.extend, held, NOW + 2 * MINUTE, NOW) == [True]
        await asyncio.to_thread(keeper.close)
        (answer,) = await store.apply([decide_complete(job, NOW)], NOW)
        assert not answer.is_stale
