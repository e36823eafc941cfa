"""``rota tokens``: who may use the service, and for what."""

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Annotated, Any

from cyclopts import App, Parameter

from rota.auth.caller import Scope
from rota.auth.tokens import PREFIX
from rota.cli.options import LimitOption, flag, number, several, value
from rota.cli.output import Row, Viewer, count_of, show_text
from rota.cli.session import HERE, LOCALLY, TenantSession, ZonedSession
from rota.errors import InvalidInputError
from rota.escape import escape

app = App(name="tokens")


ScopeOption = Annotated[
    list[Scope],
    Parameter(
        name="--scope",
        negative="",
        help="What it allows: read; worker leases and settles jobs; write also creates jobs; "
        "operate acts on jobs of others; admin does everything and issues tokens. Repeatable.",
    ),
]
QueueOption = Annotated[
    list[str] | None,
    several("--queue", "NAME", "The only queue it is for. Repeatable. Default: all queues."),
]
DaysOption = Annotated[
    int | None, number(1, 36_500, "How many days it is valid. Default: until it is revoked.")
]
DescendantsOption = Annotated[
    bool, flag("Also revoke the tokens that it issued, and those that they issued.")
]


@app.command(name="create")
def create(
    name: Annotated[str, value("NAME", "Who has it: shown in the audit log.")],
    /,
    *,
    scope: ScopeOption,
    queue: QueueOption = None,
    days: DaysOption = None,
    session: TenantSession = HERE,
) -> None:
    """Create a token, and show it once.

    Only its hash is stored: if you lose a token, revoke it and create another.
    Try:

        rota tokens create "ada's laptop" --scope read --scope operate
        rota tokens create billing --scope write --tenant guild-7 --days 90
        rota tokens create "mailer 7" --scope worker --queue mail
    """
    now = session.terminal.clock.now()
    expires_at = None if days is None else (now + timedelta(days=days)).isoformat()
    wish = {
        "name": name,
        "scopes": list(map(str, scope)),
        "expires_at": expires_at,
        "queues": queue or None,
    }
    issued = session.post("tokens", body=wish, makes=True)
    if session.is_done(issued):
        return
    whom = f"Token {issued['id']} for {escape(issued['tenant'])}"
    if issued["expires_at"] is not None:
        whom += f", good until {session.viewer.show(issued['expires_at'])}"
    session.terminal.print_remark(f"{whom}, shown this once:")
    session.terminal.print_lines(issued["secret"])


@app.command(name="list")
def list_tokens(*, limit: LimitOption = 100, session: ZonedSession = LOCALLY) -> None:
    """List a tenant's tokens, the newest first, including revoked ones.

    Try:

        rota tokens list
        rota tokens list --tenant guild-7 --json
    """
    listed = session.collect("tokens", limit=limit)
    make_row = partial(token_row, names={token["id"]: token["name"] for token in listed[0]})
    session.print_items(listed, make_row, noun="token")


@app.command(name="revoke")
def revoke(
    token_id: Annotated[str, value("ID", "The id of the token, or its beginning; not the token.")],
    /,
    *,
    descendants: DescendantsOption = False,
    session: TenantSession = HERE,
) -> None:
    """Revoke a token; servers refuse it within seconds.

    Try:

        rota tokens revoke 4ace5c094814e1e049c3aa5d
        rota tokens revoke 4ace5c094814e1e049c3aa5d --descendants
    """
    if token_id.startswith(PREFIX):
        reason = "that is a token itself; give its id, as rota tokens list shows it"
        raise InvalidInputError(reason, {"field": "ID", "reason": reason})
    query = {"descendants": "true"} if descendants else {}
    revoked = session.ask("DELETE", "tokens", session.find_token(token_id), query=query)
    count, valid_count = len(revoked["revoked_descendants"]), len(revoked["valid_descendants"])
    rest = f", and {_count_descendants(count)}" if count else ""
    session.print_done(revoked, f"Revoked: {revoked['name']}{rest}.")
    if valid_count:
        again = f"rota tokens revoke {revoked['id']} --descendants"
        session.terminal.print_remark(
            f"Still valid: {_count_descendants(valid_count)}. To revoke them too: {again}"
        )


def token_row(token: dict[str, Any], viewer: Viewer, names: Mapping[str, str]) -> Row:
    """One token; ``names`` are those of the tokens by id."""
    is_revoked = token["revoked_at"] is not None
    until = "revoked" if is_revoked else viewer.show(token["expires_at"])
    cells = {
        "Id": escape(token["id"]),
        "Tenant": show_text(token["tenant"], 40),
        "Scopes": _show_scopes(token),
        "Good until": until,
        "Last used": viewer.show(token["last_used_at"]),
        "Name": show_text(token["name"], 80),
        "Issued by": show_text(names.get(token["issued_by"], token["issued_by"] or "-"), 80),
    }
    return cells, "dim" if is_revoked else ""


def _count_descendants(count: int) -> str:
    return f"{count_of(count, 'token')} that descended from it"


def _show_scopes(token: Mapping[str, Any]) -> str:
    scopes = " ".join(token["scopes"])
    return scopes if token["queues"] is None else f"{scopes}, on {' '.join(token['queues'])}"
