"""Listeners hear of jobs that other programs write, also after a connection was lost."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import asyncpg
import pytest
from msgspec.structs import replace as replace_job
from tests.servers.proxy import Proxy

from rota.clock.loop import in_flight
from rota.stores.postgres.address import PostgresSettings
from rota.stores.postgres.store import PostgresStore
from rota.stores.postgres.wakeups import (
    LONGEST_CHANNEL,
    LONGEST_MESSAGE,
    NOTIFIED_LATER,
    channel_of,
    write_message,
)
from rota.stores.protocol import Listener
from rota.testing.builders import a_job

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SOON = 20.0


async def heard(listener: Listener) -> bool:
    """Whether a wake-up comes; it may have come before."""
    async with asyncio.timeout(SOON):
        await listener.wait()
    return True


async def is_silent(listener: Listener) -> bool:
    waiting = asyncio.create_task(listener.wait())
    await asyncio.wait([waiting], timeout=0.2)
    waiting.cancel()
    await asyncio.wait([waiting])
    return waiting.cancelled()


async def test_another_program_hears_of_a_job_in_its_place(
    store: PostgresStore, elsewhere: PostgresStore
) -> None:
    async with elsewhere.listen(queues=["mail"], tenants=["a"]) as listener:
        await store.insert([a_job(queue="mail", tenant="b"), a_job(queue="x", tenant="a")], NOW)
        assert await is_silent(listener)
        await store.insert([a_job(queue="mail", tenant="a")], NOW)
        assert await heard(listener)


async def test_a_burst_sends_few_notifications(
    store: PostgresStore, elsewhere: PostgresStore, other: Connection
) -> None:
    told: list[object] = []
    channel = channel_of(store._settings.schema)
    await other.add_listener(channel, lambda *message: told.append(message))
    async with elsewhere.listen() as listener:
        await asyncio.gather(*(store.insert([a_job()], NOW) for _ in range(50)))
        assert await heard(listener)
    await other.fetch("SELECT 1")
    assert 1 <= len(told) < 25


async def test_a_single_job_is_notified_in_its_own_commit(
    store: PostgresStore, elsewhere: PostgresStore
) -> None:
    async with elsewhere.listen(queues=["mail"]) as listener:
        await store.insert([a_job(queue="mail")], NOW)
        assert store._notices.sending is None
        assert await heard(listener)


async def test_an_existing_single_job_sends_no_notification(
    store: PostgresStore, elsewhere: PostgresStore
) -> None:
    job = a_job(idempotency_key="once")
    await store.insert([job], NOW)
    async with elsewhere.listen() as listener, store.listen() as here:
        (answer,) = await store.insert([replace_job(job, id=a_job().id)], NOW)
        assert (answer.is_existing, answer.job.id) == (True, job.id)
        assert await is_silent(listener)
        assert await is_silent(here)


async def test_a_disk_that_halts_now_and_then_changes_nothing(store: PostgresStore) -> None:
    notices = store._notices
    for _ in range(20):
        for seconds in (60.0, 60.0, *[0.001] * 6):
            notices.pace.note(seconds)
    assert notices.pace.left_out_count == 0


async def test_notifications_follow_later_where_notifying_commits_are_slow(
    store: PostgresStore, elsewhere: PostgresStore
) -> None:
    notices = store._notices
    for _ in range(6):
        notices.pace.note(60.0)
    assert notices.pace.left_out_count == NOTIFIED_LATER
    async with elsewhere.listen() as listener:
        await store.insert([a_job()], NOW)
        telling = notices.sending
        assert telling is not None
        assert await heard(listener)
    await telling
    notices.pace.left_out_count = 0
    await store.insert([a_job()], NOW)
    assert notices.sending is None


async def test_places_that_fit_no_message_are_all_places(
    store: PostgresStore, elsewhere: PostgresStore
) -> None:
    async with elsewhere.listen(tenants=["tenant-7"]) as listener:
        await store.insert([a_job(tenant=f"tenant-{number}") for number in range(1_000)], NOW)
        assert await heard(listener)


def test_no_message_and_no_channel_is_longer_than_the_server_takes() -> None:
    places = {("queue", f"tenant-{number}") for number in range(1_000)}
    assert write_message("me", places) == '["me",null,[]]'
    assert write_message("me", {("q", "t")}) == '["me",[["q","t"]],[]]'
    assert len(write_message("me", set(list(places)[:100])).encode()) <= LONGEST_MESSAGE
    channels = {channel_of("s" * 63), channel_of("s" * 62 + "t"), channel_of("rota")}
    assert len(channels) == 3
    assert max(map(len, channels)) <= LONGEST_CHANNEL


async def test_an_invalid_message_wakes_all_listeners(
    store: PostgresStore, other: Connection
) -> None:
    async with store.listen(queues=["mail"]) as listener:
        await other.execute("SELECT pg_notify($1, 'nonsense')", channel_of(store._settings.schema))
        assert await heard(listener)


async def test_a_lost_connection_is_replaced_and_listeners_are_woken(
    store: PostgresStore, elsewhere: PostgresStore, other: Connection
) -> None:
    async with elsewhere.listen(queues=["mail"]) as listener:
        await other.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE application_name = 'rota' AND query ILIKE 'listen%'"
            " AND datname = current_database()"
        )
        assert await heard(listener)
        assert await is_silent(listener)
        await store.insert([a_job(queue="mail")], NOW)
        assert await heard(listener)


async def test_a_connection_that_fell_silent_is_made_anew(
    store: PostgresStore, proxied_settings: PostgresSettings, proxy: Proxy
) -> None:
    assert store is not None, "the schema is there"
    impatient = replace(proxied_settings, answer_for=timedelta(seconds=1))
    async with await PostgresStore.open(impatient) as proxied, proxied.listen() as listener:
        proxy.stall()
        assert await is_silent(listener)
        await asyncio.wait([asyncio.create_task(asyncio.Event().wait())], timeout=1.5)
        proxy.heal()
        assert await heard(listener)


async def test_listening_without_a_server_is_allowed(
    store: PostgresStore, proxied_settings: PostgresSettings, proxy: Proxy
) -> None:
    assert store is not None, "the schema is there"
    impatient = replace(proxied_settings, connect_for=timedelta(seconds=1))
    async with await PostgresStore.open(impatient) as proxied:
        proxy.stall()
        async with proxied.listen() as listener:
            assert await is_silent(listener)
            proxy.heal()
            assert await heard(listener)


async def test_listening_does_not_hold_up_virtual_time(store: PostgresStore) -> None:
    async with store.listen():
        await in_flight().landed()  # until the connections know the statements of a worker
        assert in_flight().count == 0


async def test_a_single_name_is_refused_before_anything_is_opened(store: PostgresStore) -> None:
    with pytest.raises(Exception, match="queues"):
        await store.listen(queues="mail").__aenter__()
    receiver = store._notices.receiver
    assert receiver is not None
    assert not receiver.is_started
