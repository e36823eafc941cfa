"""The stored retention rules, and how far the processes have come with applying them."""

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import NamedTuple

import msgspec

from rota.errors import InvalidInputError, invalid
from rota.jobs.record import Instant
from rota.jobs.retention import (
    Keep,
    Retention,
    RetentionRule,
    format_keep,
    parse_keep,
)
from rota.policy.gate_settings import Damage
from rota.stores.documents import all_documents, decode_body, find_document
from rota.stores.protocol import DocumentStore, DocumentWrite, EndedPlace

RETENTION = "retention"
"""The collection of the rules."""

PROGRESS = "retention_progress"
"""The collection of the one document that says how far the rules have been applied."""

LATEST = "latest"
MOST_MARKED = 4
"""For how many different sets of rules the progress is kept."""

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


class StoredRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule, who set it and when."""

    rule: RetentionRule
    who: str = ""
    set_at: datetime | None = None


class RuleList(NamedTuple):
    """The stored rules in key order, and the unreadable documents."""

    stored: tuple[StoredRule, ...]
    damages: tuple[Damage, ...] = ()

    def make_retention(self, default: Keep, *more: RetentionRule) -> Retention:
        """The rules of this list and ``more``, which win; ``default`` where there is none."""
        return Retention(default, [*(it.rule for it in self.stored), *more])


class _Body(msgspec.Struct, frozen=True, omit_defaults=True):
    keep: str
    who: str = ""
    set_at: Instant | None = None


def rule_key(tenant: str | None, kind: str | None) -> str:
    """The key of a rule; neither a tenant nor a kind contains a slash."""
    return f"{tenant or ''}/{kind or ''}"


def encode_rule(stored: StoredRule) -> bytes:
    body = _Body(keep=format_keep(stored.rule.keep), who=stored.who, set_at=stored.set_at)
    return msgspec.json.encode(body)


def decode_rule(key: str, body: bytes) -> StoredRule | Damage:
    """The rule that ``encode_rule`` wrote under ``rule_key``, or what is wrong with it."""
    try:
        tenant, slash, kind = key.partition("/")
        if not slash:
            raise invalid("key", "does not name a tenant and a kind")
        read = msgspec.json.decode(body, type=_Body)
        keep = parse_keep(read.keep)
        rule = RetentionRule(tenant=tenant or None, kind=kind or None, keep=keep)
        return StoredRule(rule=rule, who=read.who, set_at=read.set_at)
    except (msgspec.DecodeError, InvalidInputError, UnicodeDecodeError) as error:
        return Damage(key, str(error))


async def read_rules(store: DocumentStore) -> RuleList:
    """All stored rules."""
    found = [decode_rule(it.key, it.body) async for it in all_documents(store, RETENTION)]
    return RuleList(
        tuple(it for it in found if isinstance(it, StoredRule)),
        tuple(it for it in found if isinstance(it, Damage)),
    )


class Marks(msgspec.Struct, frozen=True, kw_only=True):
    """Up to where the jobs that have ended were looked at, by the age of the rules in seconds.

    ``since`` is when this began. After a day it begins again: a job may have come before a mark,
    when its last dependent was deleted or its clock was wrong.
    """

    since: Instant
    places: dict[str, tuple[Instant, str]] = {}

    def place_of(self, age: timedelta) -> EndedPlace | None:
        found = self.places.get(_name_age(age))
        return None if found is None else EndedPlace(*found)

    def move(self, age: timedelta, place: EndedPlace) -> "Marks":
        places = {**self.places, _name_age(age): (place.ended_at, place.job_id)}
        return Marks(since=self.since, places=places)


def _name_age(age: timedelta) -> str:
    return str(age.total_seconds())


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Which process applies the rules, and until when others leave it to that process.

    ``marks`` belong to sets of rules: processes may have different defaults. ``swept_at`` is when
    the audit log and the once-ledger were last looked through. ``default`` is what that process
    keeps without a rule.
    """

    by: str = ""
    until: Instant = _NEVER
    default: str = ""
    marks: dict[str, Marks] = {}
    swept_at: Instant = _NEVER
    removed_at: Instant | None = None
    removed_count: int = 0

    def marks_of(self, retention: Retention, now: datetime, lasting: timedelta) -> Marks:
        """The marks of these rules, from the beginning if they are older than that."""
        found = self.marks.get(name_rules(retention))
        is_current = found is not None and timedelta(0) <= now - found.since < lasting
        return found if found is not None and is_current else Marks(since=now)

    def with_marks(self, retention: Retention, marks: Marks) -> dict[str, Marks]:
        """All marks; those of other rules that began first are forgotten."""
        name = name_rules(retention)
        others = sorted(self.marks.items(), key=lambda it: it[1].since, reverse=True)
        kept = [(it, mark) for it, mark in others if it != name][: MOST_MARKED - 1]
        return dict([*kept, (name, marks)])


def name_rules(retention: Retention) -> str:
    """A short name, equal for equal rules."""
    return sha256(retention.fingerprint.encode()).hexdigest()[:16]


class StoredProgress(NamedTuple):
    """The progress, and the version of its document; None if there is none."""

    progress: Progress
    version: int | None

    def write(self, progress: Progress) -> DocumentWrite:
        """The write that replaces it."""
        return DocumentWrite(PROGRESS, LATEST, self.version, msgspec.json.encode(progress))


async def read_progress(store: DocumentStore) -> StoredProgress:
    """The progress; from the beginning if it cannot be read."""
    found = await find_document(store, PROGRESS, LATEST)
    version = None if found is None else found.version
    return StoredProgress(decode_body(found, Progress, Progress()), version)
