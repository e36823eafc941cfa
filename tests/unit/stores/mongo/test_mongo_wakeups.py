"""Listeners of other processes are woken at once, and by few messages."""

import asyncio
from datetime import UTC, datetime

import pytest
from tests.servers.mongo import open_mongo
from tests.unit.stores.mongo.overheard import Overheard, overhear

from rota.clock.loop import turn
from rota.stores.mongo import wakeups
from rota.stores.mongo.connection import WAKEUPS
from rota.stores.protocol import Listener
from rota.testing.builders import a_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SOON = 20.0
NEVER = 3600.0


@pytest.fixture
def overheard(monkeypatch: pytest.MonkeyPatch) -> Overheard:
    return overhear(monkeypatch)


async def heard(listener: Listener) -> bool:
    async with asyncio.timeout(SOON):
        await listener.wait()
    return True


def count_messages(overheard: Overheard) -> int:
    return sum(command.get("insert") == WAKEUPS for command in overheard.commands)


async def test_a_burst_is_one_message_at_once_and_one_for_the_rest(
    mongo_url: str, overheard: Overheard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeups, "SENT_EVERY", NEVER)
    async with (
        await open_mongo(mongo_url) as elsewhere,
        elsewhere.listen(queues=["mail"]) as listener,
    ):
        async with await open_mongo(mongo_url) as store:
            overheard.clear()
            await store.insert([a_job(queue="mail")], NOW)
            assert await heard(listener)
            assert count_messages(overheard) == 1
            for _ in range(20):
                await store.insert([a_job(queue="mail")], NOW)
            assert count_messages(overheard) == 1
        # The store was closed: what it had not sent yet is sent.
        assert count_messages(overheard) == 2
        assert await heard(listener)


async def test_an_insert_after_a_pause_returns_when_its_message_is_sent(
    mongo_url: str, overheard: Overheard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process may end right after it."""
    outbox = vars(wakeups)["_Outbox"]
    send = vars(outbox)["_send"]

    async def send_late(sender: object) -> None:
        for _ in range(20):
            await turn()
        await send(sender)

    monkeypatch.setattr(outbox, "_send", send_late)
    monkeypatch.setattr(wakeups, "SENT_WITHIN", NEVER)  # however slow the machine
    async with await open_mongo(mongo_url) as store:
        overheard.clear()
        await store.insert([a_job(queue="mail")], NOW)
        assert count_messages(overheard) == 1


async def test_a_caller_that_is_cancelled_does_not_keep_others_from_hearing(
    mongo_url: str,
) -> None:
    async with (
        await open_mongo(mongo_url) as store,
        await open_mongo(mongo_url) as elsewhere,
        elsewhere.listen(queues=["mail"]) as listener,
    ):
        inserting = asyncio.create_task(store.insert([a_job(queue="mail")], NOW))
        await turn()
        inserting.cancel()
        assert await heard(listener)


async def test_a_later_job_is_heard_of_after_the_pause(
    mongo_url: str, overheard: Overheard
) -> None:
    async with (
        await open_mongo(mongo_url) as store,
        await open_mongo(mongo_url) as elsewhere,
        elsewhere.listen(queues=["late"]) as listener,
    ):
        overheard.clear()
        await store.insert([a_job(queue="first")], NOW)
        await asyncio.gather(*(store.insert([a_job(queue="late")], NOW) for _ in range(20)))
        assert await heard(listener)
        assert count_messages(overheard) < 10
