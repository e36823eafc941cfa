"""Which servers are trusted with a store, and what is said about those that may lose something."""

import logging
from collections.abc import Callable, Iterator

import pytest
import redis
from tests.servers.redis import RedisServer
from tests.servers.shared import new_redis_server

from rota.errors import SchemaOutdatedError, StoreUnavailableError
from rota.runtime.wiring import migrate_store, open_store
from rota.stores.protocol import DocumentWrite
from rota.stores.redis.address import RedisSettings
from rota.stores.redis.keys import name_keys
from rota.stores.redis.server import ServerFacts
from rota.stores.redis.store import RedisStore


@pytest.fixture(scope="module")
def pliable() -> Iterator[RedisServer]:
    """A server whose configuration the tests change."""
    server = new_redis_server("pliable")
    yield server
    server.remove()


@pytest.fixture
def client(pliable: RedisServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(pliable.url) as client:
        yield client
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("appendonly", "yes")
        client.config_set("appendfsync", "always")


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl", "allkeys-random"])
async def test_a_server_that_evicts_is_refused_by_name(
    pliable: RedisServer, client: redis.Redis, policy: str
) -> None:
    client.config_set("maxmemory-policy", policy)
    for attempt in (open_store, migrate_store):
        with pytest.raises(StoreUnavailableError, match=f"maxmemory-policy is {policy}") as caught:
            await attempt(pliable.url)
    assert caught.value.details["maxmemory_policy"] == policy


@pytest.mark.parametrize(
    ("setting", "window"),
    [
        ("appendonly no", "everything since the last snapshot"),
        ("appendfsync everysec", "up to about two seconds"),
        ("appendfsync no", "up to about half a minute"),
    ],
)
async def test_a_warning_names_what_a_crash_may_lose(
    pliable: RedisServer,
    client: redis.Redis,
    caplog: pytest.LogCaptureFixture,
    setting: str,
    window: str,
) -> None:
    client.config_set(*setting.split())
    async with await open_store(pliable.url):
        pass
    (record,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert window in record.getMessage()


async def test_of_a_server_that_loses_nothing_nothing_is_said(
    pliable: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with await open_store(pliable.url):
        pass
    assert caplog.records == []


@pytest.fixture
def guest(pliable: RedisServer, client: redis.Redis) -> Callable[..., str]:
    """The address for a user from whom some commands are withheld."""

    def let_in(*withheld: str) -> str:
        client.acl_setuser(
            "guest",
            enabled=True,
            reset=True,
            passwords=["+word"],
            keys=["*"],
            channels=["*"],
            categories=["+@all"],
            commands=list(withheld),
        )
        return f"redis://guest:word@127.0.0.1:{pliable.port}/0"

    return let_in


async def test_a_user_without_access_to_the_configuration_is_warned(
    guest: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    async with await open_store(guest("-config")) as store:
        assert await store.write_each([DocumentWrite("tasks", "a", None, b"")]) == [1]
    (record,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert "may not read the server's configuration (CONFIG GET)" in record.getMessage()
    assert "appendfsync is unknown: unless it is always, a crash loses seconds" in caplog.text


async def test_a_server_that_evicts_is_refused_although_its_configuration_is_hidden(
    guest: Callable[..., str], client: redis.Redis
) -> None:
    client.config_set("maxmemory-policy", "allkeys-lru")
    with pytest.raises(StoreUnavailableError, match="maxmemory-policy is allkeys-lru"):
        await open_store(guest("-config"))


async def test_a_user_without_the_right_to_inspect_the_server_gets_an_error(
    guest: Callable[..., str],
) -> None:
    with pytest.raises(StoreUnavailableError, match=r"this user may not do that .*'info'"):
        await open_store(guest("-info"))


async def test_a_hosted_server_that_knows_no_configuration_is_warned_about(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hosted = new_redis_server("hosted", ["--rename-command", "CONFIG", ""])
    try:
        async with await open_store(hosted.url):
            pass
    finally:
        hosted.remove()
    assert "(CONFIG GET), so appendfsync is unknown" in caplog.text


async def test_a_replica_is_refused_when_a_store_is_opened(pliable: RedisServer) -> None:
    replica = new_redis_server("replica", ["--replicaof", f"127.0.0.1 {pliable.port}"])
    try:
        for attempt in (open_store, migrate_store):
            with pytest.raises(StoreUnavailableError, match="the server is a replica") as caught:
                await attempt(replica.url)
    finally:
        replica.remove()
    assert caught.value.details["outcome"] == "nothing was written"


def test_only_a_flushed_log_loses_nothing() -> None:
    facts = ServerFacts("7.2.4", "noeviction", is_log_kept=True, log_flush="always")
    assert facts.loss_window is None
    assert facts._replace(is_log_kept=False).loss_window is not None


async def test_an_old_server_is_refused(
    redis_settings: RedisSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.stores.redis.server.OLDEST_VERSION", (99, 0))
    with pytest.raises(StoreUnavailableError, match="needs Redis"):
        await RedisStore.open(redis_settings)


@pytest.mark.parametrize(("version", "whose"), [(3, "an older"), (5, "a newer")])
async def test_a_store_of_another_layout_is_refused(
    redis_settings: RedisSettings, version: int, whose: str
) -> None:
    with redis.Redis.from_url(redis_settings.url) as client:
        client.set(name_keys(redis_settings.name).schema, version)
    with pytest.raises(SchemaOutdatedError, match=rf"{whose} version of Rota \(layout {version}\)"):
        await RedisStore.open(redis_settings)
