"""The options that name a server or a store, and the environment variables behind them."""

import getpass
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

from cyclopts import Parameter

from rota.auth.tokens import Secret
from rota.errors import InvalidInputError, StoreUnavailableError
from rota.jobs.record import DEFAULT_TENANT
from rota.runtime.wiring import is_missing

DEFAULT_STORE = "sqlite:///rota.db"
URL_VARIABLE = "ROTA_URL"
TOKEN_VARIABLE = "ROTA_TOKEN"  # noqa: S105 - the name of a variable
STORE_VARIABLE = "ROTA_STORE"


@Parameter(name="*", group="Where")
@dataclass(frozen=True)
class Whereabouts:
    """A server or a store; by default what the environment names."""

    store: Annotated[
        str | None,
        Parameter(
            metavar="URL",
            help="Ask a store: sqlite:///rota.db, postgresql://..., redis://... "
            "Default: ROTA_STORE, or else sqlite:///rota.db.",
        ),
    ] = None
    url: Annotated[
        str | None,
        Parameter(
            metavar="URL",
            help="Ask a server, such as http://127.0.0.1:8080. Default: ROTA_URL.",
        ),
    ] = None
    token_file: Annotated[
        Path | None,
        Parameter(
            metavar="PATH",
            help="A file that holds the token for the server. Default: ROTA_TOKEN.",
        ),
    ] = None


@Parameter(name="*", group="Where")
@dataclass(frozen=True)
class Place(Whereabouts):
    """The same, and the tenant whose jobs these are."""

    tenant: Annotated[
        str | None,
        Parameter(
            metavar="NAME",
            help="Whose jobs these are; a server knows it by the token. Default: default.",
        ),
    ] = None


NOWHERE = Place()


class Target(NamedTuple):
    """What a command asks: a server with a token, or a store as a tenant."""

    url: str
    is_server: bool = False
    token: Secret | None = None
    tenant: str = DEFAULT_TENANT

    def require(self) -> None:
        """Refuse a store whose file does not exist."""
        if not self.is_server and is_missing(self.url):
            raise StoreUnavailableError(
                f"There is no store at {self.url}: rota up makes it, and so does "
                "rota store migrate",
                {"address": self.url},
            )


def find_target(place: Whereabouts, environ: Mapping[str, str] | None = None) -> Target:
    """The server or store that the options name, or else the environment.

    Raises InvalidInputError when options contradict each other.
    """
    given = os.environ if environ is None else environ
    tenant = place.tenant if isinstance(place, Place) else None
    if place.store is not None and place.url is not None:
        raise _refuse("--url", "--url and --store are both given: ask a server or a store")
    url = place.url or ("" if place.store else given.get(URL_VARIABLE, "").strip())
    if url:
        if tenant is not None:
            raise _refuse("--tenant", "--tenant is for a store: a server knows it by the token")
        return Target(url, is_server=True, token=_read_token(place.token_file, given))
    if place.token_file is not None:
        raise _refuse("--token-file", "--token-file is for a server: give its --url, too")
    store = place.store or given.get(STORE_VARIABLE, "").strip() or DEFAULT_STORE
    return Target(store, tenant=tenant or DEFAULT_TENANT)


def name_user() -> str:
    """Who runs this program, for the audit log."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "command line"


def _read_token(file: Path | None, environ: Mapping[str, str]) -> Secret | None:
    if file is None:
        text = environ.get(TOKEN_VARIABLE, "").strip()
    else:
        try:
            text = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise _refuse("--token-file", f'Cannot read "{file}": {reason}') from error
    if not text:
        return None
    if not (text.isascii() and text.isprintable()) or " " in text:
        where = TOKEN_VARIABLE if file is None else "--token-file"
        raise _refuse(where, f"{where} does not hold a token")
    return Secret(text)


def _refuse(field: str, message: str) -> InvalidInputError:
    return InvalidInputError(message, {"field": field})
