"""A scheduler whose connections to a real PostgreSQL server are cut, in virtual time."""

from tests.servers.proxy import Proxy
from tests.spec.stage import Stage, at, minutes

from rota import open_store


async def test_a_scheduler_carries_on_when_its_connections_were_cut(
    postgres_url: str, postgres_database: str
) -> None:
    schema = postgres_url.rpartition("schema=")[2]
    async with (
        Proxy(postgres_database).open() as proxy,
        await open_store(f"{proxy.url}&schema={schema}") as store,
    ):
        stage = Stage(store)
        await stage.scheduler().initialize([stage.task()])
        await stage.clock.advance(minutes(2.5))
        proxy.heal()  # hangs up on every connection
        await stage.clock.advance(minutes(3))
        assert sorted(set(stage.started())) == [at(10, minute) for minute in range(6)]
        await stage.close()
