"""Retention: how long jobs, results, attempts, audit entries and effects are kept."""

from typing import Annotated

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.jobs.misfits import IN_WORDS
from rota.jobs.retention import FIELDS, Keep, RetentionRule, format_kept, read_kept
from rota.ops.retention import RemovalPreview, preview_rule, read_retention, remove_rule, set_rule
from rota.policy.retention import StoredRule
from rota.server.api.fields import WORD, Moment, Whose, Why, naming_fields, tenant_of
from rota.server.http.route import Answer, Call, Nothing, Resource

RETENTION = Resource("/api/v1/retention", "retention")


Kept = Annotated[
    str,
    Meta(
        description="A length of time such as 30d, 12h or 1d12h; or forever.",
        pattern="^(forever|([0-9]{1,5}(ms|[dhms])){1,5})$",
        extra_json_schema={"examples": ["30d"]},
        extra={IN_WORDS: "is not a length of time; write 30d, 12h, 1d12h or forever"},
    ),
]
RuleKind = Annotated[
    str,
    Meta(
        description="A kind.",
        pattern=WORD["pattern"],
        extra_json_schema={"examples": ["log.message"]},
        extra={IN_WORDS: "must be 1 to 200 of the characters a-z, A-Z, 0-9, _, ., : and -"},
    ),
]


class KeepView(msgspec.Struct, frozen=True, kw_only=True):
    """How long things are kept after their end.

    - ``ended``: jobs that completed, were cancelled or discarded, with results and attempts.
    - ``dead``: dead letters, and jobs that are blocked because of one.
    - ``results``, ``attempts``: those of jobs that are still kept; null: as long as the job.
    - ``audit``: entries of the audit log.
    - ``effects``: entries of the once-ledger, after the last job that may need them is gone.
    """

    ended: Kept | None = None
    dead: Kept | None = None
    results: Kept | None = None
    attempts: Kept | None = None
    audit: Kept | None = None
    effects: Kept | None = None


class RetentionBody(KeepView, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule. What it leaves out, a wider rule says: kind of a tenant, tenant, kind, all."""

    whose: Whose = "own"
    kind: RuleKind | None = None
    why: Why | None = None


class RetentionScope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The scope of a rule. Without ``kind``: all kinds."""

    whose: Whose = "own"
    kind: RuleKind | None = None


class RuleView(KeepView, frozen=True, kw_only=True):
    """A stored rule."""

    whose: Whose
    kind: str | None
    who: str
    set_at: Moment | None


class RetentionView(msgspec.Struct, frozen=True, kw_only=True):
    """The rules that apply to your tenant.

    ``default`` applies without a rule, and ``effective`` is what applies to kinds without a
    rule of their own. While a rule cannot be read, nothing is removed; ``unreadable`` names it.
    """

    items: list[RuleView]
    default: KeepView
    effective: KeepView
    unreadable: list[str]
    removed_count: int
    removed_at: Moment | None
    next_cursor: str | None = None
    has_more: bool = False


@RETENTION.route("GET", "", Scope.READ)
async def get_retention(call: Call[Nothing, Nothing]) -> RetentionView:
    """List the retention rules that apply to your tenant, and what applies without one."""
    current = await read_retention(call.around)
    return RetentionView(
        items=[_view(it) for it in current.list_rules(call.tenant)],
        default=_view_keep(current.default),
        effective=_view_keep(current.retention.keep_for(call.tenant)),
        unreadable=[it.key for it in current.rules.damages],
        removed_count=current.progress.removed_count,
        removed_at=current.progress.removed_at,
    )


@RETENTION.route("PUT", "", Scope.ADMIN)
async def put_retention(call: Call[RetentionBody, Nothing]) -> RuleView:
    """Set the rule of a scope. It replaces the earlier one; processes apply it within minutes."""
    asked, tenant = call.body, tenant_of(call, call.body.whose)
    with naming_fields("ended"):
        rule = RetentionRule(tenant=tenant, kind=asked.kind, keep=_read_keep(asked))
    return _view(await set_rule(call.around_of(tenant), rule, who=call.who, why=asked.why))


@RETENTION.route("DELETE", "", Scope.ADMIN, answers={204: None})
async def delete_retention(call: Call[Nothing, RetentionScope]) -> Answer:
    """Remove the rule of a scope, if there is one."""
    asked, tenant = call.query, tenant_of(call, call.query.whose)
    await remove_rule(call.around_of(tenant), tenant, asked.kind, who=call.who)
    return Answer(204)


@RETENTION.route("POST", "/preview", Scope.ADMIN)
async def preview_retention(call: Call[RetentionBody, Nothing]) -> RemovalPreview:
    """Say how many jobs a rule would remove at once; without lengths of time, having none.

    Nothing is stored or removed.
    """
    asked = call.body
    with naming_fields("ended"):
        keep = _read_keep(asked)
    whose = tenant_of(call, asked.whose)
    return await preview_rule(call.around, whose, asked.kind, keep if keep.given() else None)


def _read_keep(asked: RetentionBody) -> Keep:
    given = {field: value for field in FIELDS if (value := getattr(asked, field)) is not None}
    return Keep(**{field: read_kept(value, field) for field, value in given.items()})


def _view_keep(keep: Keep) -> KeepView:
    return KeepView(**{field: format_kept(value) for field, value in keep.given().items()})


def _view(stored: StoredRule) -> RuleView:
    rule = stored.rule
    return RuleView(
        whose="all" if rule.tenant is None else "own",
        kind=rule.kind,
        who=stored.who,
        set_at=stored.set_at,
        **{field: format_kept(value) for field, value in rule.keep.given().items()},
    )
