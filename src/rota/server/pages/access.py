"""Access: the tokens of a tenant, for administrators, and its audit log."""

from typing import Any

from starlette.responses import Response

from rota.ops.audit import list_audit_entries
from rota.ops.tokens import TenantTokens
from rota.server.pages.responses import go_to, render_page
from rota.server.pages.visit import Form, Visit, link_pages

TOKENS_SHOWN = 200
ENTRIES_SHOWN = 50
JOBS_NAMED = 3


async def show_tokens(visit: Visit) -> Response:
    tokens = await _tokens(visit).list_tokens()
    return await render_page(
        visit,
        "tokens.html",
        rows=tokens[:TOKENS_SHOWN],
        names={each.id: each.name for each in tokens},
        count=len(tokens),
    )


async def show_token(visit: Visit) -> Response:
    """One token with its descendants, and the question whether to revoke them."""
    token, descendants = await _tokens(visit).find(visit.part("token_id"))
    return await render_page(
        visit,
        "token.html",
        token=token,
        names={each.id: each.name for each in await _tokens(visit).list_tokens()},
        descendants=descendants,
        valid_count=sum(each.is_valid(visit.now) for each in descendants),
    )


async def revoke_token(visit: Visit, form: Form) -> Response:
    done = await _tokens(visit).revoke(
        visit.part("token_id"),
        visit.who,
        form.why,
        with_descendants=form.one("descendants") == "yes",
    )
    return go_to(visit.link("tokens", done="revoked", count=1 + len(done.revoked)))


def _tokens(visit: Visit) -> TenantTokens:
    return TenantTokens(visit.around)


async def read_audit(visit: Visit) -> dict[str, Any]:
    page = await list_audit_entries(
        visit.store, visit.tenant, cursor=visit.cursor, limit=ENTRIES_SHOWN
    )
    wanted = {each for entry in page.items for each in entry.job_ids[:JOBS_NAMED]}
    known = await visit.store.get(visit.tenant, sorted(wanted)) if wanted else {}
    return {
        "entries": page.items,
        "names": {job_id: job.name for job_id, job in known.items()},
        "jobs_named": JOBS_NAMED,
        **link_pages(visit, "audit", page.next_cursor),
    }
