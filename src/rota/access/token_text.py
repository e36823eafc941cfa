"""How a token is written: ``rota_``, 256 random bits, and a checksum.

The prefix lets scanners find a token that was left in a repository or a log. The checksum tells a
token that was mistyped, or is one of something else, from one that is unknown, without a store.
"""

import re
from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple
from zlib import crc32

from rota.access.secret import Secret

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
