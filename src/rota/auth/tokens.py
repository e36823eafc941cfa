"""API tokens: their format, their records, and the book that issues, checks and revokes them."""

import re
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
from rota.errors import InvalidInputError, StaleVersionError, StoreError, TokenNotFoundError
from rota.jobs.fields import read_instant, read_name, read_word
from rota.jobs.record import Instant
from rota.stores.protocol import Document, DocumentStore, DocumentWrite


class Secret:
    """Holds a secret text; shows it only to who asks with ``reveal()``.

    It prints as ``Secret(***)`` wherever it lands: in a log line, a traceback, a format string.
    Nothing turns it into bytes for storing; comparing two takes the same time wherever they differ.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself. Show it once to its owner, and pass it on to nobody else."""
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
        raise TypeError("a secret is not written anywhere as it is")


def _bytes_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


PREFIX = "rota_"
RANDOM_BITS = 256

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_RANDOM_LENGTH = 43
_CHECKSUM_LENGTH = 6
_ID_LENGTH = 24

TOKEN_PATTERN = rf"{PREFIX}[0-9A-Za-z]{{{_RANDOM_LENGTH + _CHECKSUM_LENGTH}}}"
"""What a scanner for secrets looks for, as a regular expression."""

_TOKEN = re.compile(TOKEN_PATTERN)
_ID = re.compile(rf"[0-9a-f]{{{_ID_LENGTH}}}")


class Fingerprint(NamedTuple):
    """What may be kept of a token: an id to find it by, and a digest to know it by.

    Both are made from the token in one direction; nobody finds the token from them.
    """

    id: str
    digest: str


def make_token(draw_bits: Callable[[int], int]) -> Secret:
    """A new token; ``draw_bits`` must draw from a source that nobody can predict."""
    body = PREFIX + _in_digits(draw_bits(RANDOM_BITS), _RANDOM_LENGTH)
    return Secret(body + _checksum(body))


def is_well_formed(text: str) -> bool:
    """Whether the text is a whole token; a mistyped or shortened one is not.

    That says nothing about whether anybody knows the token.
    """
    if not _TOKEN.fullmatch(text):
        return False
    return _checksum(text[:-_CHECKSUM_LENGTH]) == text[-_CHECKSUM_LENGTH:]


def is_token_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def take_fingerprint(text: str) -> Fingerprint:
    """The id and the digest of a token or of the secret of a session.

    A plain hash is enough: there are 256 random bits in it, more than anybody can try.
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


REMEMBERED_FOR = timedelta(seconds=2)
"""A token that another process revokes is good for so much longer at most."""

MOST_REMEMBERED = 1_000


class Reading(NamedTuple):
    """A token as it was read, and when."""

    kept: KeptToken
    version: int
    read_at: datetime


class Recollection:
    """Remembers tokens that exist, for a short while, and only so many.

    Ids that nobody knows are not remembered: whoever makes them up must not fill the memory, and a
    token that was issued elsewhere must be good at once.
    """

    def __init__(
        self, remembered_for: timedelta = REMEMBERED_FOR, most: int = MOST_REMEMBERED
    ) -> None:
        self._remembered_for = remembered_for
        self._most = most
        self._readings: dict[str, Reading] = {}

    @property
    def readings(self) -> Mapping[str, Reading]:
        return self._readings

    def find(self, token_id: str, now: datetime) -> Reading | None:
        """What was read not too long ago; a clock that was set back does not make it last."""
        reading = self._readings.get(token_id)
        if reading is None or not timedelta() <= now - reading.read_at < self._remembered_for:
            return None
        return reading

    def keep(self, reading: Reading) -> None:
        self.forget(reading.kept.token.id)
        while len(self._readings) >= self._most:
            del self._readings[next(iter(self._readings))]
        self._readings[reading.kept.token.id] = reading

    def forget(self, token_id: str) -> None:
        self._readings.pop(token_id, None)


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
