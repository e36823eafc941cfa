"""``delete`` and ``prune``: what goes, and what goes with it."""

import heapq
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from rota.errors import JobNotFoundError
from rota.jobs import Job, JobId, check_deletion
from rota.stores.postgres.jobs.connections.statements import Statements
from rota.stores.postgres.jobs.queries import QUERIES
from rota.stores.postgres.jobs.rows import decode_job, known_ids


async def delete(statements: Statements, tenant: str, job_id: JobId) -> Job:
    """Remove a job at whatever stage; see the protocol."""
    async with statements.transaction():
        rows = await statements.fetch(QUERIES.lock_jobs, known_ids([job_id]))
        if not rows or rows[0][1] != tenant:
            raise JobNotFoundError(job_id)
        job = decode_job(rows[0])
        links = await statements.fetch(QUERIES.find_children, [job_id])
        check_deletion(job_id, [child for _, child in links])
        await remove(statements, [job])
    return job


async def remove(statements: Statements, jobs: Sequence[Job]) -> None:
    """Remove locked jobs on which nobody depends, with all that belongs to them."""
    parents = {each for job in jobs for each in job.dependencies}
    await _remove_all(statements, [job.id for job in jobs], parents)


async def prune(statements: Statements, ended_before: datetime, limit: int) -> int:
    """Remove jobs that ended before then, the longest ago first, and on which none depends."""
    async with statements.transaction():
        return await _Pruning(statements, ended_before).run(limit)


async def _remove_all(
    statements: Statements, job_ids: Collection[JobId], parents: Iterable[JobId]
) -> None:
    if not job_ids:
        return
    ids, freed = sorted(job_ids), known_ids(each for each in parents if each not in job_ids)
    if parents:
        await statements.fetch(QUERIES.lock_jobs, freed)
        await statements.fetch(QUERIES.remove_dependencies, ids)
        await statements.fetch(QUERIES.unmark_awaited, freed)
    await statements.fetch(QUERIES.remove_attempts, ids)
    await statements.fetch(QUERIES.remove_jobs, ids)


class _Pruning:
    """Takes the longest ended first; one that the last dependent leaves behind joins the rest."""

    def __init__(self, statements: Statements, ended_before: datetime) -> None:
        self._statements = statements
        self._ended_before = ended_before
        self._parents: dict[JobId, list[JobId]] = {}
        self._ended_at: dict[JobId, datetime] = {}
        self._child_counts: dict[JobId, int] = {}

    async def run(self, limit: int) -> int:
        rows = await self._statements.fetch(QUERIES.find_ended, self._ended_before, limit)
        found = [(ended_at, job_id) for job_id, ended_at in rows]
        await self._read_parents([job_id for _, job_id in found])
        gone: dict[JobId, None] = {}
        while found and len(gone) < limit:
            _, job_id = heapq.heappop(found)
            gone[job_id] = None
            for freed in self._free_parents_of(job_id):
                await self._read_parents([freed])
                heapq.heappush(found, (self._ended_at[freed], freed))
        touched = {each for job_id in gone for each in self._parents.get(job_id, ())}
        await _remove_all(self._statements, gone.keys(), touched)
        return len(gone)

    def _free_parents_of(self, job_id: JobId) -> list[JobId]:
        freed: list[JobId] = []
        for parent in self._parents.get(job_id, ()):
            if parent in self._child_counts:
                self._child_counts[parent] -= 1
                if not self._child_counts[parent]:
                    freed.append(parent)
        return freed

    async def _read_parents(self, job_ids: Sequence[JobId]) -> None:
        """On whom these depend; of those who have ended, when, and how many depend on them."""
        if not job_ids:
            return
        for child, parent in await self._statements.fetch(QUERIES.find_parents, sorted(job_ids)):
            self._parents.setdefault(child, []).append(parent)
        named = {each for job_id in job_ids for each in self._parents.get(job_id, ())}
        new = sorted(named - self._child_counts.keys())
        if not new:
            return
        await self._statements.fetch(QUERIES.lock_jobs, new)
        rows = await self._statements.fetch(QUERIES.find_freed, new, self._ended_before)
        for job_id, ended_at, child_count in rows:
            self._ended_at[job_id] = ended_at
            self._child_counts[job_id] = child_count
