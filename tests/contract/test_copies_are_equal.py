"""Whatever is in a store, going from one sort of store to the next and back changes nothing."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from secrets import token_hex

from hypothesis import HealthCheck, given, settings
from tests.contract.strange_stores import strange_records
from tests.servers.shared import mysql_database, shared_mysql_url, with_option

from rota import open_store
from rota.ops.store_comparison import Phase
from rota.runtime.store_copy import copy_store
from rota.stores.protocol import Record
from rota.testing import VirtualClock
from rota.testing.job_store_fixture import NOW
from rota.testing.portable_store_contract import dump_all, expect_same

EXAMPLES = 10


def ignore(_phase: Phase, _count: int) -> None:
    pass


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(records=strange_records())
def test_a_store_that_has_been_to_all_others_is_the_same(
    tmp_path: Path, postgres_database: str, redis_server_url: str, records: list[Record]
) -> None:
    run = token_hex(6)
    with mysql_database(shared_mysql_url()) as mysql_url:
        chain = [
            f"sqlite:///{tmp_path}/{run}.db",
            with_option(postgres_database, "schema", f"copy_{run}"),
            mysql_url,
            with_option(redis_server_url, "name", f"copy-{run}"),
            f"sqlite:///{tmp_path}/{run}-back.db",
        ]
        expect_same(asyncio.run(_go_round(chain, records)), records)


async def _go_round(chain: Sequence[str], records: Sequence[Record]) -> list[Record]:
    async with await open_store(chain[0]) as first:
        await first.load(records, NOW)
    for source, target in pairwise(chain):
        await copy_store(source, target, VirtualClock(NOW), ignore, is_forced=True)
    async with await open_store(chain[-1]) as last:
        return await dump_all(last)
