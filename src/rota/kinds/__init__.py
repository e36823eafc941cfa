"""Kinds of jobs that a worker can do by itself: ``http.request`` and ``log.message``.

``Worker(store, {**BUILT_IN, **handlers_of_your_own})``. What requests may reach and where secrets
are is read from the environment when the first of them is made.
"""

import os
from collections.abc import Mapping
from functools import cache

from rota.errors import MissingExtraError
from rota.kinds.log_message import log_message
from rota.kinds.signing import Keyring, Signed, sign, verify
from rota.worker import Context, Discard, Snooze
from rota.worker.registry import Work

try:
    from rota.kinds.http_request import HttpRequests
except ModuleNotFoundError as error:
    if error.name is None or not error.name.startswith("httpx2"):
        raise
    raise MissingExtraError("Built-in kinds", "httpx2", "server") from error
from rota.kinds.network import HttpRules, read_http_rules

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


def make_built_in(environ: Mapping[str, str] | None = None) -> dict[str, Work]:
    """The built-in kinds as this environment wants them.

    InvalidConfigurationError when it cannot be used: call this at the start of a program, and it
    is noticed before there is a job.
    """
    requests = HttpRequests(read_http_rules(environ), Keyring(environ))
    return {"http.request": requests, "log.message": log_message}


@cache
def _requests_of_environment() -> HttpRequests:
    return HttpRequests(read_http_rules(os.environ), Keyring(os.environ))


async def request_http(context: Context) -> Snooze | Discard | None:
    """``http.request``, by the rules of this process's environment."""
    return await _requests_of_environment()(context)


request_http.notifies = True  # type: ignore[attr-defined] # as HttpRequests says
BUILT_IN: Mapping[str, Work] = {"http.request": request_http, "log.message": log_message}
