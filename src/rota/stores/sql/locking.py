"""Units of work on a server: whatever a plan may write is locked when it is read."""

from collections import defaultdict
from collections.abc import Collection, Sequence

from rota.jobs import JobId
from rota.stores.rows import Row
from rota.stores.sql.server import ServerSession
from rota.stores.sql.unit import Unit


class LockingUnit(Unit[ServerSession]):
    """Rows are locked in the order of their ids."""

    async def _find_waiting(self, parents: Collection[JobId], *, is_deep: bool) -> Sequence[Row]:
        """Level by level: who depends on a job is read once the job is locked."""
        found: list[Row] = []
        seen: set[JobId] = set()
        level = set(parents)
        while level:
            parents_of: defaultdict[JobId, list[JobId]] = defaultdict(list)
            links = await self._read_links(self._queries.find_children, level)
            for parent, children in links.items():
                for child in children:
                    parents_of[child].append(parent)
            rows = [*await self._session.fetch(self._queries.lock_waiting, ids=sorted(parents_of))]
            found += [(*row[:-1], each, row[-1]) for row in rows for each in parents_of[row[0]]]
            level = {row[0] for row in rows} - seen if is_deep else set()
            seen |= level
        return found

    async def _find_ancestors(self, job_ids: Collection[JobId]) -> dict[JobId, list[JobId]]:
        await self._session.fetch(self._queries.lock_row, name="dependencies")
        found: dict[JobId, list[JobId]] = {}
        level = set(job_ids)
        while level:
            links = await self._read_links(self._queries.find_parents, level)
            found |= links
            level = {parent for parents in links.values() for parent in parents} - found.keys()
        return found

    async def _lock_ended(self, job_ids: Sequence[JobId]) -> Collection[JobId]:
        """Once they are locked, they gain no dependent: those that just did are left out."""
        locked = await self.read_statuses(job_ids)
        return locked.keys() - await self._read_links(self._queries.find_children, job_ids)
