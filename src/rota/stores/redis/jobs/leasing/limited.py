"""``lease`` under limits: who gets which place is decided here, and holds if nobody came between.

The script that hands out the jobs compares how often jobs have been handed out since the decision
began. When another caller was quicker, it is made again; the callers of one process wait for each
other.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from rota.jobs import Job, format_instant, parse_instant
from rota.jobs.record import HIGHEST_PRIORITY
from rota.stores.kernel.limits import (
    Candidate,
    Room,
    Standing,
    choose_jobs,
    counts_running,
    make_candidate,
    part_of,
)
from rota.stores.kernel.turns import order_turns
from rota.stores.kernel.unit import Partition
from rota.stores.protocol import LeaseRequest
from rota.stores.redis.database import Database
from rota.stores.redis.jobs.rows import decode_all, encode_names
from rota.stores.redis.scripts import Script, load_script

LANES = load_script(__package__, "lanes")
CANDIDATES = load_script(__package__, "candidates")
TAKE = load_script(__package__, "take")

ID_LENGTH = 36
RUNNING = b"U"


async def lease_limited(database: Database, request: LeaseRequest, now: datetime) -> list[Job]:
    """Due jobs for which there is a place, round by round; see ``selection``."""
    while True:
        decision = await _begin(database, request, now)
        chosen = await decision.choose()
        if not chosen:
            return []
        shown = await decision.take(chosen)
        if shown is not None:
            return decode_all(shown)


async def _begin(database: Database, request: LeaseRequest, now: datetime) -> "_Decision":
    """What there is to decide about."""
    arguments = (
        format_instant(now),
        encode_names(request.queues),
        encode_names(request.tenants),
    )
    found = await _ask(database, LANES, arguments)
    leases, names, counts = found
    lanes = list(zip(_texts(names[::2]), _texts(names[1::2]), strict=True))
    running: dict[Partition, int] = {}
    if counts_running(request.caps):
        for field, number in zip(counts[::2], counts[1::2], strict=True):
            if field.startswith(RUNNING):
                tenant, queue, _ = field[1:].decode().split("\0")
                running[tenant, queue] = int(number)
    return _Decision(database, request, now, leases, lanes, Room(request.caps, running))


class _Decision(NamedTuple):
    """One look at what is due, and what is made of it."""

    database: Database
    request: LeaseRequest
    now: datetime
    leases: bytes
    lanes: list[Partition]
    """Those in which there is a due job that was not chosen yet."""
    room: Room

    async def choose(self) -> list[Candidate]:
        """The jobs of all rounds, until there are enough or nobody is left."""
        chosen: list[Candidate] = []
        while len(chosen) < self.request.limit:
            found = await self._choose_round(chosen)
            if not found:
                break
            chosen += found
        return chosen

    async def take(self, chosen: Sequence[Candidate]) -> Any:
        """Hand the chosen jobs out; None when that cannot be done any more."""
        request = self.request
        arguments = [
            format_instant(self.now),
            format_instant(self.now + request.lease_for),
            request.worker,
            self.leases if counts_running(request.caps) else "",
        ]
        for job in chosen:
            arguments += job.job_id, job.tenant, job.queue
        return await self.database.write(TAKE, self.database.keys.jobs, arguments)

    async def _choose_round(self, before: Sequence[Candidate]) -> list[Candidate]:
        limit = self.request.limit - len(before)
        with_place = [lane for lane in self.lanes if self.room.has_place(*lane)]
        due = {tenant for tenant, _ in with_place}
        tenants = order_turns(due, self.request.after_tenant)[:limit]
        if not tenants:
            return []
        part = part_of(limit, len(tenants))
        lanes = [lane for lane in with_place if lane[0] in tenants]
        found = await self._look_along(lanes, part, before)
        candidates = [job for jobs in found.values() for job in jobs[:part]]
        chosen = choose_jobs(tenants, candidates, limit, self.room)
        self._forget_empty(found, chosen)
        return chosen

    async def _look_along(
        self, lanes: Sequence[Partition], part: int, before: Sequence[Candidate]
    ) -> dict[Partition, list[Candidate]]:
        """More than ``part`` jobs of each lane, or all there are, without those chosen before."""
        gone = {job.job_id for job in before}
        used = Counter((job.tenant, job.queue) for job in before)
        arguments: list[Any] = [format_instant(self.now)]
        for tenant, queue in lanes:
            is_aged = "1" if queue in (self.request.ageing or {}) else ""
            arguments += tenant, queue, part + used[tenant, queue] + 1, is_aged
        answer = await _ask(self.database, CANDIDATES, arguments)
        found: dict[Partition, list[Candidate]] = {}
        for lane, tails in zip(lanes, answer, strict=True):
            standing = (_stand(lane, tail.decode()) for tail in tails)
            jobs = (make_candidate(each, self.request.ageing, self.now) for each in standing)
            found[lane] = sorted(job for job in jobs if job.job_id not in gone)
        return found

    def _forget_empty(
        self, found: Mapping[Partition, Sequence[Candidate]], chosen: Sequence[Candidate]
    ) -> None:
        """Leave the lanes out from which every job was chosen."""
        taken = Counter((job.tenant, job.queue) for job in chosen)
        for lane, jobs in found.items():
            if len(jobs) == taken[lane]:
                self.lanes.remove(lane)


async def _ask(database: Database, script: Script, arguments: Sequence[Any]) -> Any:
    """What a script finds; it is asked again while jobs are still to be moved."""
    while True:
        found = await database.write(script, database.keys.jobs, arguments)
        if found is not None:
            return found


def _stand(lane: Partition, tail: str) -> Standing:
    """The job at a place in line: rank, created and id, written together."""
    rank, created_at, job_id = tail[:2], tail[2:-ID_LENGTH], tail[-ID_LENGTH:]
    return Standing(job_id, *lane, HIGHEST_PRIORITY - int(rank), parse_instant(created_at))


def _texts(names: Sequence[bytes]) -> list[str]:
    return [name.decode() for name in names]
