"""The tokens of an installation: issued, listed, revoked, and recognised."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from hmac import compare_digest
from secrets import randbits

import msgspec

from rota.access.caller import Caller, Scope
from rota.access.recollection import Reading, Recollection
from rota.access.token import (
    TOKENS,
    IssuedToken,
    KeptToken,
    Token,
    decode_token,
    encode_token,
)
from rota.access.token_text import is_token_id, is_well_formed, make_token, take_fingerprint
from rota.clock.protocol import Clock
from rota.errors import InvalidInputError, StaleVersionError, StoreError, TokenNotFoundError
from rota.jobs.validation.fields import read_instant, read_name, read_word
from rota.stores.protocol import Document, DocumentStore, DocumentWrite

USE_NOTED_EVERY = timedelta(minutes=1)

_TRIES = 20
_NO_DIGEST = "0" * 64


class TokenBook:
    """Tokens as documents of a store; of a token itself only hashes are kept.

    Within two seconds a revoked token is refused by every book on the same store. ``draw_bits`` is
    replaced in tests only.
    """

    def __init__(
        self,
        store: DocumentStore,
        clock: Clock,
        draw_bits: Callable[[int], int] = randbits,
    ) -> None:
        self._store = store
        self._clock = clock
        self._draw_bits = draw_bits
        self._recollection = Recollection()

    def draft(
        self,
        tenant: str,
        scopes: Iterable[Scope | str],
        name: str,
        expires_at: datetime | None = None,
    ) -> IssuedToken:
        """A token that nobody knows yet; it is good once it has been kept."""
        now = self._clock.now()
        secret = make_token(self._draw_bits)
        token = Token(
            id=take_fingerprint(secret.reveal()).id,
            tenant=read_word(tenant, "tenant"),
            name=read_name(name),
            scopes=read_scopes(scopes),
            created_at=now,
            expires_at=_read_expiry(expires_at, now),
        )
        return IssuedToken(token=token, secret=secret)

    async def keep(self, drafted: IssuedToken) -> None:
        """From now on the token is good. Its secret is in the draft and nowhere else."""
        digest = take_fingerprint(drafted.secret.reveal()).digest
        body = encode_token(KeptToken(token=drafted.token, digest=digest))
        await self._store.write_all([DocumentWrite(TOKENS, drafted.id, None, body)])

    async def issue(
        self,
        tenant: str,
        scopes: Iterable[Scope | str],
        name: str,
        expires_at: datetime | None = None,
    ) -> IssuedToken:
        """Draft a token and keep it."""
        drafted = self.draft(tenant, scopes, name, expires_at)
        await self.keep(drafted)
        return drafted

    async def find(self, token_id: str, tenant: str | None = None) -> Token:
        """A token, good or not; with a ``tenant``, those of others are not found."""
        document = await self._find(token_id, tenant)
        return decode_token(token_id, document.body).token

    async def list_tokens(self, tenant: str | None = None) -> list[Token]:
        """Every token, or every one of a tenant, the newest first; the revoked are among them."""
        found = [
            decode_token(document.key, document.body).token
            async for page in self._store.scan(TOKENS)
            for document in page
        ]
        chosen = [token for token in found if tenant is None or token.tenant == tenant]
        return sorted(chosen, key=lambda token: (token.created_at, token.id), reverse=True)

    async def revoke(self, token_id: str, tenant: str | None = None) -> Token:
        """The token is good no longer, nor is any session that was opened with it.

        Revoking it again changes nothing. With a ``tenant``, the tokens of others are not found.
        """
        for _ in range(_TRIES):
            document = await self._find(token_id, tenant)
            kept = decode_token(token_id, document.body)
            if kept.token.revoked_at is not None:
                return kept.token
            token = msgspec.structs.replace(kept.token, revoked_at=self._clock.now())
            written = await self._write(document, msgspec.structs.replace(kept, token=token))
            self._recollection.forget(token_id)
            if written is not None:
                return token
        raise StaleVersionError(TOKENS, token_id, document.version)

    async def identify(self, token: str, now: datetime) -> Caller | None:
        """The caller who holds the token; None for one that is unknown, revoked, expired or wrong.

        All of these go the same way: found by a hash, compared in constant time, then judged.
        """
        if not is_well_formed(token):
            return None
        fingerprint = take_fingerprint(token)
        reading = await self._read(fingerprint.id, now)
        digest = _NO_DIGEST if reading is None else reading.kept.digest
        is_known = compare_digest(digest, fingerprint.digest)
        if reading is None or not is_known or not reading.kept.token.is_good(now):
            return None
        await self._note_use(reading, now)
        return reading.kept.token.as_caller()

    async def recall(self, token_id: str, now: datetime) -> Caller | None:
        """The caller of the token with this id; None when it is good no longer."""
        reading = await self._read(token_id, now)
        if reading is None or not reading.kept.token.is_good(now):
            return None
        await self._note_use(reading, now)
        return reading.kept.token.as_caller()

    async def _find(self, token_id: str, tenant: str | None) -> Document:
        document = None
        if is_token_id(token_id):
            document = (await self._store.read(TOKENS, [token_id])).get(token_id)
        if document is None:
            raise TokenNotFoundError
        owner = decode_token(token_id, document.body).token.tenant
        if tenant is not None and tenant != owner:
            raise TokenNotFoundError
        return document

    async def _read(self, token_id: str, now: datetime) -> Reading | None:
        remembered = self._recollection.find(token_id, now)
        if remembered is not None:
            return remembered
        document = (await self._store.read(TOKENS, [token_id])).get(token_id)
        if document is None:
            return None
        reading = Reading(decode_token(token_id, document.body), document.version, now)
        self._recollection.keep(reading)
        return reading

    async def _note_use(self, reading: Reading, now: datetime) -> None:
        """Write down that the token is in use, once a minute; who is let in does not depend on it.

        Where somebody else has written meanwhile, it may be a revocation: theirs holds.
        """
        token = reading.kept.token
        if token.last_used_at is not None and now - token.last_used_at < USE_NOTED_EVERY:
            return
        kept = msgspec.structs.replace(
            reading.kept, token=msgspec.structs.replace(token, last_used_at=now)
        )
        document = Document(token.id, reading.version, b"")
        try:
            version = await self._write(document, kept)
        except StoreError:
            return
        if version is None:
            self._recollection.forget(token.id)
        else:
            self._recollection.keep(Reading(kept, version, reading.read_at))

    async def _write(self, document: Document, kept: KeptToken) -> int | None:
        write = DocumentWrite(TOKENS, document.key, document.version, encode_token(kept))
        (version,) = await self._store.write_each([write])
        return version


def read_scopes(scopes: Iterable[Scope | str]) -> tuple[Scope, ...]:
    """The scopes in their own order, each once; at least one, and none that does not exist."""
    known = {str(scope) for scope in Scope}
    named = [str(each) for each in scopes] if not isinstance(scopes, str) else [scopes]
    for each in named:
        if each not in known:
            reason = f'"{each}" is none of {", ".join(Scope)}'
            raise InvalidInputError(f"scopes: {reason}", {"field": "scopes", "reason": reason})
    if not named:
        reason = "at least one is needed"
        raise InvalidInputError(f"scopes: {reason}", {"field": "scopes", "reason": reason})
    return tuple(scope for scope in Scope if scope in named)


def _read_expiry(expires_at: object, now: datetime) -> datetime | None:
    if expires_at is None:
        return None
    instant = read_instant(expires_at, "expires_at")
    if instant <= now:
        reason = "must be in the future"
        raise InvalidInputError(f"expires_at {reason}", {"field": "expires_at", "reason": reason})
    return instant
