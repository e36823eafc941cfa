"""A server that compares texts as its language does, and not by their bytes."""

import shutil
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.servers.redis import RedisServer
from tests.servers.shared import new_redis_server

from rota.jobs import JobFilter
from rota.stores.redis.address import read_address
from rota.stores.redis.store import RedisStore
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import NOW, SECOND, take

LANGUAGE = "en_US.UTF-8"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RedisServer]:
    """A server whose language puts punctuation before digits, as most do."""
    maker = shutil.which("localedef")
    if maker is None or not Path("/usr/share/i18n/locales/en_US").exists():
        pytest.skip("no language can be made here: localedef or its sources are missing")
    command = [maker, "--no-archive", "-i", "en_US", "-f", "UTF-8", f"{tmp_path}/{LANGUAGE}"]
    subprocess.run(command, check=True, capture_output=True)
    tmp_path.chmod(0o755)
    monkeypatch.setenv("LOCPATH", str(tmp_path))
    monkeypatch.setenv("LC_ALL", LANGUAGE)
    made = new_redis_server("language")
    yield made
    made.remove()


async def test_pages_and_order_are_the_same_in_every_locale(server: RedisServer) -> None:
    jobs = [a_job(created_at=NOW - timedelta(seconds=each), due_at=NOW) for each in range(7)]
    async with await RedisStore.open(read_address(server.url)) as store:
        compared = await store._database.call("EVAL", "return '~' < '2' and 1 or 0", 0)
        assert compared == 1, "the server does not compare as its language does"
        await store.insert(jobs, NOW)
        for wanted in (JobFilter(), JobFilter(created_before=NOW + SECOND)):
            first = await store.find("default", wanted, limit=3)
            second = await store.find("default", wanted, first.next_cursor, limit=3)
            third = await store.find("default", wanted, second.next_cursor, limit=3)
            found = [*first.items, *second.items, *third.items]
            assert [job.id for job in found] == [job.id for job in jobs]
            assert third.next_cursor is None
        leased = await take(store, limit=10)
        assert [job.id for job in leased] == [job.id for job in reversed(jobs)]
