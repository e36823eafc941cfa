"""What processes watch for each other: conditions that a person should know of while they last."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from rota.stores.documents import decode_body, find_document
from rota.stores.protocol import DocumentStore, DocumentWrite

NOTICES = "notices"
"""The collection of the one document with the latest report."""

LATEST = "latest"

NoticeConcern = Literal["held", "task_late", "task_fails", "overdue"]
NoticeSource = Literal["maintenance", "series", "queue", "task"]
_SECOND = timedelta(seconds=1)


class Notice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One condition.

    - ``held``: maintenance or a pause holds back ``count`` jobs.
    - ``task_late``: a declarative task is due and has not started.
    - ``task_fails``: the last ``count`` runs of a declarative task failed.
    - ``overdue``: a dead-man switch: no success by ``since``.

    ``name`` is that of the series or task, or the scope of the maintenance or of the pause.
    ``since`` is when the condition began, if that is known. ``is_sent``: the webhook has answered.
    """

    concern: NoticeConcern
    source: NoticeSource
    name: str
    tenant: str = ""
    count: int = 1
    since: datetime | None = None
    text: str
    is_sent: bool = False

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What makes it the same condition from one report to the next."""
        return self.concern, self.source, self.tenant, self.name

    def seconds_at(self, now: datetime) -> float:
        """How long the condition has lasted."""
        return 0.0 if self.since is None else max((now - self.since) / _SECOND, 0.0)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All notices as of ``taken_at``, found by the process ``by``."""

    taken_at: datetime
    by: str = ""
    notices: tuple[Notice, ...] = ()


class StoredReport(msgspec.Struct, frozen=True):
    """A report, and the version of its document."""

    report: Report
    version: int

    def write(self, report: Report) -> DocumentWrite:
        return write_report(report, self.version)


def write_report(report: Report, version: int | None = None) -> DocumentWrite:
    return DocumentWrite(NOTICES, LATEST, version, msgspec.json.encode(report))


async def read_report(store: DocumentStore) -> StoredReport | None:
    """The latest report; None if there is none that can be read."""
    found = await find_document(store, NOTICES, LATEST)
    if found is None:
        return None
    return StoredReport(decode_body(found, Report, Report(taken_at=_NEVER)), found.version)


_NEVER = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def list_new(before: Sequence[Notice], now: Sequence[Notice]) -> list[Notice]:
    """The notices of ``now`` whose conditions are not in ``before``."""
    known = {it.key for it in before}
    return [it for it in now if it.key not in known]
