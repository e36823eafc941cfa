"""One request for a page: the caller, its form, its links, its preferences, and recent results."""

from asyncio import Future, ensure_future, shield
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import parse_qs, quote, unquote, urlencode
from zoneinfo import ZoneInfo

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from rota.auth.caller import Scope
from rota.clock.system import monotonic
from rota.errors import (
    InvalidInputError,
    InvalidRequestError,
    JobNotFoundError,
    RequestTooLargeError,
)
from rota.jobs import Job, JobId
from rota.jobs.fields import normalize_job_id
from rota.server.http.context import Admitted
from rota.server.http.guards import HOME
from rota.triggers.zone import load_zone

CHEAP_SECONDS = 0.1
"""A result that takes no longer than this is never cached."""

KEPT_TIMES = 8.0
LONGEST_SECONDS = 20.0
MOST_KEPT = 200
LONGEST_FORM = 256 * 1024
MOST_FIELDS = 2_000

DISPLAY_COOKIE = "rota_display"
KEPT_SECONDS = 365 * 24 * 60 * 60
THEMES = {"": "as the system", "light": "light", "dark": "dark"}

_LONGEST_NUMBER = 12
_FORM = "application/x-www-form-urlencoded"

Found = TypeVar("Found")


class RecentResults:
    """Caches expensive results for a short time, by tenant and key.

    Pages refresh themselves every few seconds for every viewer. A result is kept eight times as
    long as it took, so that it keeps the store busy for a small share of the time only.
    ``read_seconds`` is replaced in tests only.
    """

    def __init__(self, read_seconds: Callable[[], float] = monotonic) -> None:
        self._read_seconds = read_seconds
        self._kept: dict[tuple[str, str], tuple[float, Any]] = {}
        self._loading: dict[tuple[str, str], Future[Any]] = {}

    async def get(self, tenant: str, key: str, load: Callable[[], Awaitable[Found]]) -> Found:
        """The cached result, or a loaded one. Concurrent callers share one load."""
        place = tenant, key
        until, found = self._kept.get(place, (0.0, None))
        if self._read_seconds() < until:
            return found  # type: ignore[no-any-return]  # each key has one type
        loading = self._loading.get(place)
        if loading is None:
            loading = self._loading[place] = ensure_future(self._load(place, load))
        result: Found = await shield(loading)
        return result

    def forget(self, tenant: str) -> None:
        """Drop the tenant's results, so that a change shows at once."""
        for results in (self._kept, self._loading):
            for place in [each for each in results if each[0] == tenant]:
                del results[place]

    async def _load(self, place: tuple[str, str], load: Callable[[], Awaitable[Found]]) -> Found:
        begun = self._read_seconds()
        mine = self._loading.get(place)
        try:
            found = await load()
        finally:
            is_current = mine is not None and self._loading.get(place) is mine
            if is_current:
                del self._loading[place]
        ended = self._read_seconds()
        if is_current and ended - begun > CHEAP_SECONDS:
            self._keep(place, ended + min((ended - begun) * KEPT_TIMES, LONGEST_SECONDS), found)
        return found

    def _keep(self, place: tuple[str, str], until: float, found: Any) -> None:
        self._kept.pop(place, None)
        while len(self._kept) >= MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[place] = until, found


class Form(NamedTuple):
    """The values of a form by name; a name may have several."""

    values: Mapping[str, list[str]]

    def one(self, name: str, default: str = "") -> str:
        """The last value of that name, stripped."""
        return self.values.get(name, [default])[-1].strip()

    def number(self, name: str) -> int | None:
        """The whole number of that name; None if the field is empty."""
        text = self.one(name)
        if not text:
            return None
        if text.isascii() and text.removeprefix("-").isdigit() and len(text) < _LONGEST_NUMBER:
            return int(text)
        raise InvalidRequestError(name, f'must be a whole number, got "{text[:40]}"')

    @property
    def why(self) -> str | None:
        """The reason, for the audit log."""
        return self.one("why") or None

    @classmethod
    def of(cls, values: Mapping[str, str]) -> Self:
        """A form with one value for each name."""
        return cls({name: [value] for name, value in values.items()})

    def choose(self, name: str, choices: Mapping[str, Found]) -> Found:
        """What the value of that name stands for."""
        if self.one(name) not in choices:
            raise InvalidRequestError(name, f"must be one of {', '.join(choices)}")
        return choices[self.one(name)]

    def several(self, name: str) -> list[str]:
        return self.values.get(name, [])


async def read_form(request: Request) -> Form:
    """Read a form, with line breaks as JSON and Python have them.

    One that is too large is refused and not read to its end.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise InvalidRequestError("content-type", f"must be {_FORM}")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LONGEST_FORM:
            raise RequestTooLargeError(LONGEST_FORM)
    try:
        text = body.decode("ascii")
        values = parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise InvalidRequestError("body", "must be a form with fields in UTF-8") from error
    return Form({name: [it.replace("\r\n", "\n") for it in sent] for name, sent in values.items()})


class MenuEntry(NamedTuple):
    """A page in the menu, and the scope that a caller needs for it."""

    name: str
    steps: tuple[str, ...]
    title: str
    scope: Scope


class Visit(Admitted, frozen=True, kw_only=True, gc=True):
    """What every page is made from. ``has_sign_in``: people sign in here, and may sign out.

    ``zone`` is the zone of the server, in which declarative tasks run. Times are shown in
    ``shown_zone``, which the person may choose, and in the colours of ``theme``.
    ``menu`` has every page that the caller may see.
    ``runs_installation``: the person may look at the pages of any tenant.
    """

    request: Request
    recent: RecentResults
    now: datetime
    zone: tzinfo
    shown_zone: tzinfo
    theme: str = ""
    has_sign_in: bool = False
    menu: Sequence[MenuEntry] = ()
    runs_installation: bool = False

    @property
    def may_operate(self) -> bool:
        return self.caller.may(Scope.OPERATE)

    @property
    def may_administer(self) -> bool:
        """Whether the caller may see what belongs to no tenant, such as declarative tasks."""
        return self.caller.may(Scope.ADMIN)

    @property
    def is_refresh(self) -> bool:
        """Whether the page asks only for the part that changes."""
        return self.request.headers.get("hx-request") == "true"

    @property
    def page(self) -> str:
        """The page of the menu that this one belongs to."""
        path = self.request.url.path.removeprefix(root_of(self.request)).removeprefix(HOME)
        return path.strip("/").partition("/")[0] or "overview"

    @property
    def here(self) -> str:
        """The address of this page with its query."""
        path = self.request.url.path
        query = self.request.url.query
        return f"{quote(path)}?{query}" if query else quote(path)

    @property
    def base(self) -> str:
        """The address of the service, for examples in the pages."""
        url = self.request.url
        return f"{url.scheme}://{url.netloc}{root_of(self.request)}"

    async def cached(self, key: str, load: Callable[[], Awaitable[Found]]) -> Found:
        """The result for this tenant; a recent one if loading takes long."""
        return await self.recent.get(self.tenant, key, load)

    async def find_jobs(self, ids: Sequence[JobId]) -> list[Job]:
        """The tenant's jobs with these ids that still exist, in the same order."""
        found = await self.context.store.get(self.tenant, ids) if ids else {}
        return [found[each] for each in ids if each in found]

    def ask(self, name: str, default: str = "") -> str:
        """One value of the query."""
        return self.request.query_params.get(name, default)

    def part(self, name: str) -> str:
        """One part of the path."""
        return str(self.request.path_params[name])

    @property
    def cursor(self) -> str | None:
        """Where in a list the page begins; None for the first page."""
        return self.ask("cursor") or None

    def link(self, *steps: str, **query: object) -> str:
        return link_to(self.request, *steps, **query)


def link_pages(
    visit: Visit, name: str, next_cursor: str | None, **query: object
) -> dict[str, str | None]:
    """The links to the next page of a list, and back to the first."""
    return {
        "older": visit.link(name, **query, cursor=next_cursor) if next_cursor else None,
        "newest": visit.link(name, **query) if visit.cursor else None,
    }


async def find_job(visit: Visit) -> Job:
    """The job that the path names; JobNotFoundError when the tenant has none."""
    asked = visit.part("job_id")
    job_id = normalize_job_id(asked)
    found = [] if job_id is None else await visit.find_jobs([job_id])
    if not found:
        raise JobNotFoundError(asked[:100])
    return found[0]


def root_of(request: Request) -> str:
    """The prefix under which the service is mounted."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def link_to(request: Request, *steps: str, **query: object) -> str:
    """The address of a page, with the prefix of the mount.

    Steps and values are escaped. Empty values are left out.
    """
    path = "/".join([f"{quote(root_of(request))}{HOME}", *(quote(step, safe="") for step in steps)])
    return path + write_query(query)


class Chosen(msgspec.Struct, frozen=True):
    """The filters in the address of a list. Its fields are texts; an empty one does not filter."""

    @classmethod
    def read(cls, given: Mapping[str, str]) -> Self:
        names = [field.encode_name for field in msgspec.structs.fields(cls)]
        return cls(*(given.get(name, "").strip() for name in names))

    @property
    def is_narrow(self) -> bool:
        return any(msgspec.structs.astuple(self))

    @property
    def query(self) -> str:
        """The filters as a query string."""
        return write_query(self.as_query()).removeprefix("?")

    def as_query(self) -> dict[str, str]:
        query: dict[str, str] = msgspec.to_builtins(self)
        return query


def write_query(query: Mapping[str, object]) -> str:
    chosen = {name: value for name, value in query.items() if value not in {None, ""}}
    return f"?{urlencode(chosen, doseq=True)}" if chosen else ""


def keep_cookie(
    visit: Visit, answer: Response, name: str, value: str, max_age: int | None = None
) -> None:
    """Send a cookie for the pages alone."""
    is_secure = visit.request.url.scheme == "https"
    answer.set_cookie(
        name,
        value,
        max_age,
        path=root_of(visit.request) + HOME,
        secure=is_secure,
        httponly=True,
        samesite="strict",
    )


def name_target(visit: Visit) -> str:
    """This page as ``read_target`` takes it; nothing for the answer to a form."""
    root = quote(root_of(visit.request))
    return visit.here.removeprefix(root) if visit.request.method == "GET" else ""


def read_target(request: Request, wanted: str) -> str:
    """The requested page if it is one of ours, otherwise the overview."""
    is_ours = wanted == HOME or wanted.startswith((f"{HOME}/", f"{HOME}?"))
    if not is_ours or not wanted.isascii() or not wanted.isprintable() or "\\" in wanted:
        return link_to(request)
    return f"{root_of(request)}{wanted}"


class Preferences(NamedTuple):
    """``theme`` is a key of ``THEMES``. Without ``zone``, times are in the zone of the server."""

    theme: str = ""
    zone: ZoneInfo | None = None

    @property
    def zone_name(self) -> str:
        return "" if self.zone is None else self.zone.key


def read_preferences(request: Request) -> Preferences:
    """The preferences in the cookie. What is not valid there counts as not chosen."""
    theme, _, name = unquote(request.cookies.get(DISPLAY_COOKIE, "")).partition(" ")
    try:
        zone = load_zone(name) if name else None
    except InvalidInputError:
        zone = None
    return Preferences(theme if theme in THEMES else "", zone)


async def save_preferences(visit: Visit, form: Form) -> Response:
    """Keep what was chosen in a cookie, and show the same page again."""
    theme, name = form.one("theme"), form.one("zone")
    if theme not in THEMES:
        raise InvalidRequestError("theme", "must be light, dark or empty")
    if name:
        load_zone(name)
    answer = Response(
        status_code=303, headers={"Location": read_target(visit.request, form.one("back"))}
    )
    keep_cookie(visit, answer, DISPLAY_COOKIE, quote(f"{theme} {name}"), KEPT_SECONDS)
    return answer


def name_zone(zone: tzinfo) -> str:
    """The name of a zone for people."""
    return zone.key if isinstance(zone, ZoneInfo) else str(zone)
