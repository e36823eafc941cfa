"""The tokens of a tenant, for administrators: who issued whom, and revoking."""

from starlette.responses import Response

from rota.ops.tokens import TenantTokens
from rota.server.pages.responses import go_to, render_page
from rota.server.pages.visit import Visit, read_form

MOST_SHOWN = 200


async def show_tokens(visit: Visit) -> Response:
    tokens = await _tokens(visit).list_tokens()
    return await render_page(
        visit,
        "tokens.html",
        rows=tokens[:MOST_SHOWN],
        names={each.id: each.name for each in tokens},
        count=len(tokens),
    )


async def show_token(visit: Visit) -> Response:
    """One token with its descendants, and the question whether to revoke them."""
    token, descendants = await _tokens(visit).find(visit.request.path_params["token_id"])
    return await render_page(
        visit,
        "token.html",
        token=token,
        names={each.id: each.name for each in await _tokens(visit).list_tokens()},
        descendants=descendants,
        valid_count=sum(each.is_valid(visit.now) for each in descendants),
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


def _tokens(visit: Visit) -> TenantTokens:
    return TenantTokens(visit.around)
