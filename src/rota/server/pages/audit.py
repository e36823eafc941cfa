"""The audit log page."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from rota.jobs import JobId
from rota.ops.audit import list_audit_entries
from rota.policy.audit import AuditEntry
from rota.server.pages.visit import Visit

MOST_SHOWN = 50
JOBS_NAMED = 3
_LONGEST_DETAIL = 120
_HUMP = re.compile(r"(?<=[a-z])([A-Z])")


class NamedJob(NamedTuple):
    """A job in an entry. Without a name it no longer exists."""

    id: JobId
    name: str | None


class EntryRow(NamedTuple):
    """One entry in words, with the names of the first few jobs."""

    at: datetime
    who: str
    words: str
    why: str
    jobs: list[NamedJob]
    more_count: int
    details: str


async def read_audit(visit: Visit) -> dict[str, Any]:
    cursor = visit.ask("cursor") or None
    page = await list_audit_entries(visit.store, visit.tenant, cursor=cursor, limit=MOST_SHOWN)
    wanted = {each for entry in page.items for each in entry.job_ids[:JOBS_NAMED]}
    known = await visit.store.get(visit.tenant, sorted(wanted)) if wanted else {}
    names = {job_id: job.name for job_id, job in known.items()}
    return {
        "entries": [_show_entry(entry, names) for entry in page.items],
        "older": visit.link("audit", cursor=page.next_cursor) if page.next_cursor else None,
        "newest": visit.link("audit") if cursor else None,
    }


def _show_entry(entry: AuditEntry, names: Mapping[JobId, str]) -> EntryRow:
    details = [_show_detail(name, value) for name, value in entry.details.items()]
    jobs = [NamedJob(each, names.get(each)) for each in entry.job_ids[:JOBS_NAMED]]
    more_count = len(entry.job_ids) - len(jobs)
    words = _in_words(entry.action)
    return EntryRow(entry.at, entry.who, words, entry.why, jobs, more_count, ", ".join(details))


def _show_detail(name: str, value: object) -> str:
    return f"{_in_words(name)}: {_show(value)}"[:_LONGEST_DETAIL]


def _show(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " ".join(str(_show(each)) for each in value) or "none"
    return "none" if value is None else value


def _in_words(name: str) -> str:
    """``endsSeries`` and ``ends_series`` as "ends series"."""
    return _HUMP.sub(r" \1", name).replace("_", " ").replace(".", " ").lower()
