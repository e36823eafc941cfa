"""``rota retention``: how long things are kept after their end."""

from collections.abc import Iterator
from typing import Annotated, Any

from cyclopts import App

from rota.cli.arguments import choose_zone
from rota.cli.connection import converse
from rota.cli.options import (
    GivenTerminal,
    JsonOption,
    WhyOption,
    YesOption,
    ZoneOption,
    flag,
    value,
)
from rota.cli.output import Terminal, Viewer, done, show_text
from rota.cli.place import NOWHERE, Place
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
    str, value("RULES", "Such as ended=7d,results=1d; the names are those of show. Or forever.")
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
def show(
    *,
    zone: ZoneOption = None,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Show how long things are kept after their end, and the stored rules.

    Try:

        rota retention show --tenant guild-7
    """
    found = converse(terminal, place, lambda it: it.get("/retention"))
    if as_json:
        terminal.print_document(found)
        return
    viewer = Viewer(terminal.clock.now(), choose_zone(zone).zone)
    for line in _list_effective(found):
        terminal.print_text(line)
    for rule in found["items"]:
        terminal.print_text(f"Rule for {describe_rule(rule, viewer)}")
    for key in found["unreadable"]:
        terminal.print_text(f"Rule {show_text(key)} cannot be read: nothing is removed.", "yellow")
    if found["removed_at"] is not None:
        when = viewer.show(found["removed_at"])
        jobs = _count_jobs(found["removed_count"])
        terminal.print_text(f"{jobs} of all tenants removed so far, the last {when}.")


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
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Set a rule for a tenant, for a kind, or for all tenants.

    What a rule leaves out, a wider one says: first the kind of the tenant, then the tenant, the
    kind, and all tenants. Try:

        rota retention set ended=7d,results=1d --dry-run
        rota retention set ended=1d --kind log.message --yes
        rota retention set audit=730d --everywhere --why "the auditors ask for two years"
    """
    body: dict[str, Any] = {"whose": "all" if everywhere else "own", "kind": kind}
    body |= {name: format_kept(kept) for name, kept in parse_keep(keep).given().items()}
    if dry_run:
        preview = _preview(terminal, place, body)
        said = f"The rule would remove {_describe_preview(preview)}."
        done(terminal, preview, said, as_json=as_json)
        return
    said = _check_preview(terminal, place, body, yes=yes)
    rule = converse(
        terminal, place, lambda it: it.ask("PUT", "/retention", body=body | {"why": why})
    )
    viewer = Viewer(terminal.clock.now(), choose_zone(None).zone)
    line = f"Rule for {describe_rule(rule, viewer)}; it removes {said}."
    done(terminal, rule, line, as_json=as_json)


@app.command(name="remove")
def remove(
    *,
    kind: KindOption = None,
    everywhere: EverywhereOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Remove a stored rule. What a wider rule says applies then.

    Try:

        rota retention remove --kind log.message
    """
    query = {"whose": "all" if everywhere else "own", "kind": kind}
    _check_preview(terminal, place, query, yes=yes)
    converse(terminal, place, lambda it: it.ask("DELETE", "/retention", query=query))
    done(terminal, query, "The rule is removed.", as_json=as_json)


def _preview(terminal: Terminal, place: Place, body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = converse(
        terminal, place, lambda it: it.ask("POST", "/retention/preview", body=body)
    )
    return found


def _check_preview(terminal: Terminal, place: Place, body: dict[str, Any], *, yes: bool) -> str:
    """What the change removes, in words. Refused without ``--yes`` if that is something."""
    preview = _preview(terminal, place, body)
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
    jobs = _count_jobs(count)
    return f"{jobs} now" if preview["is_complete"] else f"at least {jobs} now"


def _count_jobs(count: int) -> str:
    return f"{count} job" if count == 1 else f"{count} jobs"
