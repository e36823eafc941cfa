"""What all contestants on Rota's stores share: ``open_store``, and jobs that are admitted."""

import random
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from bench.queue_contest.peers.contestant import PAYLOAD, SETTINGS, make_payload, paced, pieces
from msgspec.structs import replace

from rota import open_store
from rota.jobs import Job, JobRequest, admit_job, decide_complete, make_job_ids
from rota.stores.protocol import LeaseRequest

KIND = "noop"
QUEUE = "bench"
HOUR = timedelta(hours=1)


class RotaStore:
    """The verbs that lay jobs in, through the public names."""

    async def connect(self) -> None:
        self._store: Any = await open_store(SETTINGS["url"])
        self._chance = random.Random()

    async def prepare(self) -> None:
        await self.connect()
        await self._store.close()

    async def enqueue(self, count: int) -> None:
        for _ in range(count):
            await self._hand_in(1, PAYLOAD)

    async def bulk(self, count: int) -> None:
        for size in pieces(count):
            await self._hand_in(size, PAYLOAD)

    async def feed(self, count: int, rate: int) -> None:
        await paced(count, rate, lambda: self._hand_in(1, make_payload(time.time())))

    async def _hand_in(self, count: int, payload: dict[str, Any]) -> None:
        now = datetime.now(UTC)
        await self._store.insert(make_jobs(count, payload, now, self._chance.getrandbits(62)), now)


class LeaseCycles(RotaStore):
    """Lease and complete through the store alone, without a worker."""

    async def cycle(self, count: int, batch: int) -> None:
        """Lease and complete so many jobs, in batches."""
        done = 0
        while done < count:
            leased = await self._settle_one_batch(batch)
            if not leased:
                raise RuntimeError(f"no job left after {done} of {count}")
            done += leased

    async def _settle_one_batch(self, batch: int) -> int:
        now = datetime.now(UTC)
        request = LeaseRequest(worker="bench", limit=batch, lease_for=HOUR)
        leased: list[Job] = await self._store.lease(request, now)
        await self._store.apply([decide_complete(job, now) for job in leased], now)
        return len(leased)

    async def _insert_one(self, due_at: datetime | None) -> str:
        now = datetime.now(UTC) - HOUR
        (job,) = make_jobs(1, PAYLOAD, now, self._chance.getrandbits(62))
        await self._store.insert([replace(job, due_at=due_at or now)], now)
        return job.id


def make_jobs(
    count: int, payload: dict[str, Any], now: datetime, random_bits: int, queue: str = QUEUE
) -> list[Job]:
    """So many admitted jobs, every field of them checked."""
    request = JobRequest(name="bench", queue=queue, kind=KIND, payload=payload)
    return [
        admit_job(request, job_id=job_id, now=now)
        for job_id in make_job_ids(now, random_bits, count)
    ]
