"""A token as it is kept: everything about it but the token."""

from datetime import datetime

import msgspec

from rota.access.caller import Caller, Scope
from rota.access.secret import Secret
from rota.errors import StoreError
from rota.jobs.record import Instant

TOKENS = "tokens"
"""The collection; a key is the id of a token."""


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """Whose it is, what it allows, and until when."""

    id: str
    tenant: str
    name: str
    scopes: tuple[Scope, ...]
    created_at: Instant
    expires_at: Instant | None = None
    revoked_at: Instant | None = None
    last_used_at: Instant | None = None
    """Noted at most once a minute."""

    def is_good(self, now: datetime) -> bool:
        if self.revoked_at is not None:
            return False
        return self.expires_at is None or now < self.expires_at

    def as_caller(self) -> Caller:
        return Caller(
            tenant=self.tenant, scopes=frozenset(self.scopes), who=self.name, token_id=self.id
        )


class IssuedToken(msgspec.Struct, frozen=True, kw_only=True):
    """A new token, and for once its secret: nobody can show it again."""

    token: Token
    secret: Secret

    @property
    def id(self) -> str:
        return self.token.id


class KeptToken(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a document: the token, and what its secret is recognised by."""

    token: Token
    digest: str


def encode_token(kept: KeptToken) -> bytes:
    return msgspec.json.encode(kept)


def decode_token(key: str, body: bytes) -> KeptToken:
    try:
        return msgspec.json.decode(body, type=KeptToken)
    except msgspec.DecodeError as error:
        raise StoreError(f"Token {key} cannot be read: {error}", {"token_id": key}) from error
