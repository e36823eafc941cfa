"""Masks secrets in payloads and texts that are shown to people."""

import re
from collections.abc import Iterable
from typing import Any

from rota.auth.tokens import TOKEN_PATTERN

MASK = "(hidden)"

SECRET_WORDS = (
    "apikey",
    "authorization",
    "cookie",
    "credential",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "secret",
    "token",
)
"""A field whose name contains one of these words is masked."""

_TOKEN = re.compile(TOKEN_PATTERN)
_PASSWORD_IN_URL = re.compile(r"(?<=://)([^\s/:@]{0,200}):[^\s/@]{1,200}(?=@)")
_BETWEEN_WORDS = re.compile(r"[\s_.-]+")


def mask_secrets(value: Any, words: Iterable[str] = SECRET_WORDS) -> Any:
    """A copy of a JSON value with its secrets masked, for display only.

    ``API-Key``, ``api_key`` and ``apiKey`` are the same name. Rota tokens and passwords in URLs are
    masked in all texts.
    """
    wanted = tuple(_normalize(word) for word in words)
    return _mask(value, wanted)


def restore_secrets(given: Any, stored: Any, words: Iterable[str] = SECRET_WORDS) -> Any:
    """``given`` with the secrets of ``stored`` wherever it still has their masks.

    For values that were shown masked, changed and sent back.
    """
    return _restore(given, stored, mask_secrets(stored, words))


def mask_text(text: str) -> str:
    """The text with Rota tokens and passwords in URLs masked."""
    return _PASSWORD_IN_URL.sub(rf"\1:{MASK}", _TOKEN.sub(MASK, text))


def _mask(value: Any, words: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        return mask_text(value)
    if isinstance(value, list | tuple):
        return [_mask(each, words) for each in value]
    if isinstance(value, dict):
        return {
            name: MASK if _is_secret(name, words) else _mask(each, words)
            for name, each in value.items()
        }
    return value


def _restore(given: Any, stored: Any, masked: Any) -> Any:
    if isinstance(given, str) and given == masked:
        return stored
    if isinstance(given, dict) and isinstance(masked, dict):
        return {
            name: _restore(each, stored[name], masked[name]) if name in masked else each
            for name, each in given.items()
        }
    if isinstance(given, list) and isinstance(masked, list):
        kept = [_restore(*each) for each in zip(given, stored, masked, strict=False)]
        return kept + given[len(kept) :]
    return given


def _is_secret(name: object, words: tuple[str, ...]) -> bool:
    text = _normalize(str(name))
    return any(word in text for word in words)


def _normalize(name: str) -> str:
    return _BETWEEN_WORDS.sub("", name).lower()
