"""Kinds of jobs that a worker can do by itself: ``http.request`` and ``log.message``.

``Worker(store, {**BUILT_IN, **your_handlers})``. The HTTP client is loaded with the first request.
"""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from rota.errors import MissingExtraError
from rota.kinds.log_message import log_message
from rota.kinds.network import HttpRules, read_http_rules
from rota.kinds.signing import Keyring, Signed, sign, verify
from rota.worker import Context, Discard, Snooze
from rota.worker.registry import Work

__all__ = [
    "BUILT_IN",
    "HttpRequests",
    "HttpRules",
    "Keyring",
    "Signed",
    "make_built_in",
    "read_http_rules",
    "sign",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name != "HttpRequests":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _check_client()
    return import_module("rota.kinds.http_request").HttpRequests


def make_built_in(environ: Mapping[str, str] | None = None) -> dict[str, Work]:
    """The built-in kinds, configured from this environment.

    Call it when a program starts: InvalidConfigurationError names what is wrong before there is a
    job. Raises MissingExtraError without the extra ``rota[server]``.
    """
    _check_client()
    configured = read_http_rules(environ), Keyring(environ)
    return {"http.request": _load_later(lambda: configured), "log.message": log_message}


def _check_client() -> None:
    if find_spec("httpx2") is None:
        raise MissingExtraError("Built-in kinds", "httpx2", "server")


def _load_later(configure: Callable[[], tuple[HttpRules, Keyring]]) -> Work:
    @cache
    def load() -> Any:
        _check_client()
        return import_module("rota.kinds.http_request").HttpRequests(*configure())

    async def request_http(context: Context) -> Snooze | Discard | None:
        returned: Snooze | Discard | None = await load()(context)
        return returned

    request_http.notifies = True  # type: ignore[attr-defined] # as HttpRequests says
    return request_http


BUILT_IN: Mapping[str, Work] = {
    "http.request": _load_later(lambda: (read_http_rules(), Keyring())),
    "log.message": log_message,
}
