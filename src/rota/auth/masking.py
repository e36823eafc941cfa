"""Secrets in payloads, kept from the eyes of people who only want to see what a job is about."""

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
"""A field whose name holds one of these is masked, whatever its value is."""

_TOKEN = re.compile(TOKEN_PATTERN)
_PASSWORD_IN_URL = re.compile(r"(?<=://)([^\s/:@]{0,200}):[^\s/@]{1,200}(?=@)")
_BETWEEN_WORDS = re.compile(r"[\s_.-]+")


def mask_secrets(value: Any, words: Iterable[str] = SECRET_WORDS) -> Any:
    """A JSON value as it may be shown; everything that is no secret is as it was.

    ``API-Key``, ``api_key`` and ``apiKey`` are the same name. In texts, tokens of Rota and the
    passwords of URLs are masked, too. It is for showing only: what is kept is not changed, and
    whoever may run the job is given all of it.
    """
    wanted = tuple(_normalize(word) for word in words)
    return _mask(value, wanted)


def mask_text(text: str) -> str:
    """A text without tokens of Rota, and without the passwords of URLs."""
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


def _is_secret(name: object, words: tuple[str, ...]) -> bool:
    text = _normalize(str(name))
    return any(word in text for word in words)


def _normalize(name: str) -> str:
    return _BETWEEN_WORDS.sub("", name).lower()
