"""The store seam: versioned documents, and what every backend must guarantee about them.

A document is opaque bytes under a key in a collection, with a version that only grows. The version
is what makes a claim safe: a write names the version it was decided on, and is refused when the
document has moved on since.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeAlias

from rota.jobs import Attempt, Job, JobId


class Reach(Enum):
    """Who else may hold the same store open; decides how a dead peer is told from a living one."""

    PROCESS = "process"
    HOST = "host"
    NETWORK = "network"


class Document(NamedTuple):
    """What is remembered under one key."""

    key: str
    version: int
    body: bytes


class DocumentWrite(NamedTuple):
    """A write that holds only while the document is still at ``expected``.

    ``expected=None`` means there must be no such document yet; ``body=None`` removes it. Both
    together write nothing and hold only while there is no such document. A document that is removed
    and made anew starts again at version 1.

    Collections and keys are text of 1 to 255 characters without NUL, of which any two that differ
    are different; a body is any bytes, of 1 MiB and more.
    """

    collection: str
    key: str
    expected: int | None
    body: bytes | None

    @property
    def next_version(self) -> int:
        """The version of the document once this has been written; 0 when it is gone."""
        return 0 if self.body is None else (self.expected or 0) + 1


class DocumentStore(Protocol):
    """Remembers versioned documents. Every write that returned is durable.

    A call with a name that cannot be kept raises InvalidInputError, one the store cannot carry out
    for now StoreUnavailableError; in both cases nothing has been written. The exception is a
    connection that was lost on the way, told by ``details["outcome"]``, which is then "unknown":
    its write, like that of a caller who is cancelled while waiting, was carried out wholly or not
    at all, and reading again tells which.
    """

    reach: Reach

    def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
        """All documents of a collection in key order, page by page.

        Keys are ordered by code point. Each page is consistent in itself and not empty; between
        pages others may write. What is there from the first page to the last is seen exactly once.
        """
        ...

    async def read(self, collection: str, keys: Sequence[str]) -> dict[str, Document]:
        """The documents that exist among ``keys``, as of one moment."""
        ...

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        """Apply each write that is still current, in one durable step.

        Returns, write by write, the new version (0 for a removal), or None where it was stale and
        nothing was written. A write sees those before it in the same call. On an error none of them
        has been applied.
        """
        ...

    async def write_all(self, writes: Iterable[DocumentWrite]) -> None:
        """Apply all writes or none; StaleVersionError names the first that was not current.

        ``writes`` may be a long stream: it is consumed as it is written, never held as a whole,
        and possibly by another thread. What it raises is passed on, and nothing is written.
        """
        ...

    async def close(self) -> None:
        """Release the store. Calls under way are completed first; later ones are refused.

        Closing what is closed is no error.
        """
        ...


class TransactionalStore(DocumentStore, Protocol):
    """Documents that can also take part in a transaction that the caller has begun.

    ``connection`` is the caller's own, to the database of the store. Both verbs raise
    UnsupportedConnectionError when the store knows no such connection, or it has no transaction
    under way. What the database itself refuses may have ended the caller's transaction.
    """

    async def read_within(
        self, connection: Any, collection: str, keys: Sequence[str]
    ) -> dict[str, Document]:
        """As ``read``, as the caller's transaction sees it."""
        ...

    async def write_within(self, connection: Any, writes: Sequence[DocumentWrite]) -> None:
        """As ``write_all``; it holds when the caller commits, and never if they roll back.

        StaleVersionError, and the transaction as it was before, when one is not current. Until the
        transaction ends it keeps others from writing the same documents: where somebody else's
        transaction has written one, wait for its end, and judge what is current then.
        """
        ...


class KeptDocument(NamedTuple):
    """A document as it is kept, with the collection it is in."""

    collection: str
    key: str
    version: int
    body: bytes


class KeptJob(NamedTuple):
    """A job as it is kept, at whatever stage, with its attempts, the first one first."""

    job: Job
    attempts: tuple[Attempt, ...] = ()


class UnreadableJob(NamedTuple):
    """What is kept of a job that cannot be read.

    ``content`` is JSON: whatever its first store had of it, in that store's own form, and why it
    cannot be read. It stays the same however often it is copied. ``dependencies`` are in order.
    """

    job_id: JobId
    tenant: str
    queue: str
    dependencies: tuple[JobId, ...]
    content: bytes


Record: TypeAlias = KeptDocument | KeptJob | UnreadableJob
"""Anything that a store keeps."""


class Portion(NamedTuple):
    """Some of what a store keeps, none perhaps; without a cursor it is the last."""

    records: Sequence[Record]
    cursor: str | None


class PortableStore(Protocol):
    """A store whose content can be taken to another one, as it is.

    What is taken out of one store and put into an empty one is all there is to it: the second goes
    on exactly where the first was, with every version, token, lease and dependency.
    """

    async def dump(self, cursor: str | None = None, limit: int = 1000) -> Portion:
        """A portion of everything that is kept, from the beginning or from where another ended.

        Every record is met once as long as nobody writes; the order is the store's own. A portion
        is small, in records and in bytes, however much is kept. Nothing is changed.
        InvalidCursorError when ``cursor`` is none of this store's; StoreUnavailableError while the
        store has yet to complete what it promised before.
        """
        ...

    async def load(self, records: Sequence[Record], now: datetime) -> int:
        """Keep records as they are, with their versions, tokens and stages; how many were new.

        What is there already, under the same name or id, is left as it is, so that repeating a call
        changes nothing. Records come in any order: a job may depend on one that follows later. When
        all have come, everybody waits for exactly those for whom they waited. Nobody is woken.
        Meant for a store with which nobody works yet.
        """
        ...
