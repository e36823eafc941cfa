"""``rota retention``: how long things are kept after their end."""

from collections.abc import Iterator
from typing import Annotated, Any

from cyclopts import App

from rota.cli.options import WhyOption, YesOption, flag, value
from rota.cli.output import Viewer, count_of, show_text
from rota.cli.session import HERE, LOCALLY, TenantSession, ZonedSession
from rota.errors import InvalidInputError
from rota.jobs.retention import FIELDS, format_kept, parse_keep

app = App(name="retention")

NAMES = {
    "ended": "Ended jobs",
    "dead": "Dead letters",
    "results": "Results",
    "attempts": "Attempts",
    "audit": "Audit log",
    "effects": "Once-ledger",
}

KindOption = Annotated[str | None, value("NAME", "Jobs of this kind only.")]
EverywhereOption = Annotated[bool, flag("For all tenants.")]
KeepArgument = Annotated[
    str,
    value(
        "RULES",
        f"What to keep how long, such as ended=7d,results=1d, or forever. "
        f"Names: {', '.join(FIELDS)}.",
    ),
]


def describe_keep(keep: dict[str, Any]) -> str:
    """The lengths of time that are given, in one line."""
    return ", ".join(f"{field} {keep[field]}" for field in FIELDS if keep.get(field) is not None)


def describe_rule(rule: dict[str, Any], viewer: Viewer) -> str:
    whom = "this tenant" if rule["whose"] == "own" else "all tenants"
    kind = f", kind {show_text(rule['kind'])}" if rule["kind"] else ""
    by = f", by {show_text(rule['who'])}" if rule["who"] else ""
    since = f" {viewer.show(rule['set_at'])}" if rule["set_at"] else ""
    return f"{whom}{kind}: {describe_keep(rule)} (set{since}{by})"


def _list_effective(found: dict[str, Any]) -> Iterator[str]:
    for field, name in NAMES.items():
        kept = found["effective"].get(field)
        yield f"{name:<13} {'with their job' if kept is None else kept}"


@app.command(name="show")
def show(*, session: ZonedSession = LOCALLY) -> None:
    """Show how long things are kept after their end, and the stored rules.

    Try:

        rota retention show --tenant guild-7
    """
    found = session.get("retention")
    if session.is_done(found):
        return
    viewer = session.viewer
    for line in _list_effective(found):
        session.terminal.print_text(line)
    for rule in found["items"]:
        session.terminal.print_text(f"Rule for {describe_rule(rule, viewer)}")
    for key in found["unreadable"]:
        session.terminal.print_text(
            f"Rule {show_text(key)} cannot be read: nothing is removed.", "yellow"
        )
    if found["removed_at"] is not None:
        when = viewer.show(found["removed_at"])
        jobs = count_of(found["removed_count"], "job")
        session.terminal.print_text(f"{jobs} of all tenants removed so far, the last {when}.")


@app.command(name="set")
def set_rule(
    keep: KeepArgument,
    /,
    *,
    kind: KindOption = None,
    everywhere: EverywhereOption = False,
    dry_run: Annotated[bool, flag("Say what the rule would remove, and store nothing.")] = False,
    yes: YesOption = False,
    why: WhyOption = None,
    session: TenantSession = HERE,
) -> None:
    """Set a rule for a tenant, for a kind, or for all tenants.

    A wider rule decides what a rule leaves out: first the kind of the tenant,
    then the tenant, the kind, and all tenants. Try:

        rota retention set ended=7d,results=1d --dry-run
        rota retention set ended=1d --kind log.message --yes
        rota retention set audit=730d --everywhere --why "required by law"
    """
    body: dict[str, Any] = {"whose": "all" if everywhere else "own", "kind": kind}
    body |= {name: format_kept(kept) for name, kept in parse_keep(keep, "RULES").given().items()}
    if dry_run:
        preview = session.post("retention", "preview", body=body)
        said = f"The rule would remove {_describe_preview(preview)}."
        session.print_done(preview, said)
        return
    said = _check_preview(session, body, yes=yes)
    rule = session.ask("PUT", "retention", body=body | {"why": why})
    viewer = session.viewer
    line = f"Rule for {describe_rule(rule, viewer)}; it removes {said}."
    session.print_done(rule, line)


@app.command(name="remove")
def remove(
    *,
    kind: KindOption = None,
    everywhere: EverywhereOption = False,
    yes: YesOption = False,
    session: TenantSession = HERE,
) -> None:
    """Remove a stored rule. The next wider rule applies then.

    Try:

        rota retention remove --kind log.message
    """
    query = {"whose": "all" if everywhere else "own", "kind": kind}
    _check_preview(session, query, yes=yes)
    session.ask("DELETE", "retention", query=query)
    session.print_done(query, "The rule is removed.")


def _check_preview(session: TenantSession, body: dict[str, Any], *, yes: bool) -> str:
    """What the change removes, in words. Refused without ``--yes`` if that is something."""
    preview = session.post("retention", "preview", body=body)
    said = _describe_preview(preview)
    if preview["count"] and not yes:
        raise InvalidInputError(
            f"This removes {said}. Add --yes to do it, or --dry-run to ask only", {"field": "--yes"}
        )
    return said


def _describe_preview(preview: dict[str, Any]) -> str:
    count = preview["count"]
    if not count and preview["is_complete"]:
        return "no job now"
    jobs = count_of(count, "job")
    return f"{jobs} now" if preview["is_complete"] else f"at least {jobs} now"
