"""Which shard holds a tenant, and which tenants are on their way.

Rendezvous hashing over the names of the shards decides: each process computes the same answer
without asking. The placement document on the home shard has the exceptions and the moves. Pure.
"""

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Literal

import msgspec
from msgspec.structs import replace

from rota.jobs.record import Instant

COLLECTION = "rota.shards"
"""Documents of the shards themselves; ``dump`` leaves them out."""

PLACEMENT = "placement"


def _weight(tenant: str, name: str) -> bytes:
    return blake2b(f"{name}\0{tenant}".encode(), digest_size=8).digest()


Phase = Literal["copying", "frozen", "removing"]


class Move(msgspec.Struct, frozen=True):
    """A tenant on its way to another shard.

    ``copying``: its jobs are copied; the tenant works where it is. ``frozen``: nothing is written
    for the tenant, so that what has changed can be copied; a freeze that its mover does not renew
    ends at ``until``. ``removing``: the tenant works on the target; the source still has
    ``job_count`` copies.
    """

    source: str
    target: str
    by: str
    until: Instant
    since: Instant
    phase: Phase = "copying"
    job_count: int = 0

    @property
    def closed_shards(self) -> tuple[str, ...]:
        """Where no job of the tenant may be leased."""
        both = (self.source, self.target)
        return {"copying": both[1:], "frozen": both, "removing": both[:1]}[self.phase]


class Placement(msgspec.Struct, frozen=True):
    """Where tenants lie, and which are on their way.

    ``hashed`` are the shards among which hashing chooses, ``exceptions`` tenants that lie
    elsewhere. While the shards to choose from change, ``next_hashed`` has the new ones: until then
    a tenant that gets its first job is noted as an exception.
    """

    hashed: tuple[str, ...]
    exceptions: dict[str, str] = {}
    moves: dict[str, Move] = {}
    next_hashed: tuple[str, ...] | None = None

    def locate(self, tenant: str) -> str:
        """The name of the shard that holds a tenant."""
        return self.exceptions.get(tenant) or choose_shard(tenant, self.hashed)

    def frozen(self, tenant: str) -> Move | None:
        """The move for which nothing may be written for a tenant, if there is one."""
        move = self.moves.get(tenant)
        return move if move is not None and move.phase == "frozen" else None

    def closed_on(self, shard: str) -> list[str]:
        """The tenants of which nothing may be leased on a shard."""
        return [tenant for tenant, move in self.moves.items() if shard in move.closed_shards]

    def copied_on(self, shard: str) -> list[str]:
        """The tenants that have copies on a shard on which they do not lie."""
        return [each for each in self.closed_on(shard) if self.locate(each) != shard]

    def tied_to(self, shard: str) -> set[str]:
        """The tenants of which the document says that they lie on a shard, or move from it."""
        placed = {tenant for tenant, name in self.exceptions.items() if name == shard}
        return placed | {tenant for tenant, move in self.moves.items() if move.source == shard}

    def unpinned(self, tenants: Iterable[str]) -> set[str]:
        """Tenants that hashing would put elsewhere once the shards to choose from have changed."""
        names = self.next_hashed
        if names is None:
            return set()
        return {
            tenant
            for tenant in tenants
            if tenant not in self.exceptions
            and choose_shard(tenant, names) != choose_shard(tenant, self.hashed)
        }

    def put(self, tenant: str, shard: str) -> "Placement":
        """The tenant lies on this shard; an exception only if hashing says otherwise."""
        others = {each: name for each, name in self.exceptions.items() if each != tenant}
        if self.next_hashed is None and choose_shard(tenant, self.hashed) == shard:
            return replace(self, exceptions=others)
        return replace(self, exceptions={**others, tenant: shard})

    def with_move(self, tenant: str, move: Move | None) -> "Placement":
        """The same with this move of the tenant, or with none."""
        others = {each: known for each, known in self.moves.items() if each != tenant}
        return replace(self, moves=others if move is None else {**others, tenant: move})


@lru_cache(maxsize=100_000)
def choose_shard(tenant: str, names: tuple[str, ...]) -> str:
    """The shard that hashing chooses. A new name takes tenants only for itself."""
    return max(names, key=lambda name: _weight(tenant, name))
