"""The address of a store: which database, which schema in it, and how to show it."""

import re
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from urllib.parse import parse_qsl, urlencode, urlsplit

from rota.errors import InvalidStoreUrlError

DEFAULT_SCHEMA = "rota"
_PLACES = re.compile(r"([^:/]*:[0-9]+,?)+/[^:/]*")
"""Hosts, ports and a database; a user and the start of a password look different."""
_SCHEMA_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True)
class PostgresSettings:
    """Which database, how many connections, and how long to wait for it."""

    url: str = field(repr=False)
    schema: str = DEFAULT_SCHEMA
    connection_count: int = 8
    connect_for: timedelta = timedelta(seconds=10)
    answer_for: timedelta = timedelta(seconds=20)

    @property
    def label(self) -> str:
        """The address to show: without password and options."""
        return masked(self.url)


def read_address(url: str) -> PostgresSettings:
    """Settings from ``postgresql://user@host/database?schema=rota``.

    Options other than ``schema`` are those of PostgreSQL itself. Raises InvalidStoreUrlError.
    """
    if "#" in url:
        raise InvalidStoreUrlError(masked(url), "a # must be written as %23")
    front, _, query = url.partition("?")
    options = _read_options(url, query)
    schema = dict(options).get("schema", DEFAULT_SCHEMA)
    if _SCHEMA_NAME.fullmatch(schema) is None:
        raise InvalidStoreUrlError(
            masked(url),
            "the schema must be named in lower case letters, digits and _, with at most 63 of "
            "them, and not begin with a digit or pg_",
        )
    others = urlencode([option for option in options if option[0] != "schema"])
    return PostgresSettings(f"{front}?{others}" if others else front, schema)


def _read_options(url: str, query: str) -> list[tuple[str, str]]:
    """Names and values. Errors do not show the cause, because it repeats a part of the address."""
    try:
        urlsplit(url)
    except ValueError:
        raise InvalidStoreUrlError(masked(url), "it cannot be read as an address") from None
    try:
        return parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        reason = "its options are written as name=value, with & in between"
        raise InvalidStoreUrlError(masked(url), reason) from None


@lru_cache(maxsize=32)
def masked(url: str) -> str:
    """The address without secrets: it may hold passwords in two places."""
    scheme, _, rest = url.partition("://")
    server, *options = re.split(r"[?#]", rest, maxsplit=1)
    if "@" not in server and "@" in "".join(options) and _PLACES.fullmatch(server) is None:
        # A password may hold a ? or a # that is not escaped: then all of this may be the password.
        return f"{scheme}://{server.partition(':')[0]}"
    credentials, at, place = server.rpartition("@")
    user = credentials.partition(":")[0]
    return f"{scheme}://{user}{at}{place}"
