"""Failures of a tenant in groups: the same kind of job, exception and place.

Every process adds the failures of its workers to one document for each tenant. The number of groups
is bounded: the groups that were seen last are kept.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import NamedTuple

import msgspec

from rota.events import JobFailed, JobStalled
from rota.jobs.record import Instant
from rota.stores.documents import decode_body, find_document
from rota.stores.protocol import Document, DocumentStore

ERRORS = "errors"
"""The collection. A key is the tenant."""

MOST_GROUPS = 200
MOST_PENDING = 2_000
"""The maximum number of groups of all tenants that wait to be written."""

FORGOTTEN_AFTER = timedelta(days=30)
LONGEST_MESSAGE = 300
LONGEST_PLACE = 200

_FRAME = re.compile(r'File "([^"\n]+)", line \d+, in ([^\n]+)')
_NAME = re.compile(r"([A-Za-z_][\w.]{0,99})(?::|$)")
_TRACEBACK = "Traceback (most recent call last):"
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python", "<frozen ")
_UNNAMED = "Error"
_BY_OUTCOME = {"lost": "Lost", "discarded": "Discarded"}


class Signature(NamedTuple):
    """What the failures of a group have in common.

    ``place`` is the file and function of the innermost frame in the user's own code; empty without
    a traceback.
    """

    kind: str
    name: str
    place: str

    @property
    def id(self) -> str:
        return sha256("\0".join(self).encode()).hexdigest()[:16]


class ErrorGroup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Failed attempts with one signature. ``dead_count`` of them were the last of their job.

    ``job_id``, ``queue`` and ``message`` are those of the latest failure.
    """

    id: str
    kind: str
    name: str
    place: str = ""
    count: int = 1
    dead_count: int = 0
    first_at: Instant
    last_at: Instant
    job_id: str
    queue: str
    message: str = ""

    def __add__(self, other: "ErrorGroup") -> "ErrorGroup":
        latest = max(self, other, key=lambda it: it.last_at)
        return msgspec.structs.replace(
            latest,
            count=self.count + other.count,
            dead_count=self.dead_count + other.dead_count,
            first_at=min(self.first_at, other.first_at),
        )


def sign(kind: str, outcome: str, error: str | None, traceback: str | None) -> Signature:
    """The signature of an attempt, from what is stored of it. An error may be a traceback."""
    text = error or ""
    if _TRACEBACK in text:
        traceback = traceback or text
        text = text.rstrip().rpartition("\n")[2]
    return Signature(kind, _BY_OUTCOME.get(outcome) or _name(text), find_place(traceback))


def _name(error: str) -> str:
    found = _NAME.match(error.partition("\n")[0])
    return _UNNAMED if found is None else found[1]


def find_place(traceback: str | None) -> str:
    """The file and function that raised, without the frames of libraries."""
    raised = (traceback or "").rpartition(_TRACEBACK)[2]
    frames = [(path.replace("\\", "/"), name) for path, name in _FRAME.findall(raised)]
    if not frames:
        return ""
    own = [it for it in frames if not any(library in it[0] for library in _LIBRARIES)]
    path, name = (own or frames)[-1]
    short = "/".join(path.split("/")[-2:])
    return f"{short.lstrip('/')}:{name.strip()}"[:LONGEST_PLACE]


def group_of(event: JobFailed | JobStalled, at: datetime) -> ErrorGroup:
    """A group of this one failure."""
    if isinstance(event, JobFailed):
        signature = sign(event.kind, event.outcome, event.error, event.traceback)
        message = event.error
    else:
        signature = sign(event.kind, "lost", None, None)
        message = f"Lost: worker {event.worker} let its lease run out"
    return ErrorGroup(
        id=signature.id,
        kind=signature.kind,
        name=signature.name,
        place=signature.place,
        dead_count=int(event.state == "dlq"),
        first_at=at,
        last_at=at,
        job_id=event.job_id,
        queue=event.queue,
        message=message[:LONGEST_MESSAGE],
    )


Groups = Mapping[str, ErrorGroup]
"""Groups by their id."""


def add_groups(kept: Groups, more: Iterable[ErrorGroup]) -> dict[str, ErrorGroup]:
    """Add group by group; of too many or too old ones, those seen last are kept."""
    total = dict(kept)
    for group in more:
        found = total.get(group.id)
        total[group.id] = group if found is None else found + group
    newest = sorted(total.values(), key=lambda it: it.last_at, reverse=True)[:MOST_GROUPS]
    oldest = newest[0].last_at - FORGOTTEN_AFTER if newest else None
    return {it.id: it for it in newest if oldest is None or it.last_at >= oldest}


class ErrorCount:
    """The failures of all tenants that are not written yet."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], ErrorGroup] = {}

    def add(self, event: JobFailed | JobStalled, at: datetime) -> None:
        group = group_of(event, at)
        place = event.tenant, group.id
        found = self._groups.get(place)
        if found is not None:
            self._groups[place] = found + group
        elif len(self._groups) < MOST_PENDING:
            self._groups[place] = group

    def by_tenant(self) -> dict[str, list[ErrorGroup]]:
        found: dict[str, list[ErrorGroup]] = {}
        for (tenant, _), group in self._groups.items():
            found.setdefault(tenant, []).append(group)
        return found


def encode_groups(groups: Groups) -> bytes:
    return msgspec.json.encode([*groups.values()])


def decode_groups(document: Document | None) -> dict[str, ErrorGroup]:
    """The groups in the document; none when it is missing or unreadable."""
    return {it.id: it for it in decode_body(document, list[ErrorGroup], ())}


async def read_groups(store: DocumentStore, tenant: str) -> dict[str, ErrorGroup]:
    """The tenant's groups, the latest first. Workers write their counts every few seconds."""
    return decode_groups(await find_document(store, ERRORS, tenant))
