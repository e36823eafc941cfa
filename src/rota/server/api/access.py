"""Access: the tokens of a tenant, and its audit log."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.auth.tokens import Token
from rota.errors import InvalidCursorError
from rota.jobs.fields import read_id, read_instant
from rota.jobs.search import DEFAULT_LIMIT, check_limit
from rota.ops.audit import list_audit_entries
from rota.ops.tokens import TenantTokens, TokenRequest
from rota.policy.audit import AuditEntry
from rota.server.api.fields import (
    NAME,
    InstantText,
    Moment,
    PageChoice,
    PageCursor,
    PageLimit,
    PageOf,
    Queue,
    Uuid,
)
from rota.server.http.route import Answer, Call, Nothing, Resource

TOKENS = Resource("/api/v1/tokens", "tokens")


TokenId = Annotated[
    str,
    Meta(
        description="The id of a token. It does not reveal the secret.",
        extra_json_schema={"pattern": "^[0-9a-f]{24}$", "examples": ["4ace5c094814e1e049c3aa5d"]},
    ),
]
TokenName = Annotated[
    str,
    Meta(
        description="The owner of the token, as the audit log names it.",
        extra_json_schema={**NAME, "examples": ["billing service"]},
    ),
]


class NewToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new token. Without ``expires_at`` it is valid as long as the token that issues it.

    With ``queues`` it may only lease, settle, create and read jobs of these queues; its scopes may
    be ``worker``, ``write`` and ``read``.
    """

    name: TokenName
    scopes: Annotated[
        list[Scope],
        Meta(
            description="What the token allows.", extra_json_schema={"minItems": 1, "maxItems": 20}
        ),
    ]
    expires_at: InstantText | None = None
    queues: Annotated[list[Queue], Meta(min_length=1, max_length=100)] | None = None


class TokenView(msgspec.Struct, frozen=True, kw_only=True):
    """A token without its secret.

    ``queues`` null means all queues. ``issued_by`` is the id of the token that issued it, if one
    did.
    """

    id: TokenId
    tenant: str
    name: TokenName
    scopes: tuple[Scope, ...]
    created_at: Moment
    expires_at: Moment | None
    revoked_at: Moment | None
    last_used_at: Moment | None
    queues: tuple[str, ...] | None
    issued_by: TokenId | None


class IssuedTokenView(TokenView, frozen=True, kw_only=True):
    """A new token with its secret."""

    secret: Annotated[str, Meta(description="Shown once; it cannot be shown again.")]


class RevokedTokenView(TokenView, frozen=True, kw_only=True):
    """A revoked token, its descendants revoked with it, and those that are still valid.

    The descendants of a token are those it issued, and those that they issued.
    """

    revoked_descendants: list[TokenId]
    valid_descendants: list[TokenId]


class TokenPage(PageOf[TokenView], frozen=True):
    """A page of tokens, newest first."""


class RevokeWish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether to revoke the descendants too."""

    descendants: Annotated[
        bool, Meta(description="Also revoke the tokens it issued, and those that they issued.")
    ] = False


@TOKENS.route("POST", "", Scope.ADMIN, answers={201: IssuedTokenView})
async def issue_token(call: Call[NewToken, Nothing]) -> Answer:
    """Issue a token for your tenant.

    It may have only scopes that your own token has, and ends no later. The answer contains its
    secret, which is not stored.
    """
    asked = call.body
    expires_at = None if asked.expires_at is None else read_instant(asked.expires_at, "expires_at")
    wish = TokenRequest(asked.name, asked.scopes, expires_at, asked.queues)
    issued = await _tokens(call).issue_for(call.caller, wish)
    shown = msgspec.structs.asdict(view_token(issued.token))
    return Answer(201, IssuedTokenView(**shown, secret=issued.secret.reveal()))


@TOKENS.route("GET", "", Scope.ADMIN)
async def list_tokens(call: Call[Nothing, PageChoice]) -> TokenPage:
    """List the tokens of your tenant, newest first, including revoked ones."""
    limit, cursor = check_limit(call.query.limit), call.query.cursor
    tokens = await _tokens(call).list_tokens()
    start = 0 if cursor is None else _place_after(tokens, cursor)
    shown = tokens[start : start + limit]
    has_more = start + limit < len(tokens)
    return TokenPage(
        [view_token(token) for token in shown], shown[-1].id if has_more else None, has_more
    )


@TOKENS.route("DELETE", "/{token_id}", Scope.ADMIN, errors=(404,))
async def revoke_token(call: Call[Nothing, RevokeWish]) -> RevokedTokenView:
    """Revoke a token of your tenant. Within seconds no server accepts it.

    The answer names the tokens that descend from it; with ``descendants`` they are revoked too.
    """
    done = await _tokens(call).revoke(
        call.path["token_id"], call.who, with_descendants=call.query.descendants
    )
    return RevokedTokenView(
        **msgspec.structs.asdict(view_token(done.token)),
        revoked_descendants=[each.id for each in done.revoked],
        valid_descendants=[each.id for each in done.valid],
    )


def view_token(token: Token) -> TokenView:
    return msgspec.convert(token, TokenView, from_attributes=True)


def _place_after(tokens: list[Token], cursor: str) -> int:
    for place, token in enumerate(tokens):
        if token.id == cursor:
            return place + 1
    raise InvalidCursorError("is not a cursor of this list")


def _tokens(call: Call[Any, Any]) -> TenantTokens:
    return TenantTokens(call.around)


AUDIT = Resource("/api/v1/audit", "audit")


class AuditSearch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters. An entry must match all of them."""

    action: Annotated[str | None, Meta(description="Entries with this action.")] = None
    job_id: Annotated[Uuid | None, Meta(description="Entries about this job.")] = None
    cursor: PageCursor = None
    limit: PageLimit = DEFAULT_LIMIT


class AuditList(PageOf[AuditEntry], frozen=True):
    """A page of the audit log, newest entry first."""


@AUDIT.route("GET", "", Scope.READ)
async def read_audit_log(call: Call[Nothing, AuditSearch]) -> AuditList:
    """Read the audit log of your tenant, newest entry first."""
    asked = call.query
    page = await list_audit_entries(
        call.store,
        call.tenant,
        action=asked.action,
        job_id=None if asked.job_id is None else read_id(asked.job_id, "job_id"),
        cursor=asked.cursor,
        limit=asked.limit,
    )
    return AuditList(page.items, page.next_cursor, page.has_more)
