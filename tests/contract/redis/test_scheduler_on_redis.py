"""A scheduler whose connections to a real Redis server are cut, in virtual time."""

from tests.servers.redis import RedisServer
from tests.servers.redis_proxy import RedisProxy
from tests.spec.stage import Stage, at, minutes

from rota import open_store


async def test_a_scheduler_on_redis_carries_on_when_its_connections_were_cut(
    own_redis: RedisServer,
) -> None:
    async with (
        RedisProxy(f"{own_redis.folder}/socket").open() as proxy,
        await open_store(proxy.url) as store,
    ):
        stage = Stage(store)
        await stage.scheduler().initialize([stage.task()])
        await stage.clock.advance(minutes(2.5))
        proxy.heal()  # hangs up on every connection
        await stage.clock.advance(minutes(3))
        assert sorted(set(stage.started())) == [at(10, minute) for minute in range(6)]
        await stage.close()
