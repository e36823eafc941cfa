"""Changes the shards among which hashing chooses: one more, or one less.

Hashing then puts some tenants elsewhere, but no job moves by that. So every tenant that has jobs
and would lie elsewhere is noted as an exception first: those that have jobs already by this module,
those that get their first job meanwhile by the process that inserts it.
"""

from collections.abc import Callable

from msgspec.structs import replace

from rota.clock.protocol import Clock
from rota.errors import InvalidInputError, MoveConflictError
from rota.stores.opened import OpenStore
from rota.stores.protocol import KeptDocument
from rota.stores.shards.merge import tenant_of
from rota.stores.shards.mover import Moved, Mover, Report, ignore
from rota.stores.shards.placement import Placement, choose_shard
from rota.stores.shards.store import ShardedStore


async def find_tenants(shard: OpenStore, report: Callable[[int], None]) -> dict[str, int]:
    """The tenants with jobs on a shard, and how many each has. Reads all jobs."""
    counts: dict[str, int] = {}
    cursor: str | None = None
    while True:
        portion = await shard.dump(cursor)
        for record in portion.records:
            if not isinstance(record, KeptDocument):
                tenant = tenant_of(record)
                counts[tenant] = counts.get(tenant, 0) + 1
        report(len(portion.records))
        cursor = portion.cursor
        if cursor is None:
            return counts


class Rehash:
    """Adds shards to those that hashing chooses from, and takes them away."""

    def __init__(self, store: ShardedStore, clock: Clock, report: Report = ignore) -> None:
        self._store = store
        self._clock = clock
        self._report = report

    async def add(self, name: str) -> None:
        """Let hashing put new tenants on a shard. Tenants that have jobs stay where they are."""
        self._store.members.check_name(name, "shard")
        hashed = (await self._store.view.current()).hashed
        if name not in hashed:
            await self._change((*hashed, name))

    async def drain(self, name: str) -> list[Moved]:
        """Let hashing choose other shards than this one, and move its tenants to them."""
        self._store.members.check_name(name, "shard")
        if name == next(iter(self._store.members)):
            raise InvalidInputError(
                f'"{name}" is the home shard, which holds all documents and cannot be emptied',
                {"field": "shard", "value": name},
            )
        hashed = (await self._store.view.current()).hashed
        if name in hashed:
            await self._change(tuple(each for each in hashed if each != name))
        mover = Mover(self._store, self._clock, self._report)
        moved: list[Moved | None] = []
        placement = await self._store.view.current()
        tenants = (await self._tenants_of(name)).keys() | placement.tied_to(name)
        for tenant in sorted(tenants):
            placement = await self._store.view.current()
            move = placement.moves.get(tenant)
            target = choose_shard(tenant, placement.hashed) if move is None else move.target
            if move is not None or placement.locate(tenant) == name:
                moved.append(await mover.move(tenant, target))
        return [each for each in moved if each is not None]

    async def _tenants_of(self, name: str) -> dict[str, int]:
        done = 0

        def report(count: int) -> None:
            nonlocal done
            done += count
            self._report(f"looking for tenants on {name}", done, 0)

        return await find_tenants(self._store.members[name], report)

    async def _change(self, names: tuple[str, ...]) -> None:
        view = self._store.view

        def announce(known: Placement) -> Placement:
            if known.next_hashed not in (None, names):
                raise MoveConflictError(
                    f"The shards are being changed to {', '.join(known.next_hashed or ())}: "
                    "complete that first, with the same command",
                    {"shards": list(known.next_hashed or ())},
                )
            return replace(known, next_hashed=names)

        await view.change(announce)
        self._report("waiting for other processes", 0, 0)
        await self._clock.sleep(view.timing.settled_after)
        tenants: set[str] = set()
        for name in self._store.members:
            tenants |= (await self._tenants_of(name)).keys()
        await view.pin(tenants)
        await view.change(lambda known: _switch(known, names))


def _switch(known: Placement, names: tuple[str, ...]) -> Placement:
    if known.next_hashed != names:
        return known
    kept = {
        tenant: shard
        for tenant, shard in known.exceptions.items()
        if choose_shard(tenant, names) != shard
    }
    return replace(known, hashed=names, next_hashed=None, exceptions=kept)
