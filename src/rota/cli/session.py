"""What every command that asks the service has: where to ask, and how to print the answer."""

import asyncio
import getpass
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar
from urllib.parse import quote

from cyclopts import Parameter

from rota.auth.tokens import Secret
from rota.cli.options import ChosenZone, ZoneOption, choose_zone, open_input, value
from rota.cli.output import Output, Row, Viewer, count_of, print_table
from rota.errors import (
    InvalidInputError,
    InvalidPayloadError,
    InvalidStoreUrlError,
    NotFoundError,
    RefusedError,
    StoreUnavailableError,
    invalid,
)
from rota.jobs import JobId, normalize_job_id
from rota.jobs.fields import is_plain_queue
from rota.jobs.record import DEFAULT_TENANT
from rota.runtime.wiring import DEFAULT_STORE, check_address, is_missing

URL_VARIABLE = "ROTA_URL"
TOKEN_VARIABLE = "ROTA_TOKEN"  # noqa: S105 - the name of a variable
STORE_VARIABLE = "ROTA_STORE"

_LONGEST_TOKEN_FILE = 1 << 16
TOKEN_ID_LENGTH = 24
MOST_TOKENS = 10_000
"""How many tokens of a tenant are searched for the beginning of an id."""

Found = TypeVar("Found")
Query = Mapping[str, Any]
Listed = tuple[list[Any], str | None]
"""Items, and the cursor of the next if there are more."""


def path_of(*steps: str) -> str:
    """A path of which every step is one, whatever it holds."""
    return "".join(f"/{quote(step, safe='')}" for step in steps)


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

    def find_address(self, *, checks_payloads: bool = False) -> Any:
        """The ``ServerAddress`` or ``StoreAddress`` that ``open_client`` takes."""
        from rota.client import ServerAddress, StoreAddress  # noqa: PLC0415 - loads an HTTP client

        if self.is_server:
            return ServerAddress(url=self.url, token=self.token)
        return StoreAddress(
            url=self.url, tenant=self.tenant, who=name_user(), checks_payloads=checks_payloads
        )


@Parameter(name="*", group="Where")
@dataclass(kw_only=True)
class Session(Output):
    """A server or a store, by default what the environment names.

    A path is given as its steps: ``get("jobs", job_id)``. A command that only reads never creates
    a store: without ``makes``, a missing file is an error.
    """

    store: Annotated[
        str | None,
        value(
            "URL",
            "Ask a store: sqlite:///rota.db, postgresql://..., redis://... "
            "Default: ROTA_STORE, or else sqlite:///rota.db.",
        ),
    ] = None
    url: Annotated[
        str | None, value("URL", "Ask a server, such as http://127.0.0.1:8080. Default: ROTA_URL.")
    ] = None
    token_file: Annotated[
        Path | None,
        value("PATH", "A file that holds the token for the server. Default: ROTA_TOKEN."),
    ] = None

    def find_target(self, environ: Mapping[str, str] | None = None) -> Target:
        """The server or store that the options name, or else the environment.

        Raises InvalidInputError when options contradict each other.
        """
        given = os.environ if environ is None else environ
        tenant = self.tenant if isinstance(self, TenantSession) else None
        if tenant == "":
            raise invalid("--tenant", "is empty; name a tenant, or leave it out for the default")
        if self.store is not None and self.url is not None:
            raise invalid("--url", "and --store are both given: ask a server or a store")
        url = self.url or ("" if self.store else given.get(URL_VARIABLE, "").strip())
        if url:
            if tenant is not None:
                raise invalid("--tenant", "is for a store: a server knows it by the token")
            return Target(url, is_server=True, token=_read_token(self.token_file, given))
        if self.token_file is not None:
            raise invalid("--token-file", "is for a server: give its --url, too")
        named = given.get(STORE_VARIABLE, "").strip()
        if named and not self.store:
            _check_variable(named)
        store = self.store or named or DEFAULT_STORE
        return Target(store, tenant=DEFAULT_TENANT if tenant is None else tenant)

    @property
    def local(self) -> ChosenZone:
        """The zone of ``--zone``, or else of this host."""
        return choose_zone(self.zone if isinstance(self, Zoned) else None)

    @property
    def viewer(self) -> Viewer:
        """Who looks, in that zone."""
        return Viewer(self.terminal.clock.now(), self.local.zone)

    def print_items(
        self,
        listed: Listed,
        make_row: Callable[[Any, Viewer], Row],
        *,
        noun: str = "job",
    ) -> None:
        """Print a list of items, and whether there are more at the cursor that follows them."""
        items, cursor = listed
        has_more = cursor is not None
        if self.is_done({"items": items, "next_cursor": cursor, "has_more": has_more}):
            return
        viewer = self.viewer
        print_table(self.terminal.out, [make_row(item, viewer) for item in items])
        ending = "; there are more, see --limit" if has_more else ""
        self.terminal.print_text(f"{count_of(len(items), noun)}{ending}", "bold")

    def talk(
        self, talk: Callable[[Any], Awaitable[Found]], *, makes: bool = False, reads: bool = False
    ) -> Found:
        """Call ``talk`` with an open ``Client``, and return what it returns."""
        from rota.client import open_client  # noqa: PLC0415 - loads an HTTP client

        target = self.find_target()
        if not makes:
            target.require()

        async def run() -> Found:
            address = target.find_address(checks_payloads=not reads)
            async with open_client(address, self.terminal.clock) as client:
                try:
                    return await talk(client)
                except RefusedError as error:
                    if target.is_server and target.token is None:
                        error.add_note(f"Give a token: --token-file PATH, or {TOKEN_VARIABLE}")
                    raise

        return asyncio.run(run())

    def ask(
        self,
        method: str,
        *steps: str,
        body: Any = None,
        query: Query | None = None,
        makes: bool = False,
    ) -> Any:
        path, reads = path_of(*steps), method == "GET"
        return self.talk(
            lambda it: it.ask(method, path, query=query, body=body), makes=makes, reads=reads
        )

    def get(self, *steps: str, query: Query | None = None) -> Any:
        return self.ask("GET", *steps, query=query)

    def post(
        self, *steps: str, body: Any = None, query: Query | None = None, makes: bool = False
    ) -> Any:
        return self.ask("POST", *steps, body=body, query=query, makes=makes)

    def list_all(self, *steps: str, query: Query | None = None) -> Listed:
        """The items of a list that has no pages."""
        return self.get(*steps, query=query)["items"], None

    def collect(self, *steps: str, limit: int, query: Query | None = None) -> Listed:
        """The first ``limit`` items of a list, and the cursor of the next if there are more."""
        path = path_of(*steps)
        items, cursor = self.talk(lambda it: it.collect(path, query, limit=limit), reads=True)
        return items, cursor

    def find_job(self, text: str, field: str = "ID") -> JobId:
        """The id of the only job whose id is, or begins with, ``text``."""
        whole = normalize_job_id(text)
        if whole is not None:
            return whole
        found, _ = self.collect("jobs", "search", query={"q": f"id:{text}"}, limit=2)
        return JobId(_choose_one([str(job["id"]) for job in found], text, "job", field))

    def find_token(self, text: str) -> str:
        """The id of the only token whose id is, or begins with, ``text``."""
        if len(text) >= TOKEN_ID_LENGTH:
            return text
        listed, _ = self.collect("tokens", limit=MOST_TOKENS)
        ids = [str(token["id"]) for token in listed]
        return _choose_one([it for it in ids if it.startswith(text)], text, "token", "ID")


def _choose_one(ids: Sequence[str], text: str, noun: str, field: str) -> str:
    if not ids:
        raise NotFoundError(
            f"no {noun} has an id that begins with {text}; rota {noun}s list shows the ids",
            {"id": text},
        )
    if len(ids) > 1:
        named = " and ".join(ids[:2])
        reason = f"is the beginning of several ids, such as {named}; give more of it"
        raise InvalidInputError(f'{field} "{text}" {reason}', {"field": field, "reason": reason})
    return ids[0]


@Parameter(name="*", group="Where")
@dataclass(kw_only=True)
class Zoned(Session):
    """The same, and the zone in which instants are shown and wall times are read."""

    zone: Annotated[ZoneOption, Parameter(group="Parameters")] = None


@Parameter(name="*", group="Where")
@dataclass(kw_only=True)
class TenantSession(Session):
    """The same, and the tenant whose jobs these are."""

    tenant: Annotated[
        str | None,
        value("NAME", "Whose jobs these are; a server knows it by the token. Default: default."),
    ] = None

    def create_job(self, body: Mapping[str, Any]) -> tuple[Any, bool]:
        """Create a job, and print what the server warns about. Returns it, and whether it is new.

        ``POST /jobs`` takes the queue names of specification 5 only; ``/jobs/bulk`` takes all.
        """
        if not is_plain_queue(str(body["queue"])):
            made = self._create_in_bulk(body)
            return made["items"][0], made["created_count"] == 1
        created = self.talk(lambda it: it.create("/jobs", body), makes=True)
        for remark in (created.warning, _doubt(created.document)):
            if remark is not None:
                self.terminal.print_remark(remark)
        return created.document, created.is_new

    def _create_in_bulk(self, body: Mapping[str, Any]) -> Any:
        """Create one job as a list; an error names its fields as those of a single job."""
        try:
            return self.ask("POST", "jobs", "bulk", body={"jobs": [body]}, makes=True)
        except InvalidInputError as error:
            field = str(error.details.get("field"))
            if not field.startswith(_ONE_OF_A_LIST):
                raise
            details = {**error.details, "field": field.removeprefix(_ONE_OF_A_LIST)}
            raise InvalidInputError(error.message.replace(_ONE_OF_A_LIST, ""), details) from error


@Parameter(name="*", group="Where")
@dataclass(kw_only=True)
class ZonedSession(TenantSession, Zoned):
    """A tenant and a zone."""


_ONE_OF_A_LIST = "jobs[0]."
HERE = TenantSession()
LOCALLY = ZonedSession()


def _check_variable(address: str) -> None:
    try:
        check_address(address)
    except InvalidStoreUrlError as error:
        error.add_note(f"The variable {STORE_VARIABLE} has this address.")
        raise


def _doubt(job: Mapping[str, Any]) -> str | None:
    """What a built-in kind will say against the payload. It may have another handler, so no more.

    A built-in handler discards the job with the first attempt.
    """
    from rota.kinds.http_request import HttpRequest  # noqa: PLC0415 - loads an HTTP client
    from rota.kinds.log_message import LogMessage, read_payload  # noqa: PLC0415 - as above

    models: dict[str, Any] = {"http.request": HttpRequest, "log.message": LogMessage}
    try:
        if job["kind"] in models:
            read_payload(job["payload"], models[job["kind"]])
    except InvalidPayloadError as error:
        fault = f"payload.{error.message}".replace("payload.payload", "payload")
        return f"The built-in kind {job['kind']} will discard this job: {fault}"
    return None


def name_user() -> str:
    """Who runs this program, for the audit log."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "command line"


def _read_token(file: Path | None, environ: Mapping[str, str]) -> Secret | None:
    where = TOKEN_VARIABLE if file is None else "--token-file"
    if file is None:
        text = environ.get(TOKEN_VARIABLE, "").strip()
    else:
        with open_input(str(file)) as source:
            text = source.read(_LONGEST_TOKEN_FILE).decode("utf-8", "replace").strip()
    if not text:
        return None
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise invalid(where, "does not hold a token")
    return Secret(text)
