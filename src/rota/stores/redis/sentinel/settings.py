"""What an address says of the Sentinels: where they are, and what they are to be asked for."""

import re
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

SCHEMES = ("redis+sentinel", "rediss+sentinel")
DEFAULT_PORT = 26379

_EXAMPLE = "redis+sentinel://host1:26379,host2:26379/service/0"
_SERVICE = re.compile(r"[A-Za-z0-9_.-]{1,255}")


class RefusedPartError(ValueError):
    """Says what is wrong with an address, and repeats nothing that could be secret."""


class Place(NamedTuple):
    """Where somebody listens."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Sentinels:
    """Those who watch over a service, any of whom may be asked who its primary is."""

    address: str = field(repr=False)
    """The whole of it, but for options."""
    places: tuple[Place, ...]
    service: str
    is_encrypted: bool = False
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of a connection to one of them: user, password and certificates."""


def read_watched(front: str, options: MutableMapping[str, str]) -> tuple[str, Sentinels]:
    """What the driver is to know of the server, as an address, and whom to ask where it is.

    ``front`` is the address without ``options``, from which those are taken that are meant for the
    Sentinels alone; certificates are for both. Raises RefusedPartError.
    """
    scheme, _, rest = front.partition("://")
    server, _, path = rest.partition("/")
    credentials, at, hosts = server.rpartition("@")
    if not hosts:
        raise RefusedPartError(f"it names no Sentinel: {_EXAMPLE}")
    service, _, database = path.strip("/").partition("/")
    _check_path(service, database)
    sentinels = Sentinels(
        front,
        _read_places(hosts),
        service,
        is_encrypted=scheme.startswith("rediss"),
        options=_take_options(options),
    )
    return f"redis://{credentials}{at}{service}/{database or 0}", sentinels


def _check_path(service: str, database: str) -> None:
    if not service:
        raise RefusedPartError(f"it names no service that Sentinels watch over: {_EXAMPLE}")
    if _SERVICE.fullmatch(service) is None:
        raise RefusedPartError(
            "the service must be letters, digits, dots, hyphens and underscores: /service/0"
        )
    if database and not database.isdigit():
        raise RefusedPartError("a database of Redis is a number, such as /service/0")


def _take_options(options: MutableMapping[str, str]) -> dict[str, str]:
    theirs = {name: value for name, value in options.items() if name.startswith("ssl_")}
    for name in ("username", "password"):
        if f"sentinel_{name}" in options:
            theirs[name] = options.pop(f"sentinel_{name}")
    if "username" in theirs and "password" not in theirs:
        raise RefusedPartError("sentinel_username needs a sentinel_password")
    return theirs


def _read_places(hosts: str) -> tuple[Place, ...]:
    places = tuple(map(_read_place, hosts.split(",")))
    if len(set(places)) < len(places):
        raise RefusedPartError("it names a Sentinel twice")
    return places


def _read_place(text: str) -> Place:
    try:
        split = urlsplit(f"//{text}")
        port = split.port
    except ValueError as error:
        reason = "the port of a Sentinel must be a number from 1 to 65535"
        raise RefusedPartError(reason) from error
    if not split.hostname or port == 0 or text.endswith(":"):
        raise RefusedPartError(f"each Sentinel is a host, with a port if it is not {DEFAULT_PORT}")
    return Place(split.hostname, port or DEFAULT_PORT)
