"""``rota tokens``: who may use the service, and for what."""

from datetime import timedelta
from typing import Annotated, Any

from cyclopts import App, Parameter
from rich.text import Text

from rota.auth.caller import Scope
from rota.auth.tokens import PREFIX
from rota.cli.arguments import choose_zone
from rota.cli.connection import converse
from rota.cli.options import GivenTerminal, JsonOption, LimitOption, ZoneOption, number, value
from rota.cli.output import Row, Viewer, done, print_items, print_verbatim, show_text
from rota.cli.place import NOWHERE, Place
from rota.client.client import path_of
from rota.errors import InvalidInputError
from rota.escape import escape

app = App(name="tokens")

TOKEN_COLUMNS = ("Id", "Tenant", "Scopes", "Good until", "Last used", "Name")

ScopeOption = Annotated[
    list[Scope],
    Parameter(
        name="--scope",
        negative="",
        help="What it allows; may be given several times: read looks, write makes jobs, operate "
        "acts on what others made, admin issues tokens.",
    ),
]
DaysOption = Annotated[
    int | None, number(1, 36_500, "For how many days it is good. Default: until it is revoked.")
]


@app.command(name="create")
def create(
    name: Annotated[str, value("NAME", "Who has it: shown in the audit log.")],
    /,
    *,
    scope: ScopeOption,
    days: DaysOption = None,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Make a token, and show it this once.

    Only a hash of it is kept: one that is lost is revoked, and another made.
    Try:

        rota tokens create "ada's laptop" --scope read --scope operate
        rota tokens create billing --scope write --tenant guild-7 --days 90
    """
    now = terminal.clock.now()
    expires_at = None if days is None else (now + timedelta(days=days)).isoformat()
    wish = {"name": name, "scopes": list(map(str, scope)), "expires_at": expires_at}
    issued = converse(terminal, place, lambda client: client.post("/tokens", wish), makes=True)
    if as_json:
        terminal.print_document(issued)
        return
    whom = f"Token {issued['id']} for {escape(issued['tenant'])}"
    if issued["expires_at"] is not None:
        viewer = Viewer(now, choose_zone(None).zone)
        whom += f", good until {viewer.show(issued['expires_at'])}"
    terminal.print_remark(f"{whom}, shown this once:")
    print_verbatim(terminal.out, Text(escape(issued["secret"])))


@app.command(name="list")
def list_tokens(
    *,
    limit: LimitOption = 100,
    zone: ZoneOption = None,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """List a tenant's tokens, the newest first; those that were revoked, too.

    Try:

        rota tokens list
        rota tokens list --tenant guild-7 --json
    """
    listed = converse(terminal, place, lambda client: client.collect("/tokens", limit=limit))
    viewer = Viewer(terminal.clock.now(), choose_zone(zone).zone)
    print_items(
        terminal,
        listed,
        TOKEN_COLUMNS,
        lambda token: token_row(token, viewer),
        as_json=as_json,
        noun="token",
    )


@app.command(name="revoke")
def revoke(
    token_id: Annotated[str, value("ID", "The id of the token, as listed; not the token.")],
    /,
    *,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Revoke a token; servers refuse it within seconds.

    Try:

        rota tokens revoke 4ace5c094814e1e049c3aa5d
    """
    if token_id.startswith(PREFIX):
        reason = "that is a token itself; give its id, as rota tokens list shows it"
        raise InvalidInputError(reason, {"field": "ID", "reason": reason})
    path = path_of("tokens", token_id)
    revoked = converse(terminal, place, lambda client: client.ask("DELETE", path))
    done(terminal, revoked, f"Revoked: {revoked['name']}.", as_json=as_json)


def token_row(token: dict[str, Any], viewer: Viewer) -> Row:
    """One token as a row of ``TOKEN_COLUMNS``."""
    is_revoked = token["revoked_at"] is not None
    until = "revoked" if is_revoked else viewer.show(token["expires_at"])
    cells = (
        escape(token["id"]),
        show_text(token["tenant"], 40),
        " ".join(token["scopes"]),
        until,
        viewer.show(token["last_used_at"]),
        show_text(token["name"], 80),
    )
    return cells, "dim" if is_revoked else ""
