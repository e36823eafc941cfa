"""A store that has been to MongoDB and back is the same."""

from pathlib import Path

from rota import open_store
from rota.ops.store_comparison import Phase
from rota.runtime.store_copy import copy_store
from rota.testing import VirtualClock
from rota.testing.job_store_fixture import NOW
from rota.testing.portable_store_contract import dump_all, expect_same, records_of_every_sort


def ignore(_phase: Phase, _count: int) -> None:
    pass


async def test_a_store_taken_to_mongo_and_back_is_the_same(tmp_path: Path, mongo_url: str) -> None:
    records = records_of_every_sort()
    first, last = f"sqlite:///{tmp_path}/first.db", f"sqlite:///{tmp_path}/last.db"
    async with await open_store(first) as store:
        await store.load(records, NOW)
    for source, target in ((first, mongo_url), (mongo_url, last)):
        await copy_store(source, target, VirtualClock(NOW), ignore, is_forced=True)
    async with await open_store(last) as store:
        expect_same(await dump_all(store), records)
