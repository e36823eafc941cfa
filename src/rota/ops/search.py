"""Searches jobs: pages and suggestions. One call looks at a bounded number of jobs."""

import re
from collections import Counter
from contextlib import suppress
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from rota.errors import InvalidCursorError, InvalidInputError
from rota.jobs import Job, check_limit, decode_cursor, encode_cursor
from rota.jobs.search import HIGHEST_LIMIT
from rota.rail.jobs import RailStore
from rota.search.bounds import EXAMPLES
from rota.search.index import IndexChangedError, Parts, count_terms, read_state
from rota.search.lookup import find_matches
from rota.search.query import FIELDS, PAYLOAD_FIELD, JobQuery, Sort, list_tokens
from rota.search.segments import Place, count_micros
from rota.search.terms import CODE, KEY, KIND, PATH, PAYLOAD, QUEUE, WORD, list_terms

MOST_SORTED = 1_000
"""The number of matches that can be sorted by anything but their creation, newest first."""

MOST_SUGGESTED = 16
NEWEST_SUGGESTED = 300
"""The number of newest jobs read for suggestions."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a search has looked.

    Every job created after ``searched_until`` has been looked at; None: every job. ``share`` is the
    part of all jobs that this is, from 0 to 1; None when it is not known.
    """

    searched_until: datetime | None = None
    share: float | None = None


WHOLE = Progress(share=1.0)


class SearchPage(msgspec.Struct, frozen=True):
    """Matches, newest first. With a ``next_cursor`` there may be more.

    A page may have fewer matches than the limit, even none, and still not be the last. ``progress``
    says how far the search has looked.
    """

    items: tuple[Job, ...]
    next_cursor: str | None = None
    progress: Progress = WHOLE

    @property
    def has_more(self) -> bool:
        return self.next_cursor is not None


class Suggestion(msgspec.Struct, frozen=True):
    """A way to go on typing.

    ``text`` replaces the whole text. ``label`` is the part that is new, ``field`` says what it is,
    and ``count`` how many jobs have it, of those that were looked at; None when it is not known.
    """

    text: str
    label: str
    field: str
    count: int | None = None


async def search_jobs(
    store: RailStore,
    tenant: str,
    query: JobQuery,
    *,
    cursor: str | None = None,
    limit: int = 20,
) -> SearchPage:
    """Return the page of matches after ``cursor``, or the first page."""
    check_limit(limit)
    query.check_tenant(tenant)
    if query.sort != "newest":
        return await _sort_all(store, tenant, query, cursor, limit)
    if query.is_plain:
        page = await store.find(tenant, query.wanted, cursor, limit)
        until = page.items[-1].created_at if page.next_cursor else None
        progress = WHOLE if until is None else Progress(searched_until=until)
        return SearchPage(tuple(page.items), page.next_cursor, progress)
    if query.job_id is not None:
        return SearchPage(await _find_by_id(store, tenant, query.job_id, query))
    after = None if cursor is None else _read_cursor(cursor)
    found = await find_matches(store, tenant, query, after, limit)
    if found.last is None:
        return SearchPage(tuple(found.items))
    until = found.last.created_at
    return SearchPage(
        tuple(found.items),
        encode_cursor(until, found.last.job_id),
        Progress(searched_until=until, share=found.share),
    )


def _read_cursor(cursor: str) -> Place:
    created_at, job_id = decode_cursor(cursor)
    return Place(count_micros(created_at), job_id)


async def suggest(store: RailStore, tenant: str, text: str) -> list[Suggestion]:
    """Ways to go on with the last word of a query: fields, ranges, and values that jobs have."""
    tokens = [] if not text or text[-1:].isspace() else list(list_tokens(text))
    last = tokens[-1] if tokens else ""
    before = text[: len(text) - len(last)]
    found = [] if ":" in last or "=" in last else _suggest_fields(before, last)
    found += _suggest_ranges(before, last)
    for letter, start, written in _list_choices(last):
        counts = await _count_terms(store, tenant, letter + start)
        for term, count in counts.most_common(MOST_SUGGESTED):
            value = term[1:]
            shown = f'"{value}"' if " " in value else value
            found.append(Suggestion(before + written + shown, value, NAMES[letter], count))
    return found[:MOST_SUGGESTED]


NAMES = {
    KIND: "kind",
    QUEUE: "queue",
    WORD: "word",
    KEY: "key",
    CODE: "error",
    PATH: "payload path",
    PAYLOAD: "payload value",
}
"""What a suggestion is, by the letter of its term."""

_FIELD_LETTERS = {"kind": KIND, "queue": QUEUE, "name": WORD, "key": KEY, "error": CODE}


def _suggest_fields(before: str, last: str) -> list[Suggestion]:
    names = (*(f"{name}:" for name in FIELDS), PAYLOAD_FIELD)
    return [Suggestion(before + name, name, "field") for name in names if name.startswith(last)]


def _suggest_ranges(before: str, last: str) -> list[Suggestion]:
    name, _, value = last.partition(":")
    return [
        Suggestion(f"{before}{name}:{example}", example, meaning)
        for example, meaning in EXAMPLES.get(name, {}).items()
        if example.startswith(value)
    ]


def _list_choices(last: str) -> list[tuple[str, str, str]]:
    """Letters of terms, how the terms begin, and what is written before their values."""
    if last.startswith(PAYLOAD_FIELD):
        path = last[len(PAYLOAD_FIELD) :].replace('"', "").casefold()
        return [(PAYLOAD if "=" in path else PATH, path, PAYLOAD_FIELD)]
    name, colon, value = last.partition(":")
    if colon:
        letter = _FIELD_LETTERS.get(name)
        return [] if letter is None else [(letter, value.replace('"', ""), f"{name}:")]
    if not last:
        return []
    return [(WORD, last.casefold(), ""), (KIND, last, "kind:")]


async def _count_terms(store: RailStore, tenant: str, start: str) -> Counter[str]:
    """The terms that begin so, in the index and in the newest jobs, which it may not have yet."""
    found: Counter[str] = Counter()
    with suppress(IndexChangedError):
        state = (await read_state(store, tenant)).state
        found.update(await count_terms(Parts(store, tenant), state, start))
    cursor: str | None = None
    for _ in range(NEWEST_SUGGESTED // HIGHEST_LIMIT):
        page = await store.find(tenant, None, cursor, HIGHEST_LIMIT)
        for job in page.items:
            found.update(term for term in list_terms(job) if term.startswith(start))
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


async def _find_by_id(
    store: RailStore, tenant: str, job_id: str, query: JobQuery
) -> tuple[Job, ...]:
    found = await store.get(tenant, [job_id])
    wanted = replace(query.wanted, tenant=tenant)
    return tuple(job for job in found.values() if query.accepts(job) and wanted.accepts(job))


async def _collect(
    store: RailStore, tenant: str, query: JobQuery, most: int
) -> tuple[list[Job], bool]:
    """Up to ``most`` matches, and whether these are all."""
    if query.job_id is not None:
        return list(await _find_by_id(store, tenant, query.job_id, query)), True
    found = await find_matches(store, tenant, query, None, most)
    return found.items, found.last is None


async def _sort_all(
    store: RailStore, tenant: str, query: JobQuery, cursor: str | None, limit: int
) -> SearchPage:
    """All matches in another order. The cursor is how many came before."""
    found, is_whole = await _collect(store, tenant, replace(query, sort="newest"), MOST_SORTED)
    if not is_whole:
        raise InvalidInputError(
            f"sort:{query.sort} needs a search with at most {MOST_SORTED:,} matches, and this one "
            "has more: add words or filters, or leave the order out for the newest first",
            {"field": "sort"},
        )
    found.sort(key=lambda job: _rank(job, query.sort))
    if cursor is not None and not re.fullmatch("[0-9]{1,4}", cursor):
        raise InvalidCursorError("is not one of a sorted search")
    start = int(cursor or 0)
    end = start + limit
    return SearchPage(tuple(found[start:end]), str(end) if end < len(found) else None)


def _rank(job: Job, sort: Sort) -> tuple[datetime | timedelta, str]:
    if sort == "due":
        return job.due_at, job.id
    if sort == "oldest":
        return job.created_at, job.id
    lasted_for = timedelta(0) if job.completion is None else job.completion.lasted_for
    return -lasted_for, job.id
