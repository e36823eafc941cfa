"""Issues and revokes a tenant's tokens, with an audit record.

The command line, the REST API and the pages use this, so all leave the same record.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from rota.auth.caller import Caller, Scope
from rota.auth.tokens import IssuedToken, Token, TokenBook
from rota.errors import ForbiddenError, TokenNotFoundError, UnauthorizedError, invalid
from rota.jobs.codec import format_instant
from rota.policy.audit import AuditedAction, record_action
from rota.rail.jobs import RailContext


class TokenRequest(NamedTuple):
    """The requested properties of a token."""

    name: str
    scopes: Iterable[Scope | str]
    expires_at: datetime | None = None
    queues: Iterable[str] | None = None


class Revocation(NamedTuple):
    """A revoked token, its descendants revoked with it, and those that are still valid."""

    token: Token
    revoked: Sequence[Token]
    valid: Sequence[Token]


class TenantTokens:
    """Issues and revokes a tenant's tokens. Records each action in the audit log first."""

    def __init__(self, context: RailContext, book: TokenBook | None = None) -> None:
        self._context = context
        self._book = book or TokenBook(context.store, context.clock)

    async def issue(self, request: TokenRequest, who: str, why: str | None = None) -> IssuedToken:
        """Issue a token as a person with access to the store. Its secret cannot be shown again."""
        return await self._issue(request, None, who, why)

    async def issue_for(self, caller: Caller, request: TokenRequest) -> IssuedToken:
        """Issue a token for a caller: it has no right that the caller lacks, and ends no later.

        Without ``expires_at`` it ends with the caller's token.
        """
        for scope in request.scopes:
            if not caller.may(Scope(scope)):
                raise ForbiddenError(scope)
        if caller.queues is not None:
            caller.check_queues(request.queues or ())
            request = request._replace(queues=request.queues or caller.queues)
        issuer = await self._find_issuer(caller)
        if issuer is not None:
            request = request._replace(expires_at=_limit_expiry(request.expires_at, issuer))
        return await self._issue(request, caller.token_id, caller.who)

    async def revoke(
        self, token_id: str, who: str, why: str | None = None, *, with_descendants: bool = False
    ) -> Revocation:
        """Revoke a token, and on request every token that descends from it.

        Revoking it again records nothing.
        """
        token = await self._book.find(token_id, self._context.tenant)
        token = await self._revoke(token, who, why)
        now = self._context.clock.now()
        valid = [it for it in await self._book.list_descendants(token) if it.is_valid(now)]
        if not with_descendants:
            return Revocation(token, (), valid)
        return Revocation(token, [await self._revoke(each, who, why) for each in valid], ())

    async def find(self, token_id: str) -> tuple[Token, list[Token]]:
        """A token of the tenant and its descendants, valid or not."""
        token = await self._book.find(token_id, self._context.tenant)
        return token, await self._book.list_descendants(token)

    async def list_tokens(self) -> list[Token]:
        """The tenant's tokens, newest first, including revoked ones."""
        return await self._book.list_tokens(self._context.tenant)

    async def _find_issuer(self, caller: Caller) -> Token | None:
        """The caller's token as it is stored now; None if the host service issued it.

        A token that was revoked a moment ago issues none, even where it is still cached.
        """
        if caller.token_id is None:
            return None
        try:
            issuer = await self._book.find(caller.token_id, self._context.tenant)
        except TokenNotFoundError:
            return None
        if not issuer.is_valid(self._context.clock.now()):
            raise UnauthorizedError
        return issuer

    async def _issue(
        self, request: TokenRequest, issued_by: str | None, who: str, why: str | None = None
    ) -> IssuedToken:
        drafted = self._book.draft(
            self._context.tenant,
            request.scopes,
            request.name,
            request.expires_at,
            queues=request.queues,
            issued_by=issued_by,
        )
        await self._record("token.issue", drafted.token, who, why)
        await self._book.keep(drafted)
        return drafted

    async def _revoke(self, token: Token, who: str, why: str | None) -> Token:
        if token.revoked_at is not None:
            return token
        await self._record("token.revoke", token, who, why)
        return await self._book.revoke(token.id, self._context.tenant)

    async def _record(self, action: str, token: Token, who: str, why: str | None) -> None:
        details: dict[str, Any] = {
            "token_id": token.id,
            "name": token.name,
            "scopes": [str(scope) for scope in token.scopes],
            "issued_by": token.issued_by,
        }
        if token.queues is not None:
            details["queues"] = list(token.queues)
        await record_action(
            self._context, AuditedAction(action=action, who=who, why=why, details=details)
        )


def _limit_expiry(expires_at: datetime | None, issuer: Token) -> datetime | None:
    if issuer.expires_at is None:
        return expires_at
    if expires_at is not None and expires_at > issuer.expires_at:
        latest = format_instant(issuer.expires_at)
        raise invalid("expires_at", f"must not be after {latest}, when your own token expires")
    return expires_at or issuer.expires_at
