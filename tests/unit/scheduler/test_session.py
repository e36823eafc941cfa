"""The check of other schedulers; the rest of a session is tested in tests/spec."""

import pytest
from tests.spec.stage import SpyStore, Stage, at, minutes, seconds

from rota import SchedulerSettings, open_store
from rota.errors import StoreUnavailableError
from rota.scheduler.presence import INSTANCES
from rota.stores.memory import MemoryStore
from rota.stores.protocol import Reach

WATCHFUL = SchedulerSettings(peers_checked_every=seconds(10))


class SharedMemoryStore(MemoryStore):
    """In memory, but as if other hosts could reach it too."""

    reach = Reach.NETWORK


@pytest.mark.parametrize("error", [StoreUnavailableError("gone"), RuntimeError("a bug")])
async def test_a_failed_check_of_peers_is_repeated(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(SharedMemoryStore())
    spy = SpyStore(stage.store, stage.clock)
    await stage.scheduler(store=spy, settings=WATCHFUL).initialize([stage.task(cron="0 12 * * *")])
    await stage.clock.advance(seconds(10))
    (before,) = (await stage.documents(INSTANCES)).values()
    spy.errors[f"write_each {INSTANCES}"] = error
    await stage.clock.advance(minutes(1))
    spy.errors.clear()
    assert ("The check of other schedulers failed" in caplog.text) == isinstance(
        error, RuntimeError
    )
    await stage.clock.advance(seconds(10))
    (after,) = (await stage.documents(INSTANCES)).values()
    assert after.version == before.version + 1
    await stage.close()


async def test_a_store_of_one_process_needs_no_check_of_peers() -> None:
    async with await open_store("memory://") as store:
        stage = Stage(store)
        spy = SpyStore(store, stage.clock)
        await stage.scheduler(store=spy, settings=WATCHFUL).initialize(
            [stage.task(cron="0 12 * * *")]
        )
        await stage.clock.advance(seconds(1))
        calls = len(spy.calls)
        await stage.clock.advance_to(at(11, 59))
        assert len(spy.calls) == calls
        await stage.close()
