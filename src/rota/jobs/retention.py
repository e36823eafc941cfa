"""How long things are kept after their end, by tenant and kind."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from rota.clock.duration import read_duration
from rota.clock.protocol import as_duration
from rota.errors import InvalidInputError, invalid
from rota.jobs.fields import read_word
from rota.jobs.record import Job
from rota.jobs.states import Ending, JobStatus

FOREVER = timedelta.max
"""Longer than anything lasts."""

_FOREVER_TEXT = "forever"
_NO_TIME = timedelta(0)
_UNITS = (
    ("d", timedelta(days=1)),
    ("h", timedelta(hours=1)),
    ("m", timedelta(minutes=1)),
    ("s", timedelta(seconds=1)),
    ("ms", timedelta(milliseconds=1)),
)
_LIMIT = timedelta(days=500_000)


class Keep(msgspec.Struct, frozen=True, kw_only=True):
    """How long each thing is kept. A field that is None is left to a wider rule.

    - ``ended``: jobs that completed, were cancelled or discarded, with results and attempts.
    - ``dead``: dead letters, and jobs that are blocked because of one.
    - ``results``, ``attempts``: those of jobs that are still kept. Default: as long as the job.
    - ``audit``: entries of the audit log.
    - ``effects``: entries of the once-ledger, after the last job that could have written them is
      gone. So no job finds its effect forgotten.
    """

    ended: timedelta | None = None
    dead: timedelta | None = None
    results: timedelta | None = None
    attempts: timedelta | None = None
    audit: timedelta | None = None
    effects: timedelta | None = None

    def __post_init__(self) -> None:
        for field, value in self.given().items():
            if as_duration(value, field) < _NO_TIME:
                raise invalid(field, f"must not be negative, got {value}")

    def given(self) -> dict[str, timedelta]:
        """The fields that are not None."""
        pairs = ((field, getattr(self, field)) for field in FIELDS)
        return {field: value for field, value in pairs if value is not None}

    def over(self, wider: "Keep") -> "Keep":
        """These fields, and for those that are None the wider rule's."""
        return Keep(**(wider.given() | self.given()))


FIELDS = Keep.__struct_fields__

DEFAULT_KEEP = Keep(
    ended=timedelta(days=30),
    dead=timedelta(days=90),
    audit=timedelta(days=365),
    effects=timedelta(days=30),
)
"""What processes of Rota keep unless they are told otherwise."""

KEEP_EVERYTHING = Keep(ended=FOREVER, dead=FOREVER, audit=FOREVER, effects=FOREVER)


class RetentionRule(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a tenant, of a kind, of a kind of a tenant or, with neither, of all.

    Where several rules have a field, the first of these decides: kind of a tenant, tenant, kind,
    all. ``audit`` and ``effects`` have no kind.
    """

    tenant: str | None = None
    kind: str | None = None
    keep: Keep

    def __post_init__(self) -> None:
        if self.tenant is not None:
            read_word(self.tenant, "tenant")
        if self.kind is not None:
            read_word(self.kind, "kind")
        if not self.keep.given():
            raise invalid("ended", f"is missing, and so are {', '.join(FIELDS[1:])}: give one")
        for field in ("audit", "effects"):
            if self.kind is not None and getattr(self.keep, field) is not None:
                raise invalid(field, "does not belong to a kind: leave out the kind")

    @property
    def scope(self) -> tuple[str | None, str | None]:
        return self.tenant, self.kind


class Retention:
    """All rules, and what applies where there is none."""

    def __init__(
        self, default: Keep = KEEP_EVERYTHING, rules: Iterable[RetentionRule] = ()
    ) -> None:
        self.default = default.over(KEEP_EVERYTHING)
        self.rules: Mapping[tuple[str | None, str | None], RetentionRule] = {
            rule.scope: rule for rule in sorted(rules, key=_order)
        }
        self._resolved: dict[tuple[str | None, str | None], Keep] = {}

    @property
    def fingerprint(self) -> str:
        """Equal for equal rules."""
        parts = [format_keep(self.default)]
        parts += [f"{it.tenant}/{it.kind}/{format_keep(it.keep)}" for it in self.rules.values()]
        return " ".join(parts)

    def keep_for(self, tenant: str | None, kind: str | None = None) -> Keep:
        """What applies to jobs of a kind of a tenant; every field but results and attempts is set.

        Without a tenant it is what applies to all tenants without rules of their own.
        """
        scope = (tenant, kind)
        found = self._resolved.get(scope)
        if found is None:
            found = self._resolved[scope] = self._resolve(tenant, kind)
        return found

    def _resolve(self, tenant: str | None, kind: str | None) -> Keep:
        found = self.default
        for scope in dict.fromkeys(((None, None), (None, kind), (tenant, None), (tenant, kind))):
            if scope in self.rules:
                found = self.rules[scope].keep.over(found)
        return found

    def effects_for(self, tenant: str) -> timedelta:
        """How long an entry of the once-ledger is kept: longer than any job that may ask for it."""
        kinds = {kind for whose, kind in self.rules if whose in (None, tenant)}
        kept = [self.keep_for(tenant, kind) for kind in (None, *kinds)]
        longest = max(max(it.ended or _NO_TIME, it.dead or _NO_TIME) for it in kept)
        own = self.keep_for(tenant).effects or _NO_TIME
        return FOREVER if FOREVER in (longest, own) else longest + own

    def job_ages(self) -> list[timedelta]:
        """The ages at which something of a job may expire, the longest first."""
        keeps = (self.default, *(rule.keep for rule in self.rules.values()))
        ages = {
            age for keep in keeps for age in (keep.ended, keep.dead, keep.results, keep.attempts)
        }
        return sorted((age for age in ages if age not in (None, FOREVER)), reverse=True)


def _order(rule: RetentionRule) -> tuple[str, str]:
    return rule.tenant or "", rule.kind or ""


class Fate(NamedTuple):
    """What expires of a job."""

    is_removed: bool = False
    loses_result: bool = False
    loses_attempts: bool = False


class Expiry(NamedTuple):
    """The rules as of an instant, for one tenant or all. A preview removes nothing."""

    retention: Retention
    now: datetime
    is_preview: bool = False
    tenant: str | None = None

    def judge(self, job: Job) -> Fate:
        """What expires of a job now. Nothing of a job that has not ended."""
        if not job.status.is_terminal or self.tenant not in (None, job.tenant):
            return Fate()
        keep, age = self.retention.keep_for(job.tenant, job.kind), self.now - job.updated_at
        if age > _kept_for(job, keep):
            return Fate(is_removed=True)
        return Fate(
            loses_result=keep.results is not None and age > keep.results,
            loses_attempts=keep.attempts is not None and age > keep.attempts,
        )


def removal_at(job: Job, retention: Retention) -> datetime | None:
    """When a job that has ended is removed, unless others depend on it; None for never."""
    kept_for = _kept_for(job, retention.keep_for(job.tenant, job.kind))
    if not job.status.is_terminal or kept_for is FOREVER:
        return None
    try:
        return job.updated_at + kept_for
    except OverflowError:
        return None


def _kept_for(job: Job, keep: Keep) -> timedelta:
    kept_for = keep.dead if is_dead(job) else keep.ended
    return FOREVER if kept_for is None else kept_for


def is_dead(job: Job) -> bool:
    """Whether the job is a dead letter, or blocked because of one."""
    if job.status is JobStatus.BLOCKED:
        return job.ending is None
    return job.status is JobStatus.FAILED and job.ending in (None, Ending.EXHAUSTED, Ending.LOST)


def read_kept(value: object, field: str) -> timedelta:
    """A length of time, or ``forever``."""
    if value in (_FOREVER_TEXT, FOREVER):
        return FOREVER
    try:
        kept_for = read_duration(value, field)
    except InvalidInputError as error:
        reason = f"{value!r:.60} is not a length of time; write 30d, 12h or forever"
        raise InvalidInputError(f"{field}: {reason}", {"field": field, "reason": reason}) from error
    if kept_for > _LIMIT:
        raise invalid(field, f"must be at most {_LIMIT.days} days, or forever; got {value!r:.40}")
    return kept_for


def parse_keep(text: str, field: str = "keep") -> Keep:
    """A rule as people write it: ``ended=30d,dead=90d``, or ``forever``."""
    if text.strip() == _FOREVER_TEXT:
        return KEEP_EVERYTHING
    return Keep(**dict(_parse_parts(text, field)))


def _parse_parts(text: str, field: str) -> Iterator[tuple[str, timedelta]]:
    for part in filter(None, map(str.strip, text.split(","))):
        name, separator, value = (it.strip() for it in part.partition("="))
        if not separator or name not in FIELDS:
            reason = f'"{part[:40]}" is not valid; write NAME=TIME, such as ended=30d, with one of'
            raise invalid(f"{field}:", f"{reason} {', '.join(FIELDS)}; or forever")
        yield name, read_kept(value, name)


def format_keep(keep: Keep) -> str:
    """The text that ``parse_keep`` reads."""
    return ",".join(f"{field}={format_kept(value)}" for field, value in keep.given().items())


def format_kept(kept_for: timedelta) -> str:
    """The text that ``read_kept`` reads: ``30d``, ``1d12h``, ``forever``."""
    if kept_for == FOREVER:
        return _FOREVER_TEXT
    parts, left = "", kept_for
    for name, length in _UNITS:
        count, left = divmod(left, length)
        parts += f"{count}{name}" if count else ""
    return parts or "0s"
