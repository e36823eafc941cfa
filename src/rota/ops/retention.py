"""Retention: read, set and remove stored rules, and say what a rule would remove."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from rota.jobs import Job
from rota.jobs.retention import (
    DEFAULT_KEEP,
    Expiry,
    Keep,
    Retention,
    RetentionRule,
    format_keep,
    parse_keep,
    removal_at,
)
from rota.policy.audit import AuditedAction, record_action
from rota.policy.retention import (
    RETENTION,
    Progress,
    RuleList,
    StoredRule,
    encode_rule,
    read_progress,
    read_rules,
    rule_key,
)
from rota.rail.jobs import RailContext
from rota.stores.documents import change_document

MOST_LOOKED = 20_000
"""How many jobs that have ended a preview looks at."""

_LOOKED_AT_ONCE = 500


class CurrentRetention(NamedTuple):
    """What applies now, and how far it has been applied.

    ``default`` is what the process keeps that has last applied the rules.
    """

    rules: RuleList
    default: Keep
    progress: Progress

    @property
    def retention(self) -> Retention:
        return self.rules.make_retention(self.default)

    def removal_of(self, job: Job) -> datetime | None:
        """When the job is removed, unless others depend on it; None for never, or not yet known."""
        return None if self.rules.damages else removal_at(job, self.retention)

    def list_rules(self, tenant: str) -> Sequence[StoredRule]:
        """The rules of the tenant, and those of all tenants."""
        return [it for it in self.rules.stored if it.rule.tenant in (None, tenant)]


class RemovalPreview(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs a rule would remove now; there may be more if not all were looked at."""

    count: int
    is_complete: bool


async def read_retention(around: RailContext) -> CurrentRetention:
    """The stored rules, and what applies where there is none."""
    rules = await read_rules(around.store)
    progress = (await read_progress(around.store)).progress
    default = parse_keep(progress.default) if progress.default else DEFAULT_KEEP
    return CurrentRetention(rules, default, progress)


async def set_rule(
    around: RailContext, rule: RetentionRule, *, who: str, why: str | None = None
) -> StoredRule:
    """Store a rule. It replaces the earlier one of its scope; processes apply it within minutes."""
    details = {"kind": rule.kind, "keep": format_keep(rule.keep)}
    await _record(around, "set_retention", details, who, why)
    stored = StoredRule(rule=rule, who=who, set_at=around.clock.now())
    key, body = rule_key(rule.tenant, rule.kind), encode_rule(stored)
    await change_document(around.store, RETENTION, key, lambda _: body)
    return stored


async def remove_rule(
    around: RailContext,
    tenant: str | None,
    kind: str | None,
    *,
    who: str,
    why: str | None = None,
) -> None:
    """Remove the rule of a scope, if there is one. What a wider rule says applies then."""
    await _record(around, "remove_retention", {"kind": kind}, who, why)
    await change_document(around.store, RETENTION, rule_key(tenant, kind), lambda _: None)


async def preview_rule(
    around: RailContext, tenant: str | None, kind: str | None, keep: Keep | None
) -> RemovalPreview:
    """How many jobs would be removed now if the scope had this rule; None for no rule."""
    current = await read_retention(around)
    left = [it for it in current.rules.stored if it.rule.scope != (tenant, kind)]
    more = [] if keep is None else [RetentionRule(tenant=tenant, kind=kind, keep=keep)]
    retention = RuleList(tuple(left)).make_retention(current.default, *more)
    return await _preview(
        around, Expiry(retention, around.clock.now(), is_preview=True, tenant=tenant)
    )


async def _preview(around: RailContext, expiry: Expiry) -> RemovalPreview:
    ages = expiry.retention.job_ages()
    if not ages:
        return RemovalPreview(count=0, is_complete=True)
    count, looked, place = 0, 0, None
    while looked < MOST_LOOKED:
        before = expiry.now - ages[-1]
        pruned = await around.store.prune(before, _LOOKED_AT_ONCE, expiry, place)
        count, looked, place = count + pruned.removed, looked + pruned.looked, pruned.place
        if place is None:
            return RemovalPreview(count=count, is_complete=True)
    return RemovalPreview(count=count, is_complete=False)


async def _record(
    around: RailContext, action: str, details: dict[str, str | None], who: str, why: str | None
) -> None:
    await record_action(around, AuditedAction(action=action, who=who, why=why, details=details))
