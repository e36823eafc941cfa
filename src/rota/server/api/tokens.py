"""Tokens: issued, listed and revoked, for the tenant of whoever asks."""

from typing import Annotated

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.auth.tokens import Token
from rota.errors import ForbiddenError, InvalidCursorError
from rota.jobs.fields import read_instant
from rota.jobs.search import DEFAULT_LIMIT, HIGHEST_LIMIT, check_limit
from rota.ops.tokens import TenantTokens, TokenRequest
from rota.rail.jobs import RailContext as RailSurroundings
from rota.rail.jobs import RailSettings
from rota.server.api.shapes.words import NAME, InstantText, Moment
from rota.server.api.views import Cursor
from rota.server.routing.route import Answer, Call, Nothing, Route

TOKENS = "/api/v1/tokens"
ONE_TOKEN = "/api/v1/tokens/{token_id}"  # noqa: S105 - a path

TokenId = Annotated[
    str,
    Meta(
        description="The id of a token; it tells nothing of its secret.",
        extra_json_schema={"pattern": "^[0-9a-f]{24}$", "examples": ["4ace5c094814e1e049c3aa5d"]},
    ),
]
TokenName = Annotated[
    str,
    Meta(
        description="Who or what has the token: their name in the audit log.",
        extra_json_schema={**NAME, "examples": ["billing service"]},
    ),
]


class NewToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token as it is asked for; without ``expires_at`` it is good until it is revoked."""

    name: TokenName
    scopes: Annotated[
        list[Scope],
        Meta(description="What it allows.", extra_json_schema={"minItems": 1, "maxItems": 20}),
    ]
    expires_at: InstantText | None = None


class TokenView(msgspec.Struct, frozen=True, kw_only=True):
    """A token with everything but its secret."""

    id: TokenId
    tenant: str
    name: TokenName
    scopes: tuple[Scope, ...]
    created_at: Moment
    expires_at: Moment | None
    revoked_at: Moment | None
    last_used_at: Moment | None


class IssuedTokenView(TokenView, frozen=True, kw_only=True):
    """A new token, and for once its secret."""

    secret: Annotated[str, Meta(description="Shown now and never again.")]


class TokenPage(msgspec.Struct, frozen=True):
    """A page of tokens, the newest first."""

    items: list[TokenView]
    next_cursor: Cursor
    has_more: bool


class TokenSearch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page of tokens is wanted."""

    cursor: Annotated[
        str | None, Meta(description="The next_cursor of the page before; left out, the first.")
    ] = None
    limit: Annotated[
        int,
        Meta(
            description="How many to a page.",
            extra_json_schema={"minimum": 1, "maximum": HIGHEST_LIMIT},
        ),
    ] = DEFAULT_LIMIT


async def issue_token(call: Call[NewToken, Nothing]) -> Answer:
    """Issue a token of your own tenant.

    It may allow no more than your own does. Its secret is in the answer, and kept nowhere.
    """
    asked = call.body
    for scope in asked.scopes:
        if not call.caller.may(scope):
            raise ForbiddenError(scope)
    expires_at = None if asked.expires_at is None else read_instant(asked.expires_at, "expires_at")
    wish = TokenRequest(asked.name, asked.scopes, expires_at)
    issued = await _desk(call).issue(wish, call.caller.who)
    shown = msgspec.structs.asdict(view_token(issued.token))
    return Answer(201, IssuedTokenView(**shown, secret=issued.secret.reveal()))


async def list_tokens(call: Call[Nothing, TokenSearch]) -> TokenPage:
    """List the tokens of your tenant, the newest first; the revoked are among them."""
    limit, cursor = check_limit(call.query.limit), call.query.cursor
    tokens = await _desk(call).list_tokens()
    start = 0 if cursor is None else _place_after(tokens, cursor)
    shown = tokens[start : start + limit]
    has_more = start + limit < len(tokens)
    return TokenPage(
        [view_token(token) for token in shown], shown[-1].id if has_more else None, has_more
    )


async def revoke_token(call: Call[Nothing, Nothing]) -> TokenView:
    """Revoke a token of your tenant; within seconds nobody is let in with it any more."""
    return view_token(await _desk(call).revoke(call.path["token_id"], call.caller.who))


def view_token(token: Token) -> TokenView:
    return msgspec.convert(token, TokenView, from_attributes=True)


def _place_after(tokens: list[Token], cursor: str) -> int:
    for place, token in enumerate(tokens):
        if token.id == cursor:
            return place + 1
    raise InvalidCursorError("is no place in this list")


def _desk(
    call: Call[NewToken, Nothing] | Call[Nothing, TokenSearch] | Call[Nothing, Nothing],
) -> TenantTokens:
    around = call.around
    return TenantTokens(
        RailSurroundings(
            around.store, call.caller.tenant, around.clock, RailSettings(), around.draw_bits
        )
    )


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path=TOKENS,
        handler=issue_token,
        scope=Scope.ADMIN,
        tag="tokens",
        body=NewToken,
        answers={201: IssuedTokenView},
    ),
    Route(
        method="GET",
        path=TOKENS,
        handler=list_tokens,
        scope=Scope.ADMIN,
        tag="tokens",
        query=TokenSearch,
        answers={200: TokenPage},
    ),
    Route(
        method="DELETE",
        path=ONE_TOKEN,
        handler=revoke_token,
        scope=Scope.ADMIN,
        tag="tokens",
        answers={200: TokenView},
        errors=(404,),
    ),
)
