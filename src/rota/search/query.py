"""Queries for jobs, and the text that people type: ``kind:email state:dead payload.order=7``."""

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, get_args

import msgspec
from msgspec.structs import replace

from rota.errors import invalid
from rota.jobs import PAUSED_UNTIL, Job, JobFilter, JobState, find_state
from rota.jobs.fields import normalize_job_id
from rota.jobs.job_state import STATES_OF, parse_states
from rota.search.bounds import Times, read_priorities, read_times
from rota.search.terms import (
    CODE,
    ERROR,
    ID,
    KEY,
    KIND,
    PAYLOAD,
    WORD,
    Clause,
    TermRange,
    fold_id,
    list_terms,
    name_value,
    shorten,
    split_words,
)

LONGEST_TEXT = 255
MOST_CLAUSES = 16
PAYLOAD_FIELD = "payload."

Sort = Literal["newest", "oldest", "due", "duration"]
SORTS: tuple[Sort, ...] = get_args(Sort)

_TOKEN = re.compile(r'(?:[^\s"]|"[^"]*")+')
_FIELD = re.compile(r"([A-Za-z_]+):(.*)", re.DOTALL)
_ID_START = re.compile(r"[0-9a-fA-F]{4}[0-9a-fA-F-]{0,32}")


class JobQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A search. A job must match every given field.

    ``text`` is a job id, or words: each begins a word of the name or the kind, or begins the id or
    the key. ``kind`` is a kind. ``clauses`` come from ``parse_query``, and so do ``literals``: what
    is not a plain word stands in the name, kind, key or id just so. ``states`` are some of the
    states of the wanted status, as of ``as_of``, or as of a job's last change. ``due`` is from when
    and until before when a job is due. With ``looks_at_all`` the search reads every job instead of
    the index.
    """

    text: str | None = None
    kind: str | None = None
    wanted: JobFilter = JobFilter()
    clauses: tuple[Clause, ...] = ()
    literals: tuple[str, ...] = ()
    id_start: str = ""
    sort: Sort = "newest"
    looks_at_all: bool = False
    states: frozenset[JobState] = frozenset()
    as_of: datetime | None = None
    due: Times = (None, None)

    def __post_init__(self) -> None:
        if self.kind is not None and len(self.kind) > LONGEST_TEXT:
            raise invalid("kind", f"must have at most {LONGEST_TEXT} characters")
        if self.text is not None and not 1 <= len(self.text) <= LONGEST_TEXT:
            raise invalid("text", f"must have 1 to {LONGEST_TEXT} characters")

    @property
    def is_plain(self) -> bool:
        """Whether the store can answer the query by itself."""
        has_words = self.text or self.all_clauses or self.literals
        return not (has_words or self._is_of_record)

    @property
    def is_of_terms(self) -> bool:
        """Whether the terms of a job decide if it matches."""
        own = self.wanted
        has_others = own != JobFilter(tenant=own.tenant, queue=own.queue, status=own.status)
        literals = self.literals or _list_literals(self.text or "")
        return not (has_others or literals or self._is_of_record)

    @property
    def _is_of_record(self) -> bool:
        """Whether it asks for what neither a filter nor a term of the index can answer."""
        return bool(self.id_start or self.states or any(self.due))

    @property
    def job_id(self) -> str | None:
        """The id of the only job that can match, if the query names one."""
        return normalize_job_id(self.text or self.id_start)

    @property
    def all_clauses(self) -> tuple[Clause, ...]:
        """The clauses, and those that ``text`` and ``kind`` stand for."""
        return _list_needs(self.clauses, self.text, self.kind)[0]

    def within(self, wanted: JobFilter) -> "JobQuery":
        """The query with a filter on top. What the query itself says about a field stays.

        A range that both have is narrowed to what is in both.
        """
        return replace(self, wanted=_narrow(wanted, self.wanted))

    def check_tenant(self, tenant: str) -> None:
        """Refuse a query for jobs of another tenant than the one that is searched."""
        named = self.wanted.tenant
        if named not in (None, tenant):
            raise invalid(
                "q", f'asks for the tenant "{named}", but only jobs of "{tenant}" are searched here'
            )

    def accepts(self, job: Job) -> bool:
        """Whether the job matches all but the filter, which the store applies."""
        if not _begins(job, self.id_start) or not _is_within(job.due_at, self.due):
            return False
        if self.job_id is not None and self.job_id != job.id:
            return False
        if self.states and find_state(job, self.as_of or job.updated_at) not in self.states:
            return False
        clauses, letters = _list_needs(self.clauses, self.text, self.kind)
        terms = list_terms(job, letters)
        if not all(clause.accepts(terms) for clause in clauses):
            return False
        literals = (*self.literals, *_list_literals(self.text or ""))
        return not literals or _contains(job, literals)


@lru_cache(64)  # asked for each job that a search looks at
def _list_needs(
    clauses: tuple[Clause, ...], text: str | None, kind: str | None
) -> tuple[tuple[Clause, ...], frozenset[str]]:
    """All clauses, and the letters of their terms."""
    found = list(clauses)
    if text is not None and normalize_job_id(text) is None:
        found += _match_text(text)
    if kind is not None:
        found.append(Clause((TermRange(KIND + kind),)))
    return tuple(found), frozenset(each.text[0] for clause in found for each in clause.ranges)


@lru_cache(64)
def _list_literals(text: str) -> tuple[str, ...]:
    """The parts of a text that are more than a word, in lower case."""
    parts = [] if normalize_job_id(text) else text.casefold().split()
    return tuple(part for part in parts if split_words(part) != [part])


def _contains(job: Job, literals: tuple[str, ...]) -> bool:
    fields = (job.name, job.kind, job.idempotency_key or "", job.id, job.id.replace("-", ""))
    texts = [each.casefold() for each in fields]
    return all(any(literal in each for each in texts) for literal in literals)


def _begins(job: Job, id_start: str) -> bool:
    return not id_start or job.id.replace("-", "").startswith(id_start.replace("-", "").lower())


def _is_within(instant: datetime, times: Times) -> bool:
    since, until = times
    return (since is None or instant >= since) and (until is None or instant < until)


_NARROWER: dict[str, Callable[..., Any]] = {
    "priority_min": max,
    "priority_max": min,
    "created_after": max,
    "created_before": min,
}


def _narrow(wanted: JobFilter, own: JobFilter) -> JobFilter:
    """The filter with the given fields of ``own``; of two bounds, the narrower one."""
    given = {
        name: value for name, value in msgspec.structs.asdict(own).items() if value is not None
    }
    for name, choose in _NARROWER.items():
        other = getattr(wanted, name)
        if name in given and other is not None:
            given[name] = choose(given[name], other)
    return replace(wanted, **given)


def parse_query(text: str, as_of: datetime | None = None) -> JobQuery:
    """Read what a person typed at ``as_of``.

    Words stand for words of names and kinds, and for the beginning of ids and keys. ``kind:``,
    ``queue:``, ``key:``, ``id:``, ``name:``, ``error:``, ``state:``, ``tenant:`` and
    ``payload.path=`` ask for one field, ``priority:``, ``created:`` and ``due:`` for a range,
    ``sort:`` for an order. Quotes keep spaces together. A star at the end of a kind, a key or a
    payload's value stands for any ending. Dates and times without an offset are in the zone of
    ``as_of``. InvalidInputError says what is wrong.
    """
    if len(text) > LONGEST_TEXT:
        raise invalid("q", f"must have at most {LONGEST_TEXT} characters, got {len(text)}")
    query = JobQuery(as_of=as_of)
    for token in _TOKEN.findall(text.replace("\0", " ")):
        query = _add(query, token)
    if len(query.clauses) > MOST_CLAUSES:
        raise invalid("q", f"must have at most {MOST_CLAUSES} words")
    return query


def _add(query: JobQuery, token: str) -> JobQuery:
    if token.lower().startswith(PAYLOAD_FIELD):
        return _add_payload(query, token)
    field = _FIELD.fullmatch(token)
    if field is None:
        return _add_words(query, token.replace('"', ""))
    name, value = field[1].lower(), field[2].replace('"', "").strip()
    if name not in FIELDS:
        known = ", ".join(FIELDS)
        raise invalid(
            "q", f'has the field "{name}", which is not one of {known}, payload.…; quote it as text'
        )
    if not value:
        raise invalid("q", f"has nothing after {name}:")
    return FIELDS[name](query, value)


def _add_payload(query: JobQuery, token: str) -> JobQuery:
    path, equals, value = token[len(PAYLOAD_FIELD) :].partition("=")
    if not path or not equals:
        raise invalid("q", f'has "{token}"; write a path and a value, as in payload.order=7')
    value = value.replace('"', "")
    if value.endswith("*"):
        start = f"{path}={value[:-1]}".casefold()
        return _with_clause(query, TermRange(PAYLOAD + shorten(start), is_prefix=True))
    return _with_clause(query, TermRange(PAYLOAD + name_value(path, value)))


def _add_words(query: JobQuery, text: str) -> JobQuery:
    if normalize_job_id(text) is not None:
        return replace(query, id_start=text.lower())
    return replace(
        query,
        clauses=(*query.clauses, *_match_text(text)),
        literals=(*query.literals, *_list_literals(text)),
    )


def _match_text(text: str) -> Iterator[Clause]:
    """For each part: its words begin words of the name or kind, or it begins the key or the id."""
    for part in text.split():
        ranges = [TermRange(KEY + shorten(part), is_prefix=True)]
        if _ID_START.fullmatch(part):
            ranges.append(TermRange(ID + fold_id(part), is_prefix=True))
        for word in split_words(part):
            yield Clause((TermRange(WORD + word, is_prefix=True), *ranges))


def _add_id(query: JobQuery, value: str) -> JobQuery:
    if not re.fullmatch(r"[0-9a-fA-F-]{1,36}", value):
        raise invalid("q", f'has the id "{value}"; an id has hexadecimal digits and hyphens')
    query = replace(query, id_start=value.lower())
    return _with_clause(query, TermRange(ID + fold_id(value), is_prefix=True))


def _add_name(query: JobQuery, value: str) -> JobQuery:
    for word in split_words(value):
        query = _with_clause(query, TermRange(WORD + word, is_prefix=True))
    return query


def _add_error(query: JobQuery, value: str) -> JobQuery:
    code = TermRange(CODE + value, is_prefix=True)
    for word in split_words(value):
        query = _with_clause(query, TermRange(ERROR + word, is_prefix=True), code)
    return query


def add_state(query: JobQuery, value: str) -> JobQuery:
    """The query for jobs in this state, or in one of several with commas between."""
    states = parse_states(value)
    statuses = {each.status for each in states}
    status = statuses.pop() if len(statuses) == 1 else None
    return replace(
        query,
        wanted=replace(query.wanted, status=status),
        states=frozenset() if status is not None and states == STATES_OF[status] else states,
    )


def _add_priority(query: JobQuery, value: str) -> JobQuery:
    lowest, highest = read_priorities(value)
    own = JobFilter(priority_min=lowest, priority_max=highest)
    return replace(query, wanted=_narrow(query.wanted, own))


def _read_times(query: JobQuery, field: str, value: str) -> Times:
    if query.as_of is None:
        raise invalid("as_of", f"is missing: {field}:{value} is relative to it")
    return read_times(field, value, query.as_of)


def _add_created(query: JobQuery, value: str) -> JobQuery:
    since, until = _read_times(query, "created", value)
    own = JobFilter(created_after=since, created_before=until)
    return replace(query, wanted=_narrow(query.wanted, own))


def _add_due(query: JobQuery, value: str) -> JobQuery:
    """A paused job is not due at any time."""
    since, until = _read_times(query, "due", value)
    first, last = query.due
    starts = [each for each in (since, first) if each is not None]
    ends = [each for each in (until, last, PAUSED_UNTIL) if each is not None]
    return replace(query, due=(max(starts, default=None), min(ends)))


def _add_sort(query: JobQuery, value: str) -> JobQuery:
    for sort in SORTS:
        if sort == value.lower():
            return replace(query, sort=sort)
    raise invalid("q", f'has the order "{value}", which is not one of {", ".join(SORTS)}')


def _starred(letter: str) -> Callable[[JobQuery, str], JobQuery]:
    def add(query: JobQuery, value: str) -> JobQuery:
        start = value.removesuffix("*")
        return _with_clause(query, TermRange(letter + shorten(start), is_prefix=start != value))

    return add


def _with_clause(query: JobQuery, *ranges: TermRange) -> JobQuery:
    return replace(query, clauses=(*query.clauses, Clause(ranges)))


FIELDS: dict[str, Callable[[JobQuery, str], JobQuery]] = {
    "kind": _starred(KIND),
    "queue": lambda query, value: replace(query, wanted=replace(query.wanted, queue=value)),
    "state": add_state,
    "tenant": lambda query, value: replace(query, wanted=replace(query.wanted, tenant=value)),
    "name": _add_name,
    "key": _starred(KEY),
    "id": _add_id,
    "error": _add_error,
    "priority": _add_priority,
    "created": _add_created,
    "due": _add_due,
    "sort": _add_sort,
}
"""What may stand before a colon."""


def drop_tenant(text: str) -> str:
    """The query without the tenant that it asks for."""
    return " ".join(it for it in list_tokens(text) if not it.lower().startswith("tenant:"))


def list_tokens(text: str) -> Iterator[str]:
    """The parts of a query, as they were typed."""
    return iter(_TOKEN.findall(text))
