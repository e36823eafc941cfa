"""The shards of one store, known again when it is opened, and the placement as a process knows it.

A mark on each shard says which shard it is, so that stores cannot be confused or forgotten. A
process acts on a placement that is at most ``fresh_for`` old; so whatever changes in it is known to
all processes ``settled_after`` later, calls that were under way included.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from rota.clock.protocol import Clock
from rota.errors import (
    InvalidInputError,
    StoreDamagedError,
    StoreUnavailableError,
    UnsupportedConnectionError,
)
from rota.stores.opened import OpenStore
from rota.stores.protocol import Document, DocumentWrite
from rota.stores.shards.placement import COLLECTION, PLACEMENT, Placement

MEMBER = "member"


class Timing(NamedTuple):
    """How long processes go on with what they know. All processes of a store have the same."""

    read_every: timedelta = timedelta(seconds=1)
    """How often a process that works reads the placement."""
    fresh_for: timedelta = timedelta(seconds=5)
    """Without the home shard a process goes on for that long."""
    calls_for: timedelta = timedelta(seconds=5)
    """How long a call to a shard may take."""
    held_for: timedelta = timedelta(seconds=60)
    """A mover that has not been heard of for that long counts as dead, and its freeze ends."""

    @property
    def settled_after(self) -> timedelta:
        """Time after which no process acts on an earlier placement."""
        return self.fresh_for + self.calls_for


Content = TypeVar("Content", bound=msgspec.Struct)


class Member(msgspec.Struct, frozen=True):
    """What a shard knows about itself."""

    name: str
    home: str


async def join(shards: Mapping[str, OpenStore]) -> Placement:
    """The placement of these shards, created if they are new. Refuses stores that do not belong.

    InvalidInputError says which shard is missing, unknown, or has another name.
    """
    home = next(iter(shards))
    for name, store in shards.items():
        member = await _read(store, MEMBER, Member)
        if member is not None:
            _check_member(member, name, home)
    placement = await _find_or_create(shards[home], PLACEMENT, Placement(tuple(shards)))
    _check_names(placement, shards)
    for name, store in shards.items():
        _check_member(await _find_or_create(store, MEMBER, Member(name, home)), name, home)
    return placement


def _check_member(member: Member, name: str, home: str) -> None:
    if member.name != name:
        raise _refusal(
            f'the store named "{name}" is shard "{member.name}": give each store its own name'
        )
    if member.home != home:
        raise _refusal(f'the home shard is "{member.home}", not "{home}": name it first')


def _check_names(placement: Placement, names: Collection[str]) -> None:
    moves = placement.moves.values()
    needed = {*placement.hashed, *(placement.next_hashed or ()), *placement.exceptions.values()}
    needed |= {shard for move in moves for shard in (move.source, move.target)}
    missing = sorted(needed - set(names))
    if missing:
        raise _refusal(f"shards are missing: {', '.join(missing)}")


def _refusal(reason: str) -> InvalidInputError:
    return InvalidInputError(
        f"These stores are not the shards of one store: {reason}", {"reason": reason}
    )


async def _read(store: OpenStore, key: str, kind: type[Content]) -> Content | None:
    document = (await store.read(COLLECTION, [key])).get(key)
    return None if document is None else _decode(document, kind)


async def _find_or_create(store: OpenStore, key: str, content: Content) -> Content:
    """The document as it is, or with this content; another process may create it first."""
    stored = await _read(store, key, type(content))
    if stored is None:
        body = msgspec.json.encode(content)
        await store.write_each([DocumentWrite(COLLECTION, key, None, body)])
        stored = await _read(store, key, type(content))
    return content if stored is None else stored


def _decode(document: Document, kind: type[Content]) -> Content:
    try:
        return msgspec.json.decode(document.body, type=kind)
    except msgspec.MsgspecError as error:
        raise StoreDamagedError(
            f"The document {COLLECTION}/{document.key} cannot be read: {error}",
            {"collection": COLLECTION, "key": document.key},
        ) from error


async def check_connection(shard: OpenStore, connection: object, name: str) -> None:
    """Refuse a connection of the caller to another shard: jobs would be lost there."""
    found = (await shard.read_within(connection, COLLECTION, [MEMBER])).get(MEMBER)
    seen = None if found is None else _decode(found, Member).name
    if seen != name:
        raise UnsupportedConnectionError(
            f"it is a connection to {'no shard' if seen is None else f'shard {seen}'}, and these "
            f"jobs lie on shard {name}"
        )


class PlacementView:
    """The placement, read again every now and then, and changed by one process at a time."""

    def __init__(
        self, home: OpenStore, clock: Clock, placement: Placement, timing: Timing | None = None
    ) -> None:
        self.placement = placement
        self.timing = timing or Timing()
        self._version = 0
        self._home = home
        self._clock = clock
        self._read_at = clock.now()
        self._ahead = timedelta(0)
        self._turn = asyncio.Lock()

    def now(self) -> datetime:
        """The time of the home shard."""
        return self._clock.now() + self._ahead

    @property
    def is_fresh(self) -> bool:
        """Whether this process may act on the placement."""
        return self._is_younger_than(self.timing.fresh_for)

    async def current(self) -> Placement:
        """A placement to act on. Ends freezes whose mover has died."""
        if self._is_younger_than(self.timing.read_every):
            return self.placement
        async with self._turn:
            await self._read_if_old()
        if any(self._has_lapsed(tenant) for tenant in self.placement.moves):
            await self.change(self._thaw)
        return self.placement

    async def change(self, decide: Callable[[Placement], Placement]) -> Placement:
        """Change the placement as ``decide`` says, on its latest version."""
        while True:
            version = await self._read()
            wanted = decide(self.placement)
            if wanted == self.placement:
                return wanted
            body = msgspec.json.encode(wanted)
            write = DocumentWrite(COLLECTION, PLACEMENT, version, body)
            if (await self._home.write_each([write])) != [None]:
                self.placement, self._version = wanted, version + 1
                return wanted

    async def pin(self, tenants: Iterable[str]) -> None:
        """Note where these tenants lie, while the shards that hashing chooses from change."""
        loose = self.placement.unpinned(tenants)
        if loose:
            await self.change(
                lambda known: replace(
                    known,
                    exceptions={
                        **known.exceptions,
                        **{each: known.locate(each) for each in known.unpinned(loose)},
                    },
                )
            )

    def _is_younger_than(self, age: timedelta) -> bool:
        return timedelta(0) <= self._clock.now() - self._read_at < age

    async def _read_if_old(self) -> None:
        """Read it, unless another call just has; a placement that is fresh will do as well."""
        if self._is_younger_than(self.timing.read_every):
            return
        try:
            await self._read()
        except StoreUnavailableError:
            if not self.is_fresh:
                raise

    async def _read(self) -> int:
        """Read the document; its version."""
        asked_at = self._clock.now()
        document = (await self._home.read(COLLECTION, [PLACEMENT])).get(PLACEMENT)
        if document is None:
            raise StoreDamagedError(
                "The home shard has no placement of tenants any more",
                {"collection": COLLECTION, "key": PLACEMENT},
            )
        ahead = (await self._home.read_clock() or self._clock.now()) - self._clock.now()
        if document.version >= self._version:  # an answer may be overtaken by a later one
            self.placement = _decode(document, Placement)
            self._version, self._read_at, self._ahead = document.version, asked_at, ahead
        return document.version

    def _has_lapsed(self, tenant: str) -> bool:
        move = self.placement.frozen(tenant)
        return move is not None and move.until <= self.now()

    def _thaw(self, known: Placement) -> Placement:
        """Let tenants work where they are whose mover has not renewed its freeze.

        A mover that is only slow finds its freeze gone, and cannot complete the move with it.
        """
        for tenant in filter(self._has_lapsed, known.moves):
            known = known.with_move(tenant, replace(known.moves[tenant], phase="copying"))
        return known
