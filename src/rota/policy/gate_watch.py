"""The board that a worker goes by, kept up to date with what is stored."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from rota.jobs.record import Job
from rota.policy.gate_settings import GATES, Chain, Damage, Entry, decode_entry, make_board
from rota.policy.gates import Closed, Gate, Open, Refreshed, Spread, Verdict, spread_out

CHANGES = "gate_changes"
"""The collection of the one document whose version grows with every change of a gate."""

LATEST_CHANGE = "latest"

REFRESH_FOR = timedelta(seconds=2)
"""How long what was read is taken to be true."""

REREAD_FOR = timedelta(minutes=1)
"""How long it may take to notice a change whose writer died before it could say so."""

_UNREAD = "the gates have not been read yet"


class StoredDocument(Protocol):
    """A document, as stores give it."""

    @property
    def key(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def body(self) -> bytes: ...


class GateDocuments(Protocol):
    """What is asked of a store: every store of documents will do."""

    def scan(self, collection: str) -> AsyncIterator[Sequence[StoredDocument]]:
        """All documents of the collection, page by page."""
        ...

    async def read(self, collection: str, keys: Sequence[str]) -> Mapping[str, StoredDocument]:
        """Those that exist among ``keys``."""
        ...


class GateWatch:
    """A gate that follows the store: call ``refresh`` before asking it about jobs.

    Besides the stored windows, the gates in ``more`` are asked, and refreshed if they want to be.
    Jobs that would all start when a gate opens are spread. Until it has read the store for the
    first time it is closed to all jobs. A document that cannot be read is set aside, and told in
    ``damages``; if it could be read before, what it said then still holds.
    """

    def __init__(
        self,
        documents: GateDocuments,
        *,
        more: Iterable[Gate] = (),
        spread: Spread | None = None,
        refresh_for: timedelta = REFRESH_FOR,
    ) -> None:
        self._documents = documents
        self._more = tuple(more)
        self._refreshed = [gate for gate in self._more if isinstance(gate, Refreshed)]
        self._spread = spread or Spread()
        self._refresh_for = refresh_for
        self._gate: Gate | None = None
        self._looked_at: datetime | None = None
        self._read_at: datetime | None = None
        self._change = 0
        self._known: dict[str, tuple[bytes, Entry]] = {}
        self._waiting: dict[datetime, int] = {}
        self.damages: tuple[Damage, ...] = ()

    async def refresh(self, now: datetime) -> bool:
        """Look for changes, unless that was done a moment ago; True when the gates were read.

        What the store raises is passed on, and what was read before still holds. Gates in ``more``
        come last, so that one that fails leaves the stored ones as they are now.
        """
        was_read = await self._refresh_stored(now, self._refresh_for)
        for gate in self._refreshed:
            await gate.refresh(now)
        return was_read

    async def refresh_ahead(self, now: datetime) -> None:
        """Look for stored changes when half of the time to the next look is over.

        Whoever does so at leisure spares the next job the wait.
        """
        await self._refresh_stored(now, self._refresh_for / 2)

    async def _refresh_stored(self, now: datetime, recent_for: timedelta) -> bool:
        if _is_recent(self._looked_at, now, recent_for):
            return False
        latest = (await self._documents.read(CHANGES, [LATEST_CHANGE])).get(LATEST_CHANGE)
        change = 0 if latest is None else latest.version
        is_current = change == self._change and _is_recent(self._read_at, now, REREAD_FOR)
        if not is_current:
            await self._read_all()
            self._read_at, self._change = now, change
        self._looked_at = now
        self._waiting = {at: count for at, count in self._waiting.items() if at > now}
        return not is_current

    def judge(self, job: Job, now: datetime, *, notifies: bool) -> Verdict:
        """What the stored windows and all other gates say, spread over time."""
        if self._gate is None:
            return Closed(now + self._refresh_for, _UNREAD, is_recheck=True)
        verdict = self._gate.judge(job, now, notifies=notifies)
        if isinstance(verdict, Open) or verdict.is_recheck or not self._spread.over_for:
            return verdict
        count = self._waiting.get(verdict.reopens_at, 0) + 1
        self._waiting[verdict.reopens_at] = count
        if count <= self._spread.exact_count:
            return verdict
        over_for = self._spread.over_for
        return spread_out(self._gate, job, verdict, now, notifies=notifies, over_for=over_for)

    async def _read_all(self) -> None:
        known: dict[str, tuple[bytes, Entry]] = {}
        damages: list[Damage] = []
        async for page in self._documents.scan(GATES):
            for document in page:
                self._take(document, known, damages)
        board = make_board(entry for _, entry in known.values())
        self._known, self.damages = known, tuple(damages)
        self._gate = Chain((board, *self._more)) if self._more else board

    def _take(
        self,
        document: StoredDocument,
        known: dict[str, tuple[bytes, Entry]],
        damages: list[Damage],
    ) -> None:
        before = self._known.get(document.key)
        if before is not None and before[0] == document.body:
            known[document.key] = before
            return
        entry = decode_entry(document.key, document.body)
        if not isinstance(entry, Damage):
            known[document.key] = (document.body, entry)
            return
        damages.append(entry)
        if before is not None:
            known[document.key] = before


def _is_recent(instant: datetime | None, now: datetime, lasting: timedelta) -> bool:
    """False also when the clock has been set back: nobody knows how long ago that was."""
    return instant is not None and instant <= now < instant + lasting
