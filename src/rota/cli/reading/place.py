"""Where a command finds what it is about: a server, or a store that it opens itself."""

import asyncio
import getpass
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

from cyclopts import Parameter

from rota.auth.tokens import Secret
from rota.cli.rendering.terminal import Terminal
from rota.client import Client, ServerAddress, StoreAddress, open_client
from rota.errors import InvalidInputError, StoreUnavailableError
from rota.jobs.record import DEFAULT_TENANT
from rota.runtime.configuration import DEFAULT_STORE
from rota.runtime.wiring import is_missing

URL_VARIABLE = "ROTA_URL"
TOKEN_VARIABLE = "ROTA_TOKEN"  # noqa: S105 - the name of a variable
STORE_VARIABLE = "ROTA_STORE"

Found = TypeVar("Found")


@Parameter(name="*", group="Where")
@dataclass(frozen=True)
class Whereabouts:
    """The options that say where; without any, the environment does."""

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
    """The same, and whose: every job belongs to a tenant."""

    tenant: Annotated[
        str | None,
        Parameter(
            metavar="NAME",
            help="Whose jobs these are; a server knows it by the token. Default: default.",
        ),
    ] = None


NOWHERE = Place()


def find_address(
    place: Whereabouts, environ: Mapping[str, str] | None = None
) -> StoreAddress | ServerAddress:
    """The address that the options name, or else the environment; contradictions are refused."""
    given = os.environ if environ is None else environ
    tenant = place.tenant if isinstance(place, Place) else None
    if place.store is not None and place.url is not None:
        raise _refuse("--url", "--url and --store are both given: ask a server or a store")
    url = place.url or ("" if place.store else given.get(URL_VARIABLE, "").strip())
    if url:
        if tenant is not None:
            raise _refuse("--tenant", "--tenant is for a store: a server knows it by the token")
        return ServerAddress(url=url, token=_read_token(place.token_file, given))
    if place.token_file is not None:
        raise _refuse("--token-file", "--token-file is for a server: give its --url, too")
    store = place.store or given.get(STORE_VARIABLE, "").strip() or DEFAULT_STORE
    return StoreAddress(url=store, tenant=tenant or DEFAULT_TENANT, who=name_user())


def converse(
    terminal: Terminal,
    place: Whereabouts,
    talk: Callable[[Client], Awaitable[Found]],
    *,
    makes: bool = False,
) -> Found:
    """What ``talk`` finds out from a client that is open meanwhile.

    Only what ``makes`` something makes the store, too: whoever looks into the wrong folder is told
    so, and leaves no file there.
    """
    address = find_address(place)
    if not makes:
        require_store(address)

    async def run() -> Found:
        async with open_client(address, terminal.clock) as client:
            return await talk(client)

    return asyncio.run(run())


def require_store(address: StoreAddress | ServerAddress) -> None:
    """Refuse a store that is not there yet."""
    if isinstance(address, StoreAddress) and is_missing(address.url):
        raise StoreUnavailableError(
            f"There is no store at {address.url}: rota up makes it, and so does rota store migrate",
            {"address": address.url},
        )


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
            reason = getattr(error, "strerror", None) or "it is no text"
            raise _refuse("--token-file", f'Cannot read "{file}": {reason}') from error
    if not text:
        return None
    if not (text.isascii() and text.isprintable()) or " " in text:
        where = TOKEN_VARIABLE if file is None else "--token-file"
        raise _refuse(where, f"{where} holds no token")
    return Secret(text)


def _refuse(field: str, message: str) -> InvalidInputError:
    return InvalidInputError(message, {"field": field})
