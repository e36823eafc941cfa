"""The retention page: how long things are kept, and the rules that say so."""

from collections.abc import Mapping

from starlette.responses import Response

from rota.errors import InvalidInputError
from rota.jobs.fields import read_word
from rota.jobs.retention import FIELDS, FOREVER, Keep, RetentionRule, format_kept, read_kept
from rota.ops.explanation import format_duration
from rota.ops.retention import CurrentRetention, preview_rule, read_retention, remove_rule, set_rule
from rota.server.pages.responses import go_to, render_page
from rota.server.pages.visit import Form, Visit

NAMES = {
    "ended": ("Ended jobs", "Completed, cancelled or discarded, with results and attempts"),
    "dead": ("Dead letters", "And jobs that are blocked because of one"),
    "results": ("Results", "Of jobs that are still kept"),
    "attempts": ("Attempts", "Of jobs that are still kept"),
    "audit": ("Audit log", "Who did what, when and why"),
    "effects": ("Once-ledger", "After the last job that may need an entry is gone"),
}
"""What is kept: its title and an explanation."""

_SENT = ("whose", "kind", *FIELDS)


async def change_retention(visit: Visit, form: Form) -> Response:
    """Set or remove a rule, after a question that says what goes."""
    try:
        tenant, kind = _read_scope(form, visit.tenant)
        keep = _read_keep(form) if form.one("action") != "remove" else None
        if keep is not None:
            RetentionRule(tenant=tenant, kind=kind, keep=keep)
        if form.one("confirmed") != "yes":
            return await _ask(visit, form, keep)
        around, who, why = visit.around_of(tenant), visit.who, form.why
        if keep is None:
            await remove_rule(around, tenant, kind, who=who, why=why)
            return go_to(visit.link("retention", done="rule-removed"))
        rule = RetentionRule(tenant=tenant, kind=kind, keep=keep)
        await set_rule(around, rule, who=who, why=why)
    except InvalidInputError as error:
        return await show_retention(visit, form, error)
    return go_to(visit.link("retention", done="rule-set"))


async def _ask(visit: Visit, form: Form, keep: Keep | None) -> Response:
    """Ask before a rule is stored or removed. Nothing has changed yet."""
    tenant, kind = _read_scope(form, visit.tenant)
    preview = await preview_rule(visit.around_of(tenant), tenant, kind, keep)
    hidden = [(name, form.one(name)) for name in (*_SENT, "action")]
    return await render_page(
        visit,
        "retention_question.html",
        scope=_describe_scope(tenant, kind),
        keep="" if keep is None else _describe(keep),
        preview=preview,
        hidden=hidden,
        back=visit.link("retention"),
    )


def _read_scope(form: Form, tenant: str) -> tuple[str | None, str | None]:
    kind = form.one("kind") or None
    if kind is not None:
        read_word(kind, "kind")
    return (None if form.one("whose") == "all" else tenant), kind


def _read_keep(form: Form) -> Keep:
    given = {field: form.one(field) for field in FIELDS}
    return Keep(**{field: read_kept(text, field) for field, text in given.items() if text})


async def show_retention(
    visit: Visit, form: Form | None = None, problem: InvalidInputError | None = None
) -> Response:
    current = await read_retention(visit.around)
    sent: Mapping[str, str] = {name: "" if form is None else form.one(name) for name in _SENT}
    return await render_page(
        visit,
        "retention.html",
        kept=_list_kept(current, visit.tenant),
        rules=[
            (it, _describe_scope(*it.rule.scope), _describe(it.rule.keep))
            for it in current.list_rules(visit.tenant)
        ],
        fields=_list_fields(current.retention.keep_for(visit.tenant)),
        damages=current.rules.damages,
        progress=current.progress,
        sent=sent,
        problem=None if problem is None else problem.message,
    )


def _list_kept(current: CurrentRetention, tenant: str) -> list[tuple[str, str, str, bool]]:
    """What is kept, an explanation, how long, and whether that is the default."""
    effective, default = current.retention.keep_for(tenant), current.default
    return [
        (
            *NAMES[field],
            _show_kept(effective, field),
            getattr(effective, field) == getattr(default, field),
        )
        for field in FIELDS
    ]


def _list_fields(effective: Keep) -> list[tuple[str, str, str]]:
    """The fields of the form: name, title, and what applies now."""
    kept = {field: format_kept(value) for field, value in effective.given().items()}
    return [(field, NAMES[field][0], kept.get(field, "as the job")) for field in FIELDS]


def _show_kept(keep: Keep, field: str) -> str:
    kept_for = getattr(keep, field)
    if kept_for is None:
        return "as long as the job"
    return "forever" if kept_for == FOREVER else format_duration(kept_for)


def _describe_scope(tenant: str | None, kind: str | None) -> str:
    whom = "all tenants" if tenant is None else f"tenant {tenant}"
    return whom if kind is None else f"kind {kind} of {whom}"


def _describe(keep: Keep) -> str:
    return ", ".join(
        f"{NAMES[field][0].lower()} {format_kept(value)}" for field, value in keep.given().items()
    )
