"""Keeps a worker's gates up to date with the store."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from rota.jobs.record import Job
from rota.policy.gate_settings import GATES, Chain, Damage, Entry, decode_entry, make_gate_settings
from rota.policy.gates import Closed, Gate, Open, Refreshed, Spread, Verdict, spread_out

CHANGES = "gate_changes"
"""The collection of the one document whose version grows with every gate change."""

LATEST_CHANGE = "latest"

REFRESH_FOR = timedelta(seconds=2)
"""How long the last read is trusted."""

REREAD_FOR = timedelta(minutes=1)
"""How soon a change is noticed when its writer died before it could notify."""

_UNREAD = "the gates have not been read yet"


class StoredDocument(Protocol):
    """A document, as stores return it."""

    @property
    def key(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def body(self) -> bytes: ...


class GateDocuments(Protocol):
    """The part of a document store that a gate watch needs."""

    def scan(self, collection: str) -> AsyncIterator[Sequence[StoredDocument]]:
        """All documents of the collection, page by page."""
        ...

    async def read(self, collection: str, keys: Sequence[str]) -> Mapping[str, StoredDocument]:
        """The documents that exist among ``keys``."""
        ...


class GateWatch:
    """A gate that follows the store. Call ``refresh`` before ``judge``.

    It also asks the gates in ``more``, and refreshes them if they can be refreshed. Jobs that would
    all start when a gate opens are spread. Until the first read it is closed to all jobs. An
    unreadable document is listed in ``damages``; its last readable version still applies.
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
        """Read changes, unless that happened a moment ago. Returns whether the gates were read.

        Store errors are raised, and the last read still applies. Gates in ``more`` come last, so
        that a failing one does not keep the stored ones from being refreshed.
        """
        was_read = await self._refresh_stored(now, self._refresh_for)
        for gate in self._refreshed:
            await gate.refresh(now)
        return was_read

    async def refresh_ahead(self, now: datetime) -> None:
        """Read stored changes when half of the refresh interval has passed.

        Done while idle, this saves the next job the wait.
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
        """The verdict of the stored entries and all other gates, spread over time."""
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
        board = make_gate_settings(entry for _, entry in known.values())
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
    """Whether the last read is recent. False when the clock was set back."""
    return instant is not None and instant <= now < instant + lasting
