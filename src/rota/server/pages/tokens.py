"""The tokens of a tenant, for administrators: who issued whom, and revoking."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from starlette.responses import Response

from rota.auth.tokens import Token
from rota.ops.tokens import TenantTokens
from rota.server.pages.responses import go_to, render_page
from rota.server.pages.visit import Visit, read_form

MOST_SHOWN = 200


class TokenRow(NamedTuple):
    """One token, and the name of the token that issued it."""

    token: Token
    issuer: str | None
    is_valid: bool


async def show_tokens(visit: Visit) -> Response:
    tokens = await _tokens(visit).list_tokens()
    names = {token.id: token.name for token in tokens}
    return await render_page(
        visit,
        "tokens.html",
        rows=_make_rows(tokens[:MOST_SHOWN], names, visit.now),
        count=len(tokens),
    )


async def show_token(visit: Visit) -> Response:
    """One token with its descendants, and the question whether to revoke them."""
    token, descendants = await _tokens(visit).find(visit.request.path_params["token_id"])
    names = {each.id: each.name for each in await _tokens(visit).list_tokens()}
    rows = _make_rows([token, *descendants], names, visit.now)
    return await render_page(
        visit,
        "token.html",
        shown=rows[0],
        descendants=rows[1:],
        valid_count=sum(row.is_valid for row in rows[1:]),
    )


async def revoke_token(visit: Visit) -> Response:
    form = await read_form(visit.request)
    done = await _tokens(visit).revoke(
        visit.request.path_params["token_id"],
        visit.who,
        form.why,
        with_descendants=form.one("descendants") == "yes",
    )
    return go_to(visit.link("tokens", done="revoked", count=1 + len(done.revoked)))


def _make_rows(tokens: Iterable[Token], names: Mapping[str, str], now: datetime) -> list[TokenRow]:
    return [
        TokenRow(token, names.get(token.issued_by or ""), token.is_valid(now)) for token in tokens
    ]


def _tokens(visit: Visit) -> TenantTokens:
    return TenantTokens(visit.around)
