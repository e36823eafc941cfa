"""Long streams of writes, which wait on the server until they are complete."""

from collections.abc import Iterator

import pytest
import redis

from rota.errors import StaleVersionError, StoreUnavailableError
from rota.stores.protocol import DocumentWrite
from rota.stores.redis.address import RedisSettings
from rota.stores.redis.documents import GATHERED_FOR
from rota.stores.redis.keys import name_keys
from rota.stores.redis.store import RedisStore
from rota.testing.store_contract import scan_all

LONG = 2_500


def _writes(count: int, body: bytes = b"new") -> Iterator[DocumentWrite]:
    return (DocumentWrite("tasks", f"{number:05}", None, body) for number in range(count))


def _gathered(settings: RedisSettings) -> dict[str, int]:
    """The streams that wait on the server, and how long they will."""
    prefix = name_keys(settings.name).stream
    with redis.Redis.from_url(settings.url, decode_responses=True) as client:
        return {str(key): int(client.ttl(key)) for key in client.keys(f"{prefix}*")}


async def test_a_long_stream_leaves_nothing_behind(
    store: RedisStore, redis_settings: RedisSettings
) -> None:
    await store.write_all(_writes(LONG))
    assert len(await scan_all(store)) == LONG
    assert _gathered(redis_settings) == {}


async def test_a_long_stream_is_out_of_sight_until_it_is_complete(
    store: RedisStore, redis_settings: RedisSettings
) -> None:
    met: list[dict[str, int]] = []

    def look_in_the_end() -> Iterator[DocumentWrite]:
        yield from _writes(LONG)
        met.append(_gathered(redis_settings))
        with redis.Redis.from_url(redis_settings.url) as client:
            assert not client.exists(*name_keys(redis_settings.name).documents)

    await store.write_all(look_in_the_end())
    ((waits_for),) = met[0].values()
    assert 0 < waits_for <= GATHERED_FOR


@pytest.mark.parametrize("stale_at", [0, 1_200, 2_400])
async def test_a_stale_write_anywhere_in_a_long_stream_undoes_it(
    store: RedisStore, redis_settings: RedisSettings, stale_at: int
) -> None:
    key = f"{stale_at:05}"
    await store.write_each([DocumentWrite("tasks", key, None, b"there")])
    with pytest.raises(StaleVersionError) as caught:
        await store.write_all(_writes(LONG))
    assert caught.value.key == key
    assert [document.key for document in await scan_all(store)] == [key]
    assert _gathered(redis_settings) == {}


async def test_large_documents_come_in_small_pages(store: RedisStore) -> None:
    await store.write_all(_writes(12, bytes(1 << 20)))
    pages = [len(page) async for page in store.scan("tasks")]
    assert sum(pages) == 12
    assert max(pages) <= 5


@pytest.mark.parametrize("is_lost_whole", [True, False])
async def test_a_stream_of_which_the_server_has_lost_a_part_is_not_written_at_all(
    store: RedisStore, redis_settings: RedisSettings, is_lost_whole: bool
) -> None:
    def lose_the_beginning() -> Iterator[DocumentWrite]:
        yield from _writes(LONG)
        with redis.Redis.from_url(redis_settings.url) as client:
            (stream,) = _gathered(redis_settings)
            if is_lost_whole:
                client.delete(stream)
            else:
                client.lpop(stream, 2)

    with pytest.raises(StoreUnavailableError, match="has lost a part of what") as caught:
        await store.write_all(lose_the_beginning())
    assert caught.value.details["outcome"] == "nothing was written"
    assert await scan_all(store) == []
    assert _gathered(redis_settings) == {}
