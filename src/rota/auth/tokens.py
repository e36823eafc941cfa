"""API tokens: their format, their records, and how they are issued, checked and revoked."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from hmac import compare_digest
from secrets import randbits
from typing import NamedTuple, NoReturn
from zlib import crc32

import msgspec

from rota.auth.caller import Caller, Scope
from rota.clock.protocol import Clock
from rota.errors import (
    InvalidInputError,
    StaleVersionError,
    StoreError,
    TokenNotFoundError,
    invalid,
)
from rota.jobs.fields import read_instant, read_name, read_queue, read_word
from rota.jobs.record import Instant
from rota.stores.documents import all_documents, find_document
from rota.stores.protocol import Document, DocumentStore, DocumentWrite

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_RANDOM_LENGTH = 43
_CHECKSUM_LENGTH = 6
_ID_LENGTH = 24

PREFIX = "rota_"
RANDOM_BITS = 256
TOKEN_PATTERN = rf"{PREFIX}[0-9A-Za-z]{{{_RANDOM_LENGTH + _CHECKSUM_LENGTH}}}"
"""A regular expression for secret scanners."""

TOKENS = "tokens"
"""The collection. A key is a token id."""

CACHED_FOR = timedelta(seconds=2)
"""A token that another process revokes stays valid here for at most this long."""

QUEUE_SCOPES = (Scope.READ, Scope.WORKER, Scope.WRITE)
"""The scopes of a token for single queues; all others are about more than queues."""

MOST_CACHED = 1_000
USE_NOTED_EVERY = timedelta(minutes=1)

_TOKEN = re.compile(TOKEN_PATTERN)
_ID = re.compile(rf"[0-9a-f]{{{_ID_LENGTH}}}")
_TRIES = 20
_NO_DIGEST = "0" * 64


class Secret:
    """A secret text that only ``reveal()`` returns.

    It prints as ``Secret(***)`` in logs, tracebacks and format strings, and cannot be pickled. Two
    secrets are compared in constant time.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text. Show it once, to its owner only."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"

    def __format__(self, _: str) -> str:
        return repr(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return compare_digest(_bytes_of(self._text), _bytes_of(other._text))

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret cannot be pickled")


def _bytes_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


class Fingerprint(NamedTuple):
    """What is stored of a token: an id to find it by and a digest to check it by.

    Both are one-way hashes of the token.
    """

    id: str
    digest: str


def make_token(draw_bits: Callable[[int], int]) -> Secret:
    """A new token. ``draw_bits`` must be cryptographically secure."""
    body = PREFIX + _in_digits(draw_bits(RANDOM_BITS), _RANDOM_LENGTH)
    return Secret(body + _checksum(body))


def is_well_formed(text: str) -> bool:
    """Whether the text is a complete token: its length and checksum are right.

    This does not mean that the token exists.
    """
    if not _TOKEN.fullmatch(text):
        return False
    return _checksum(text[:-_CHECKSUM_LENGTH]) == text[-_CHECKSUM_LENGTH:]


def is_token_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def take_fingerprint(text: str) -> Fingerprint:
    """The id and the digest of a token or of a session's secret.

    A plain hash is enough, because a token has 256 random bits.
    """
    written = text.encode("utf-8", "surrogatepass")
    return Fingerprint(
        sha256(b"rota id:" + written).hexdigest()[:_ID_LENGTH],
        sha256(b"rota digest:" + written).hexdigest(),
    )


def _checksum(text: str) -> str:
    return _in_digits(crc32(text.encode()), _CHECKSUM_LENGTH)


def _in_digits(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A token without its secret: tenant, scopes and validity.

    ``queues`` are the only queues it is for; None means all. ``issued_by`` is the id of the token
    that issued it; None means that a person with access to the store did.
    """

    id: str
    tenant: str
    name: str
    scopes: tuple[Scope, ...]
    created_at: Instant
    expires_at: Instant | None = None
    revoked_at: Instant | None = None
    last_used_at: Instant | None = None
    """Updated at most once a minute."""
    queues: tuple[str, ...] | None = None
    issued_by: str | None = None

    def is_valid(self, now: datetime) -> bool:
        if self.revoked_at is not None:
            return False
        return self.expires_at is None or now < self.expires_at

    def as_caller(self) -> Caller:
        return Caller(
            tenant=self.tenant,
            scopes=frozenset(self.scopes),
            who=self.name,
            token_id=self.id,
            queues=None if self.queues is None else frozenset(self.queues),
        )


class IssuedToken(msgspec.Struct, frozen=True, kw_only=True):
    """A new token with its secret, which cannot be shown again."""

    token: Token
    secret: Secret

    @property
    def id(self) -> str:
        return self.token.id


class StoredToken(msgspec.Struct, frozen=True, kw_only=True):
    """A stored token with the digest of its secret."""

    token: Token
    digest: str


def encode_token(kept: StoredToken) -> bytes:
    return msgspec.json.encode(kept)


def decode_token(key: str, body: bytes) -> StoredToken:
    try:
        return msgspec.json.decode(body, type=StoredToken)
    except msgspec.DecodeError as error:
        raise StoreError(f"Token {key} cannot be read: {error}", {"token_id": key}) from error


class CachedToken(NamedTuple):
    """A token as it was read, and when."""

    kept: StoredToken
    version: int
    read_at: datetime


class TokenCache:
    """Caches existing tokens for a short time.

    Unknown ids are not cached: invented ids must not fill the cache, and a token that another
    process issues must be valid at once.
    """

    def __init__(self, cached_for: timedelta = CACHED_FOR, most: int = MOST_CACHED) -> None:
        self._cached_for = cached_for
        self._most = most
        self._tokens: dict[str, CachedToken] = {}

    @property
    def tokens(self) -> Mapping[str, CachedToken]:
        return self._tokens

    def find(self, token_id: str, now: datetime) -> CachedToken | None:
        """A token that was read recently. A clock that was set back does not extend this."""
        cached = self._tokens.get(token_id)
        if cached is None or not timedelta() <= now - cached.read_at < self._cached_for:
            return None
        return cached

    def keep(self, cached: CachedToken) -> None:
        self.forget(cached.kept.token.id)
        while len(self._tokens) >= self._most:
            del self._tokens[next(iter(self._tokens))]
        self._tokens[cached.kept.token.id] = cached

    def forget(self, token_id: str) -> None:
        self._tokens.pop(token_id, None)


class TokenBook:
    """Tokens as documents of a store. Only hashes of a token are stored.

    Every book on the same store refuses a revoked token within two seconds. ``draw_bits`` is
    replaced in tests only.
    """

    def __init__(
        self, store: DocumentStore, clock: Clock, draw_bits: Callable[[int], int] = randbits
    ) -> None:
        self._store = store
        self._clock = clock
        self._draw_bits = draw_bits
        self._cache = TokenCache()

    def draft(
        self,
        tenant: str,
        scopes: Iterable[Scope | str],
        name: str,
        expires_at: datetime | None = None,
        *,
        queues: Iterable[str] | None = None,
        issued_by: str | None = None,
    ) -> IssuedToken:
        """A new token that is not stored yet. ``keep`` makes it valid."""
        now = self._clock.now()
        secret = make_token(self._draw_bits)
        chosen = read_scopes(scopes)
        token = Token(
            id=take_fingerprint(secret.reveal()).id,
            tenant=read_word(tenant, "tenant"),
            name=read_name(name),
            scopes=chosen,
            created_at=now,
            expires_at=_read_expiry(expires_at, now),
            queues=_read_queues(queues, chosen),
            issued_by=issued_by,
        )
        return IssuedToken(token=token, secret=secret)

    async def keep(self, drafted: IssuedToken) -> None:
        """Store the token and make it valid. Its secret is not stored."""
        digest = take_fingerprint(drafted.secret.reveal()).digest
        body = encode_token(StoredToken(token=drafted.token, digest=digest))
        await self._store.write_all([DocumentWrite(TOKENS, drafted.id, None, body)])

    async def issue(
        self,
        tenant: str,
        scopes: Iterable[Scope | str],
        name: str,
        expires_at: datetime | None = None,
        *,
        queues: Iterable[str] | None = None,
    ) -> IssuedToken:
        """Draft a token and keep it."""
        drafted = self.draft(tenant, scopes, name, expires_at, queues=queues)
        await self.keep(drafted)
        return drafted

    async def find(self, token_id: str, tenant: str | None = None) -> Token:
        """A token, valid or not. With ``tenant``, only a token of that tenant."""
        document = await self._find(token_id, tenant)
        return decode_token(token_id, document.body).token

    async def list_tokens(self, tenant: str | None = None) -> list[Token]:
        """All tokens, or those of a tenant, newest first, including revoked ones."""
        found = [
            decode_token(document.key, document.body).token
            async for document in all_documents(self._store, TOKENS)
        ]
        chosen = [token for token in found if tenant is None or token.tenant == tenant]
        return sorted(chosen, key=lambda token: (token.created_at, token.id), reverse=True)

    async def list_descendants(self, token: Token) -> list[Token]:
        """The tokens that this one issued, and those that they issued, oldest first."""
        issued: defaultdict[str | None, list[Token]] = defaultdict(list)
        for each in reversed(await self.list_tokens(token.tenant)):
            issued[each.issued_by].append(each)
        found = list(issued[token.id])
        for each in found:  # grows while it is read; an id is a hash, so there is no cycle
            found.extend(issued[each.id])
        return found

    async def revoke(self, token_id: str, tenant: str | None = None) -> Token:
        """Revoke the token and end its sessions. Revoking it again changes nothing.

        With ``tenant``, only a token of that tenant.
        """
        for _ in range(_TRIES):
            document = await self._find(token_id, tenant)
            kept = decode_token(token_id, document.body)
            if kept.token.revoked_at is not None:
                return kept.token
            token = msgspec.structs.replace(kept.token, revoked_at=self._clock.now())
            written = await self._write(document, msgspec.structs.replace(kept, token=token))
            self._cache.forget(token_id)
            if written is not None:
                return token
        raise StaleVersionError(TOKENS, token_id, document.version)

    async def identify(self, token: str, now: datetime) -> Caller | None:
        """The holder of the token; None when it is unknown, revoked, expired or malformed.

        Every token takes the same path: found by hash, compared in constant time, then checked.
        """
        if not is_well_formed(token):
            return None
        fingerprint = take_fingerprint(token)
        cached = await self._read(fingerprint.id, now)
        digest = _NO_DIGEST if cached is None else cached.kept.digest
        is_known = compare_digest(digest, fingerprint.digest)
        if cached is None or not is_known or not cached.kept.token.is_valid(now):
            return None
        await self._note_use(cached, now)
        return cached.kept.token.as_caller()

    async def recall(self, token_id: str, now: datetime) -> Caller | None:
        """The holder of the token with this id; None when it is no longer valid."""
        cached = await self._read(token_id, now)
        if cached is None or not cached.kept.token.is_valid(now):
            return None
        await self._note_use(cached, now)
        return cached.kept.token.as_caller()

    async def _find(self, token_id: str, tenant: str | None) -> Document:
        document = None
        if is_token_id(token_id):
            document = await find_document(self._store, TOKENS, token_id)
        if document is None:
            raise TokenNotFoundError
        owner = decode_token(token_id, document.body).token.tenant
        if tenant is not None and tenant != owner:
            raise TokenNotFoundError
        return document

    async def _read(self, token_id: str, now: datetime) -> CachedToken | None:
        known = self._cache.find(token_id, now)
        if known is not None:
            return known
        document = await find_document(self._store, TOKENS, token_id)
        if document is None:
            return None
        cached = CachedToken(decode_token(token_id, document.body), document.version, now)
        self._cache.keep(cached)
        return cached

    async def _note_use(self, cached: CachedToken, now: datetime) -> None:
        """Record the use of the token once a minute. A failure to record is ignored.

        A concurrent write wins: it may be a revocation.
        """
        token = cached.kept.token
        if token.last_used_at is not None and now - token.last_used_at < USE_NOTED_EVERY:
            return
        kept = msgspec.structs.replace(
            cached.kept, token=msgspec.structs.replace(token, last_used_at=now)
        )
        document = Document(token.id, cached.version, b"")
        try:
            version = await self._write(document, kept)
        except StoreError:
            return
        if version is None:
            self._cache.forget(token.id)
        else:
            self._cache.keep(CachedToken(kept, version, cached.read_at))

    async def _write(self, document: Document, kept: StoredToken) -> int | None:
        write = DocumentWrite(TOKENS, document.key, document.version, encode_token(kept))
        (version,) = await self._store.write_each([write])
        return version


def read_scopes(scopes: Iterable[Scope | str]) -> tuple[Scope, ...]:
    """Check the scopes. Returns them in their own order, each once; at least one."""
    known = {str(scope) for scope in Scope}
    named = [str(each) for each in scopes] if not isinstance(scopes, str) else [scopes]
    for each in named:
        if each not in known:
            raise _refuse_scopes(f'"{each}" is not a scope; use {", ".join(Scope)}')
    if not named:
        raise _refuse_scopes("at least one is needed")
    return tuple(scope for scope in Scope if scope in named)


def _refuse_scopes(reason: str) -> InvalidInputError:
    return InvalidInputError(f"scopes: {reason}", {"field": "scopes", "reason": reason})


def _read_queues(queues: object, scopes: Iterable[Scope]) -> tuple[str, ...] | None:
    if queues is None:
        return None
    if isinstance(queues, str) or not isinstance(queues, Iterable):
        raise invalid("queues", f"must be a list of queues, got {queues!r:.40}")
    for scope in scopes:
        if scope not in QUEUE_SCOPES:
            allowed = ", ".join(QUEUE_SCOPES)
            raise invalid("queues", f'the scope "{scope}" is not for single queues; use {allowed}')
    named = []
    for queue in queues:
        try:
            named.append(read_queue(queue))
        except InvalidInputError as error:
            raise invalid("queues", error.message) from error
    if not named:
        raise invalid("queues", "must name at least one queue, or be left out for all")
    return tuple(sorted(set(named)))


def _read_expiry(expires_at: object, now: datetime) -> datetime | None:
    if expires_at is None:
        return None
    instant = read_instant(expires_at, "expires_at")
    if instant <= now:
        raise invalid("expires_at", "must be in the future")
    return instant
