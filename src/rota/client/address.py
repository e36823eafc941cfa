"""Where what is asked for is kept, and on whose behalf it is asked for."""

from urllib.parse import urlsplit

import msgspec

from rota.access import Secret
from rota.errors import InvalidInputError
from rota.jobs.record import DEFAULT_TENANT


class StoreAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A store that this process opens itself; ``who`` is for the audit log."""

    url: str
    tenant: str = DEFAULT_TENANT
    who: str = "client"


class ServerAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A server, and the token that says who is asking; the tenant is the token's."""

    url: str
    token: Secret | None = None

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise _refusal(self.url, "write it as http://127.0.0.1:8080 or https://rota.example")
        if parts.username is not None or parts.password is not None:
            raise _refusal("...", "it must not hold a name or a password")
        if parts.query or parts.fragment:
            raise _refusal(self.url, "it must not hold ? or #")


def _refusal(url: str, reason: str) -> InvalidInputError:
    return InvalidInputError(f'Invalid server URL "{url}": {reason}', {"field": "url"})
