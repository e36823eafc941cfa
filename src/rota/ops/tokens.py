"""Issues and revokes a tenant's tokens, with an audit record.

The command line and the REST API both use this, so both leave the same record.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from rota.auth.caller import Scope
from rota.auth.tokens import IssuedToken, Token, TokenBook
from rota.rail.audit import AuditedAction, record_action
from rota.rail.jobs import RailContext


class TokenRequest(NamedTuple):
    """The requested properties of a token."""

    name: str
    scopes: Iterable[Scope | str]
    expires_at: datetime | None = None


class TenantTokens:
    """Issues and revokes a tenant's tokens. Records each action in the audit log first."""

    def __init__(self, context: RailContext, book: TokenBook | None = None) -> None:
        self._context = context
        self._book = book or TokenBook(context.store, context.clock)

    async def issue(self, request: TokenRequest, who: str, why: str | None = None) -> IssuedToken:
        """Issue a token. Its secret cannot be shown again."""
        drafted = self._book.draft(
            self._context.tenant, request.scopes, request.name, request.expires_at
        )
        await self._record("token.issue", drafted.token, who, why)
        await self._book.keep(drafted)
        return drafted

    async def revoke(self, token_id: str, who: str, why: str | None = None) -> Token:
        """Revoke a token. Revoking it again records nothing."""
        token = await self._book.find(token_id, self._context.tenant)
        if token.revoked_at is not None:
            return token
        await self._record("token.revoke", token, who, why)
        return await self._book.revoke(token_id, self._context.tenant)

    async def list_tokens(self) -> list[Token]:
        """The tenant's tokens, newest first, including revoked ones."""
        return await self._book.list_tokens(self._context.tenant)

    async def _record(self, action: str, token: Token, who: str, why: str | None) -> None:
        details = {
            "token_id": token.id,
            "name": token.name,
            "scopes": [str(scope) for scope in token.scopes],
        }
        await record_action(
            self._context, AuditedAction(action=action, who=who, why=why, details=details)
        )
