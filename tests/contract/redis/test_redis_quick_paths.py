"""The native paths leave the same under each key as the kernel."""

from random import Random
from secrets import token_hex
from typing import Any

import pytest
import redis
from msgspec.structs import replace
from tests.servers.shared import with_option

from rota.errors import RotaError
from rota.jobs import Change, Discarded, Job, JobId, Succeeded, decide_complete, decide_outcome
from rota.stores.redis.address import RedisSettings, read_address
from rota.stores.redis.rows import Head, Links, decode_head
from rota.stores.redis.store import RedisStore
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import MINUTE, NOW, SECOND, a_request

STORY_COUNT = 12
STEP_COUNT = 25
INSTANT = SECOND / 1_000_000


class Story:
    """The same calls of a store each time it is told."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)
        self._now = NOW
        self._leased: list[Job] = []
        self._ids: list[JobId] = []

    async def tell(self, store: RedisStore, inserted: list[list[Job]]) -> list[Any]:
        """What the store answers; ``inserted`` are the jobs, or none yet when it is told first."""
        answers: list[Any] = []
        is_first = not inserted
        for step in range(STEP_COUNT):
            self._now += self._chance.choice([0, 0, 1, 2, 61]) * SECOND
            jobs = [self._make_job() for _ in range(self._chance.choice([1, 1, 2, 3, 6]))]
            if is_first:
                inserted.append([*jobs, *jobs[: self._chance.random() < 0.2]])
            else:
                self._chance.random()
            try:
                answers.append(await self._act(store, inserted[step]))
            except RotaError as error:
                answers.append((type(error), str(error)))
        return answers

    async def _act(self, store: RedisStore, jobs: list[Job]) -> object:
        kind = self._chance.random()
        if kind < 0.5:
            self._ids += [job.id for job in jobs]
            return await store.insert(jobs, self._now)
        if kind < 0.75:
            request = a_request(limit=self._chance.choice([1, 3, 10]))
            taken = await store.lease(request, self._now)
            self._leased += taken
            return taken
        if not self._leased:
            return await store.prune(self._now, 2)
        ended = self._chance.choices(self._leased, k=self._chance.choice([1, 2, 4]))
        return await store.apply([self._end(job) for job in ended], self._now)

    def _make_job(self) -> Job:
        choose, now = self._chance.choice, self._now
        created_at = now + choose([-1, 0, 0, 0, 1]) * SECOND
        dues = (created_at, created_at, now, now + INSTANT, now - INSTANT, now + MINUTE)
        fields: dict[str, Any] = {
            "tenant": choose(["default", "b é", "~"]),
            "queue": choose(["default", "q/", "~"]),
            "priority": choose(range(1, 11)),
            "created_at": created_at,
            "due_at": choose(dues),
            "payload": choose([1, 2]),
            "idempotency_key": choose([None, None, "a", "b"]),
        }
        known = choose([None, None, None, None, *self._ids[-1:]])
        if known is not None:
            fields |= choose([{"id": known}, {"dependencies": [known]}])
        return a_job(**fields)

    def _end(self, job: Job) -> Change:
        kind = self._chance.random()
        if kind < 0.15:  # no rule moves when it was due, but a store may be told so
            change = decide_complete(job, self._now)
            moved = replace(change.job, due_at=job.due_at - SECOND)
            return replace(change, job=moved)
        if kind < 0.75:
            return decide_complete(job, self._now)
        return decide_outcome(job, Succeeded() if kind < 0.9 else Discarded("no"), self._now)


def read_keys(settings: RedisSettings) -> dict[bytes, Any]:
    """All that is under the keys of a store, without the versions, by what follows its name."""
    found: dict[bytes, Any] = {}
    with redis.Redis.from_url(settings.url) as client:
        for key in client.scan_iter(match=f"{{{settings.name}}}:*"):
            sort: Any = client.type(key)
            read = {b"hash": client.hgetall, b"zset": lambda key: client.zrange(key, 0, -1)}
            found[key.partition(b":")[2]] = read.get(sort, client.get)(key)
    heads = found.pop(b"heads", {})
    return found | {job_id: _without_version(head) for job_id, head in heads.items()}


def _without_version(head: bytes) -> tuple[Head, Links]:
    texts = decode_head(head)
    return texts._replace(links=""), texts.linked._replace(version=0)


@pytest.mark.parametrize("seed", range(STORY_COUNT))
async def test_both_ways_answer_the_same_and_leave_the_same(
    redis_server_url: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, left = [], []
    inserted: list[list[Job]] = []
    for is_quick in (True, False):
        url = with_option(redis_server_url, "name", f"quick-{token_hex(6)}")
        settings = read_address(url)
        with monkeypatch.context() as patched:
            if not is_quick:
                patched.setattr(RedisStore, "uses_native_paths", False)
            async with await RedisStore.open(settings) as store:
                answers.append(await Story(seed).tell(store, inserted))
        left.append(read_keys(settings))
    assert answers[0] == answers[1]
    assert left[0] == left[1]
    assert b"listing-C" in left[0]
